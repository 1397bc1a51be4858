import { hash } from "node:crypto";
import { CheckpointError, type CheckpointStatus } from "waymark";
import {
  countBytes,
  type FoundThread,
  removeThread,
  type ThreadQuery,
  type ThreadsSource,
  threadBatches,
} from "waymark/langgraph/records";
import type { Session } from "../cli.js";
import { confirm } from "../confirm.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { type ItemPrinter, JsonArrayPrinter } from "../items.js";
import type { Output } from "../output.js";
import { jsonText } from "../printable.js";
import { showProgress } from "../progress.js";
import { ShortTable } from "../prune/plan-table.js";
import { freedLines } from "../prune/prune-storage.js";
import { statusCell } from "../status-cell.js";
import type { Column } from "../table.js";
import { agoText, bytesText, counted } from "../words.js";

interface PlannedThread extends FoundThread {
  readonly bytes: number;
}

interface PruneThreadsOptions {
  /** In milliseconds. */
  readonly idle?: number | undefined;
  readonly status?: CheckpointStatus | undefined;
  readonly prefix?: string | undefined;
  readonly dryRun?: true | undefined;
  readonly allRows?: true | undefined;
  readonly yes?: true | undefined;
  readonly json?: true | undefined;
}

const SHOWN_KEPT = 5;

/** Shows the threads to remove, asks, and removes them. With `--dry-run`, it only shows them. */
export async function pruneThreads(session: Session, options: PruneThreadsOptions): Promise<void> {
  const { output } = session;
  const plan = makePlan(session, options);
  // Fingerprints by thread id, because the tasks of many threads may not fit in memory.
  const shown = new Map<string, string>();
  const total = await show(session, plan, options, shown);
  if (!options.json) {
    await output.line(output.colors.bold(`${total.text()} would go.`));
    if (total.threads > 0) for (const line of await freedLines(session, total.bytes)) await output.line(line);
  }
  if (options.dryRun) return;

  if (total.threads > 0) {
    await output.flush();
    await confirm(session, `Remove ${total.text()} from ${session.name}?`, options.yes === true);
  }
  const { removed, kept } = await apply(session, plan, shown);
  if (options.json) {
    const { threads, checkpoints, bytes } = removed;
    await output.line(jsonText({ threads, checkpoints, bytes, kept }));
  } else if (total.threads > 0) await output.line(`Removed ${removed.text()}.`);
  if (kept.length === 0) return;
  const names = kept.slice(0, SHOWN_KEPT).map((id) => JSON.stringify(id));
  const more = kept.length > names.length ? ` and ${kept.length - names.length} more` : "";
  await session.damage.warn(
    `${counted(kept.length, "thread")} kept, because a program wrote there meanwhile or holds the lease: ${names.join(", ")}${more}`,
  );
}

/** Finds the threads to remove. It is called twice: to show them, and to remove them. */
type ThreadPlan = () => AsyncIterable<PlannedThread>;

/** @throws {CommandError} The options don't select any threads. */
function makePlan(session: Session, options: PruneThreadsOptions): ThreadPlan {
  const { idle, status, prefix } = options;
  if (idle === undefined && status === undefined) {
    throw new CommandError(ExitCode.usage, "Say which threads: --idle 30d, or --status completed, or both.");
  }
  const idleSince = idle === undefined ? undefined : new Date(Date.now() - idle);
  return () => plannedThreads(session, { prefix, idleSince, status: status && [status] });
}

async function* plannedThreads(session: Session, query: ThreadQuery): AsyncGenerator<PlannedThread, void, void> {
  const source: ThreadsSource = {
    storage: session.storage,
    manager: await session.configured(),
    damaged: (record) => session.damage.add(record),
  };
  for await (const batch of threadBatches(source, query)) {
    for (const thread of batch) yield { ...thread, bytes: await countBytes(source, thread) };
  }
}

/** The totals of the threads to remove. */
class Total {
  threads = 0;
  checkpoints = 0;
  bytes = 0;

  add({ checkpoints, bytes }: Pick<PlannedThread, "checkpoints" | "bytes">): void {
    this.threads += 1;
    this.checkpoints += checkpoints;
    this.bytes += bytes;
  }

  /** `12 threads (340 checkpoints, 1.5 MiB)` */
  text(): string {
    return `${counted(this.threads, "thread")} (${counted(this.checkpoints, "checkpoint")}, ${bytesText(this.bytes)})`;
  }
}

/** Returns a hash that changes when a program writes to the thread. */
function hashThread({ tasks }: FoundThread): string {
  return hash("sha256", JSON.stringify(tasks.map(({ taskId, lastSequence }) => [taskId, lastSequence])), "base64");
}

/** Prints the threads to remove. */
async function show(
  { output }: Session,
  plan: ThreadPlan,
  options: PruneThreadsOptions,
  shown: Map<string, string>,
): Promise<Total> {
  const { dryRun, json, allRows = false } = options;
  const total = new Total();
  // With --json, the plan is printed only if nothing is removed (--dry-run); otherwise the result is printed.
  const isShown = !json || dryRun;
  const view: ItemPrinter<ThreadRow> = json
    ? new JsonArrayPrinter(output, '{"threads":[', "]}")
    : new ShortTable(output, makeColumns(output.colors), allRows);
  for await (const thread of plan()) {
    if (output.isClosed && dryRun) break;
    total.add(thread);
    const { id, status, stage, writtenAt, checkpoints, bytes } = thread;
    if (isShown) await view.add({ id, status, stage, writtenAt, checkpoints, bytes });
    shown.set(id, hashThread(thread));
  }
  if (isShown) await view.end();
  return total;
}

type ThreadRow = Pick<PlannedThread, "id" | "status" | "stage" | "writtenAt" | "checkpoints" | "bytes">;

function makeColumns(colors: Output["colors"]): readonly Column<ThreadRow>[] {
  const nowMs = Date.now();
  return [
    { head: "PLAN", cell: () => ({ text: "remove", color: colors.red }) },
    { head: "THREAD", flexible: true, cell: ({ id }) => id },
    { head: "CHECKPOINTS", align: "right", cell: ({ checkpoints }) => String(checkpoints) },
    { head: "STATUS", cell: ({ status }) => statusCell(status, colors) },
    { head: "WRITTEN", cell: ({ writtenAt }) => agoText(writtenAt, nowMs) },
    { head: "SIZE", align: "right", cell: ({ bytes }) => bytesText(bytes) },
  ];
}

/** Removes the shown threads, except those that have changed since. */
async function apply(
  { storage }: Session,
  plan: ThreadPlan,
  left: Map<string, string>,
): Promise<{ readonly removed: Total; readonly kept: readonly string[] }> {
  const removed = new Total();
  const progress = await showProgress("pruning", () => left.size);
  try {
    for await (const thread of plan()) {
      if (left.get(thread.id) !== hashThread(thread) || !(await removeThread(storage, thread))) continue;
      removed.add(thread);
      left.delete(thread.id);
      progress.advance();
    }
  } catch (cause) {
    if (!(cause instanceof CheckpointError) || removed.threads === 0) throw cause;
    throw new CommandError(ExitCode.failed, `${cause.message} Removed before it: ${removed.text()}.`, { cause });
  } finally {
    progress.stop();
  }
  return { removed, kept: [...left.keys()] };
}
