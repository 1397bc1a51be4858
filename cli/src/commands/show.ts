import type { CheckpointSummary } from "waymark";
import { type HeldLease, summaryOf } from "waymark/adapter";
import { threadOf } from "waymark/langgraph/records";
import { findCheckpoint, readLatest, requireTask } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { isKeyMissing } from "../key-advice.js";
import { questionsText } from "../langgraph/standing.js";
import { describeCheckpoint, readState, shownStatus } from "../langgraph/thread-state.js";
import { holderText, LeaseReader, lapsedText, type StartingTask } from "../leases.js";
import { type PlainJson, plainJson } from "../plain-json.js";
import { jsonText } from "../printable.js";
import { readRun, runText, stepLine } from "../run-steps.js";
import { parsePath, partAt } from "../state-path.js";
import { statusCell } from "../status-cell.js";
import { BlockPrinter } from "../table.js";
import { agoText, bytesText, secondsText, timeText } from "../words.js";

/** The last steps of a pass; `waymark list --timeline` has all. */
const SHOWN_STEPS = 20;

export const show: CommandFile = {
  example: 'waymark show build-42 --path "files[0]"',
  register(program, cli) {
    program
      .command("show")
      .summary("a checkpoint, its state")
      .description("One checkpoint: by default the newest that can be read. ID is an id, @7 or @latest.")
      .argument("<task>")
      .argument("[id]")
      .option("--state", "print its state alone, as JSON")
      .option("--path <path>", "print that part of the state alone: messages[3].role")
      .option("--json", "for programs: the checkpoint with its state, in one line")
      .action((task, id, options) =>
        cli.withStore(async (session) => {
          const steps = options.path === undefined ? undefined : parsePath(options.path);
          const leases = new LeaseReader(session);
          if (steps === undefined && id === undefined && !options.state) {
            const starting = await leases.startingNamed(task);
            if (starting !== undefined) return printStarting(session, starting, options.json === true);
          }
          const taskId = await requireTask(session, task);
          const indent = options.json ? undefined : 2;
          if (steps === undefined && !options.state && !options.json) {
            const { checkpoint, state } = await readOne(session, taskId, id, outlineOf);
            await print(session, leases, checkpoint, state);
            return;
          }
          const { checkpoint, state } = await readOne(session, taskId, id, readPlain);
          if (steps !== undefined) await session.output.line(jsonText(partAt(state, steps), indent));
          else if (options.state) await session.output.line(jsonText(state, indent));
          else {
            const { checkpoint: shown } = await describeCheckpoint(session, checkpoint);
            const run = await readRun(session, checkpoint);
            await session.output.line(jsonText({ ...shown, state, ...(run && { run: plainJson(run) }) }));
          }
        }),
      );
  },
};

async function readOne<State>(
  session: Session,
  taskId: string,
  id: string | undefined,
  read: (session: Session, checkpoint: CheckpointSummary) => Promise<State>,
): Promise<{ readonly checkpoint: CheckpointSummary; readonly state: State }> {
  if (id === undefined || id === "@latest") return readLatest(session, taskId, read);
  const checkpoint = summaryOf(await findCheckpoint(session, taskId, id));
  return { checkpoint, state: await read(session, checkpoint) };
}

async function readPlain(session: Session, checkpoint: CheckpointSummary): Promise<PlainJson> {
  return plainJson(await readState(session, checkpoint));
}

/** A state's outline, in a few words; without the key, only its size. */
async function outlineOf(session: Session, checkpoint: CheckpointSummary): Promise<string> {
  const size = bytesText(checkpoint.sizeBytes);
  try {
    const parts = threadOf(checkpoint.taskId, checkpoint.metadata) === undefined ? undefined : outline;
    return `${outline(await readPlain(session, checkpoint), parts)}, ${size}; --state prints it`;
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return `${size} that this configuration doesn't open; --state says why`;
  }
}

async function print(session: Session, leases: LeaseReader, stored: CheckpointSummary, state: string): Promise<void> {
  const { output } = session;
  const { checkpoint, interrupts } = await describeCheckpoint(session, stored);
  const { taskId, id, sequence, createdAt, stage, label, parentId, error, metadata } = checkpoint;
  const thread = threadOf(taskId, stored.metadata);
  const block = new BlockPrinter(output);
  const row = (name: string, text: string | undefined) => block.add(name, text ?? "");
  row("task", thread === undefined ? taskId : undefined);
  row("thread", thread?.threadId);
  row("subgraph", thread?.namespace || undefined);
  row("checkpoint", `${id} (@${sequence})`);
  row("saved", `${timeText(createdAt)} UTC, ${agoText(createdAt, Date.now())}`);
  block.add("status", statusCell(shownStatus(checkpoint, interrupts), output.colors));
  const lease = await leases.current(taskId);
  row("run by", lease && runByText(lease));
  const lapsed = checkpoint.status === "running" && lease === undefined ? await leases.lapsed(taskId) : undefined;
  row("last run", lapsed && lapsedText(lapsed, Date.now()));
  row("asks", questionsText(interrupts));
  row("error", error && [error.name, error.code, error.message].filter((part) => part !== undefined).join(": "));
  row("stage", stage);
  row("label", label);
  row("goes on from", parentId);
  row("metadata", metadata && jsonText(metadata));
  const run = await readRun(session, stored);
  row("run", run && runText(run));
  for (const [index, step] of (run?.steps ?? []).slice(-SHOWN_STEPS).entries()) {
    block.add(index === 0 ? "steps" : "", run === undefined ? "" : stepLine(step, run));
  }
  row("state", state);
  await block.end();
}

async function printStarting(session: Session, { taskId, name, count, lease }: StartingTask, isJson: boolean) {
  const { output } = session;
  if (isJson) return output.line(jsonText({ taskId, count, lease }));
  const block = new BlockPrinter(output);
  block.add("task", name);
  block.add("checkpoint", "none yet");
  block.add("run by", runByText(lease));
  return block.end();
}

function runByText({ holder, remainingMs }: HeldLease): string {
  return `${holderText(holder)}, for ${secondsText(remainingMs)} unless the lease is renewed`;
}

/**
 * Names the parts of a state, without their values.
 *
 * @param part - Describes a part; by default only its key is named.
 */
function outline(state: PlainJson, part?: (state: PlainJson) => string): string {
  if (Array.isArray(state)) return `an array of ${state.length}`;
  if (typeof state !== "object" || state === null) return jsonText(state);
  const entries = Object.entries(state).slice(0, 12);
  const parts = entries.map(([key, value]) => (part === undefined ? key : `${key}: ${part(value)}`));
  return `{ ${parts.join(", ")}${Object.keys(state).length > 12 ? ", …" : ""} }`;
}
