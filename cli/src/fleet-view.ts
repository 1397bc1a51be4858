import { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { CheckpointError } from "waymark";
import { isCancelled } from "waymark/kit";
import type { Session } from "./cli.js";
import { Damage } from "./damage.js";
import { describeTask } from "./langgraph/find-tasks.js";
import { holderText } from "./leases.js";
import { Output } from "./output.js";
import { printable } from "./printable.js";
import { type Fleet, type FleetQuery, readFleet } from "./queries/fleet.js";
import type { ListedTask } from "./queries/tasks.js";
import { whereText } from "./run-steps.js";
import { statusCell } from "./status-cell.js";
import { type Column, TablePrinter } from "./table.js";
import { isPutBack, standText, waitsText } from "./waits.js";
import { agoText, countText, forText, timeText } from "./words.js";

const EVERY_MS = 1_000;
/** The pause after a look at the storage is at least this many times as long as the look, to keep the load low. */
const REST = 4;
/** Lines besides the tasks: the head, a warning, the table's head, the cursor's line. */
const OTHER_LINES = 4;

// Terminal sequences: switch to another screen without a cursor, and back; go to the top; clear the rest of the line or
// the screen.
const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";
const TOP = "\u001b[H";
const CLEAR_LINE = "\u001b[K";
const CLEAR_REST = "\u001b[J";

/** The query of a view. Without a limit, the view fills the screen. */
type ViewQuery = Omit<FleetQuery, "limit"> & { readonly limit?: number | undefined };

/** Prints the fleet once. */
export async function printFleet(session: Session, { limit = 20, ...query }: ViewQuery): Promise<void> {
  const { output } = session;
  const nowMs = Date.now();
  const fleet = await readFleet(session, { ...query, limit });
  await output.line(formatHead(session, fleet, nowMs));
  await printTasks(output, fleet, nowMs);
}

/** Shows the fleet on the terminal until a signal aborts. Each look is drawn over the previous one in one write. */
export class FleetView {
  readonly #session: Session;
  readonly #query: ViewQuery;
  #last: readonly string[] = [];

  constructor(session: Session, query: ViewQuery) {
    this.#session = session;
    this.#query = query;
  }

  async show(signal: AbortSignal, everyMs = EVERY_MS): Promise<void> {
    await this.#write(ENTER);
    try {
      while (!signal.aborted && !this.#session.output.isClosed) {
        const beganMs = performance.now();
        await this.#draw(await this.#look());
        const tookMs = performance.now() - beganMs;
        // An abort only ends the pause.
        await delay(Math.max(everyMs, REST * tookMs), undefined, { signal }).catch(() => undefined);
      }
    } finally {
      await this.leave();
    }
  }

  /** Restores the terminal's own screen. `show` also does this at its end; call it if the process is about to exit. */
  leave(): Promise<void> {
    return this.#write(LEAVE);
  }

  /** Returns the lines of one look. If the look fails, returns the error and, below it, the previous tasks. */
  async #look(): Promise<readonly string[]> {
    const { output } = this.#session;
    const { yellow, red } = output.colors;
    const warnings: string[] = [];
    // Collects the warnings, because printing them would tear the view.
    const damage = new Damage(async (warning) => void warnings.push(warning));
    const room = Math.max(output.rows - OTHER_LINES, 1);
    const limit = Math.min(this.#query.limit ?? room, room);
    const nowMs = Date.now();
    try {
      const session = { ...this.#session, damage };
      const fleet = await readFleet(session, { ...this.#query, limit });
      const frame = new Frame(output);
      await printTasks(frame.output, fleet, nowMs);
      await frame.output.flush();
      const notes = warnings.slice(0, 1).map((warning) => yellow(this.#cut(printable(warning))));
      this.#last = [this.#cut(formatHead(session, fleet, nowMs)), ...notes, ...frame.text.trimEnd().split("\n")];
      return this.#last;
    } catch (error) {
      if (!(error instanceof CheckpointError)) throw error;
      return [red(this.#cut(printable(`The storage can't be read now: ${error.message}`))), ...this.#last.slice(1)];
    }
  }

  #draw(lines: readonly string[]): Promise<void> {
    const { rows } = this.#session.output;
    // The last row stays free for the line feed.
    const shown = lines.slice(0, rows - 1);
    return this.#write(`${TOP}${shown.map((line) => `${line}${CLEAR_LINE}`).join("\n")}\n${CLEAR_REST}${TOP}`);
  }

  /** Cuts a line to the terminal's width, so that the line takes one row. */
  #cut(line: string): string {
    const { columns } = this.#session.output;
    return line.length <= columns ? line : `${line.slice(0, columns - 1)}…`;
  }

  async #write(text: string): Promise<void> {
    const { output } = this.#session;
    await output.line(text);
    await output.flush();
  }
}

/** Collects what is printed, laid out for the terminal of another output. */
class Frame extends Writable {
  readonly isTTY: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly output: Output;
  text = "";

  constructor({ isTerminal, columns, rows }: Output) {
    super();
    this.isTTY = isTerminal;
    this.columns = columns;
    this.rows = rows;
    this.output = new Output(this, { name: "the view", flushAt: Number.POSITIVE_INFINITY, mustArrive: true });
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** `1,383 due, the oldest for 3 minutes; 4 being run · sqlite:… · 10:00:05 UTC` */
function formatHead({ name }: Pick<Session, "name">, { held, queue }: Fleet, nowMs: number): string {
  const oldest = queue?.oldestDueAt;
  const due =
    queue === undefined
      ? []
      : [`${countText(queue.tasks)} due${oldest ? `, the oldest ${forText(oldest, nowMs)}` : ""}`];
  const time = timeText(new Date(nowMs).toISOString()).slice("2026-11-21 ".length);
  return printable(`${[...due, `${countText(held)} being run`].join("; ")} · ${name} · ${time} UTC`);
}

async function printTasks(output: Output, { tasks }: Fleet, nowMs: number): Promise<void> {
  const table = new TablePrinter(output, makeColumns(output.colors, nowMs));
  for (const task of tasks) await table.add(task);
  await table.end();
}

function makeColumns(colors: Output["colors"], nowMs: number): readonly Column<ListedTask>[] {
  return [
    { head: "TASK", flexible: true, cell: describeTask },
    { head: "STATUS", cell: (task) => statusCell(task.status, colors) },
    { head: "LAST STEP", flexible: true, cell: (task) => stepText(task, nowMs) },
    { head: "SINCE", cell: (task) => ("newest" in task ? agoText(task.lastAt ?? task.newest.createdAt, nowMs) : "") },
    { head: "RUN BY", flexible: true, cell: ({ lease }) => (lease ? holderText(lease.holder) : "") },
    { head: "LEASE", align: "right", cell: ({ lease }) => (lease ? `${Math.ceil(lease.remainingMs / 1000)} s` : "") },
  ];
}

/**
 * Returns the last recorded or the failed step. For a waiting task, returns what it waits for; for a cancelled task,
 * the reason; for a task that was put back, its error, until a worker runs it.
 */
function stepText(task: ListedTask, nowMs: number): string {
  if (!("newest" in task)) return "no checkpoint yet";
  const { newest, waits, lease, steps } = task;
  const { label, stage, error } = newest;
  if (isCancelled(newest)) return error?.message ?? "";
  if (isPutBack(newest)) return lease === undefined ? (standText(newest, nowMs) ?? "") : "put back";
  // A sleep that is over isn't worth showing.
  const isOver = waits?.waitsFor.length === 0 && task.status === "queued";
  if (waits !== undefined && !isOver) return waitsText(waits, nowMs);
  return whereText(steps) ?? label ?? stage ?? error?.message ?? "";
}
