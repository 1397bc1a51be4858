import type { CheckpointSummary } from "waymark";
import { type HeldLease, isCancelled, isOfRun, isRecord, type RunRecord } from "waymark/kit";
import type { CommandFile, Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonPrinter } from "../items.js";
import { describeTask } from "../langgraph/find-tasks.js";
import { questionsText } from "../langgraph/thread-status.js";
import { holderText, lapsedText, type StartingTask } from "../leases.js";
import { type PlainJson, plainJson } from "../plain-json.js";
import { planRows } from "../plan/plan-rows.js";
import { jsonText } from "../printable.js";
import { type CheckpointDetails, readDetails, readShownState } from "../queries/checkpoint.js";
import { findRecord, findStep } from "../queries/record.js";
import { readTimeline } from "../queries/timeline.js";
import { failureText, stepOfRecord, valueText } from "../record-text.js";
import { allSteps, runText, stepLine, stepName, stepTitle } from "../run-steps.js";
import { parsePath, partAt } from "../state-path.js";
import { checkpointCell, statusCell } from "../status-cell.js";
import { BlockPrinter } from "../table.js";
import { answerCommand, eventStatusText, isPutBack, type PendingWait, type ShownEvent } from "../waits.js";
import { agoText, bytesText, forText, secondsText, timeText } from "../words.js";
import { printTimeline } from "./list.js";

/** How many of a turn's last steps are shown, also in a pipe. `--timeline` shows all. */
const SHOWN_STEPS = 20;

export const show: CommandFile = {
  example: 'waymark show build-42 --path "files[0]"',
  register(program, cli) {
    program
      .command("show")
      .summary("a checkpoint, its state")
      .description(
        "One checkpoint: by default the newest that can be read. ID is an id, @7 or @latest. @7 may also be a step or an event; list --timeline and --json show the numbers.",
      )
      .argument("<task>")
      .argument("[id]")
      .option("--state", "print only the state, as JSON")
      .option("--path <path>", "print only this part of the state: messages[3].role")
      .option("--step <name>", 'show a step instead, with its last result or error: "model 2"')
      .option("--timeline", "all steps of its runs, each as a bar, like waymark list --timeline")
      .option("--json", "for programs: the checkpoint with its state, in one line")
      .action((task, id, options) =>
        cli.withStore(async (session) => {
          const { output } = session;
          const { step, timeline } = options;
          if (timeline)
            return printTimeline(session, await readTimeline(session, { task }), jsonPrinter(output, options));
          if (step !== undefined && id !== undefined) {
            throw new CommandError(
              ExitCode.usage,
              "Pass an ID or --step, not both: --step finds the step's last record.",
            );
          }
          const query = { task, id };
          const record = await findRecord(session, task, step === undefined ? id : await findStep(session, task, step));
          if (record !== undefined) {
            const value = plainJson(record.value);
            if (options.json) return output.line(jsonText({ ...record, value }));
            if (options.state || options.path !== undefined)
              return output.line(jsonText(partAt(value, parsePath(options.path ?? "")), 2));
            return printRecord(session, record);
          }
          if (options.state || options.path !== undefined) {
            const steps = parsePath(options.path ?? "");
            const { state } = await readShownState(session, query);
            return output.line(jsonText(partAt(state, steps), options.json ? undefined : 2));
          }
          const details = await readDetails(session, query);
          return options.json ? output.line(jsonText(toJson(details))) : print(session, details);
        }),
      );
  },
};

/** @throws {Error} The configuration can't open the state. */
function toJson(details: CheckpointDetails | StartingTask): object {
  if ("count" in details) return details;
  const { checkpoint, state, keyMissing, run, events, taskStatus } = details;
  if (keyMissing) throw keyMissing;
  return {
    ...checkpoint,
    ...(taskStatus && { taskStatus: taskStatus.status }),
    state,
    ...(run && { run: plainJson(run) }),
    ...(events.length > 0 && { events }),
  };
}

async function print(session: Session, details: CheckpointDetails | StartingTask): Promise<void> {
  const { output } = session;
  const block = new BlockPrinter(output);
  const row = (name: string, text: string | undefined) => block.add(name, text ?? "");
  const command = (name: string, text: string) => block.add(name, { text, isCommand: true });
  if ("count" in details) {
    row("task", describeTask(details));
    row("checkpoint", "none yet");
    row("run by", runByText(details.lease));
    return block.end();
  }
  const { checkpoint, interrupts, thread, lease, lapsed, run, waits, canRetry, events, taskStatus } = details;
  const { taskId, id, sequence, createdAt, stage, label, parentId, error } = checkpoint;
  row("task", thread === undefined ? taskId : undefined);
  row("thread", thread?.threadId);
  row("subgraph", thread?.namespace || undefined);
  row("checkpoint", `${id} (@${sequence})`);
  row("saved", `${timeText(createdAt)} UTC, ${agoText(createdAt, Date.now())}`);
  block.add(
    "status",
    taskStatus ? statusCell(taskStatus.status, output.colors) : checkpointCell(details, output.colors),
  );
  row("why", taskStatus?.why);
  row("run by", lease && runByText(lease));
  row("last run", lapsed && lapsedText(lapsed, Date.now()));
  row("asks", questionsText(interrupts));
  for (const wait of waits) {
    row("waits", waitText(wait));
    if (wait.kind === "event" && !wait.isAnswered) command("answer", answerCommand(session, { taskId, ...wait }));
  }
  if (isCancelled(checkpoint)) row("reason", error?.message);
  else
    row(
      isPutBack(checkpoint) ? "put back" : "error",
      error && `${isPutBack(checkpoint) ? "it failed with: " : ""}${failureText(error)}`,
    );
  if (canRetry) command("retry", retryText(session, checkpoint, run));
  for (const [index, event] of events.entries()) row(index === 0 ? "events" : "", eventText(event));
  row("stage", stage);
  row("label", label);
  row("continues from", parentId);
  row("metadata", metadataText(checkpoint));
  row("run", run && runText(run));
  row("input", valueText(run?.input));
  row("result", valueText(run?.result));
  for (const [index, text] of (run ? stepRows(run) : []).entries()) row(index === 0 ? "steps" : "", text);
  for (const [index, text] of planRows(taskId, details.state).entries()) row(index === 0 ? "items" : "", text);
  // The state is null for a run that saved none.
  if (run === undefined || details.state !== null) row("state", stateText(details));
  if (!isCancelled(checkpoint)) addStack(block, error);
  await block.end();
}

async function printRecord({ output }: Session, record: NonNullable<Awaited<ReturnType<typeof findRecord>>>) {
  const { taskId, kind, sequence, name, createdAt, sizeBytes, value } = record;
  const block = new BlockPrinter(output);
  block.add("task", taskId);
  const step = stepOfRecord(record);
  const title = step ? stepTitle(step) : name;
  block.add("record", `@${sequence}, ${kind}${title === undefined ? "" : ` ${JSON.stringify(title)}`}`);
  block.add("saved", `${timeText(createdAt)} UTC, ${agoText(createdAt, Date.now())}`);
  const result = step?.result === undefined ? undefined : plainJson(step.result);
  const isLong = valueText(result) !== (result === undefined ? undefined : jsonText(result));
  block.add("result", result === undefined ? "" : isLong ? `${bytesText(sizeBytes)}, below` : jsonText(result));
  if (step) block.add("step", stepName(step));
  block.add("attempts", step?.attempts === undefined ? "" : String(step.attempts));
  const { input } = isRecord(value) ? value : {};
  block.add("input digest", kind === "step" && typeof input === "string" ? input : "");
  block.add("error", step?.error === undefined ? "" : failureText(step.error));
  addStack(block, step?.error);
  if (kind !== "step") block.add("value", `${valueText(value) ?? "none"}, ${bytesText(sizeBytes)}; --state prints it`);
  await block.end();
  if (isLong) await output.line(`\n${jsonText(result, 2)}`);
}

/** Adds the stack frames of an error. */
function addStack(block: BlockPrinter, error: unknown): void {
  const { stack } = isRecord(error) ? error : {};
  const frames = typeof stack === "string" ? stack.split("\n").filter((line) => /^\s+at /.test(line)) : [];
  for (const [index, frame] of frames.entries()) block.add(index === 0 ? "stack" : "", frame.trim());
}

function runByText({ holder, remainingMs }: HeldLease): string {
  return `${holderText(holder)}; its lease ends in ${secondsText(remainingMs)} unless renewed`;
}

/** Returns a line for each of a turn's last steps. If there are more, the first line counts them. */
function stepRows(run: RunRecord): readonly string[] {
  const steps = allSteps(run);
  const hidden = Math.max(0, steps.length - SHOWN_STEPS);
  const lines = steps.slice(hidden).map((step) => stepLine(step, run));
  return hidden === 0 ? lines : [`${hidden} earlier; --timeline lists all`, ...lines];
}

/** `waymark retry t`, `waymark retry --from pay t, if pay hasn't done its work` */
function retryText(
  { commandText }: Session,
  { taskId, error }: CheckpointSummary,
  run: CheckpointDetails["run"],
): string {
  const interrupted = run?.steps.findLast(({ status }) => status === "interrupted");
  if (interrupted === undefined || error?.code !== "STEP_INTERRUPTED") return commandText("retry", [taskId]);
  const { name, occurrence } = interrupted;
  const title = stepTitle({ name, occurrence });
  return `${commandText("retry", [taskId], ["--from", title])}, if ${title} hasn't done its work`;
}

/** `for "approve", for 3 minutes`, `for "approve", answered`, `"pause", until 2026-11-21 10:00:05 UTC` */
function waitText({ kind, name, since, until, isAnswered }: PendingWait): string {
  if (isAnswered) return `for ${JSON.stringify(name)}, answered`;
  const [long, end] = [forText(since, Date.now()), until && `until ${timeText(until)} UTC`];
  const title = JSON.stringify(name);
  return kind === "sleep" ? `${title}, ${end}` : `for ${title}, ${long}${end === undefined ? "" : `, ${end} at most`}`;
}

/** `approve {"ok":true} from ada@build-box, 3 minutes ago: received` */
function eventText({ name, value, by, sentAt, reason, ...event }: ShownEvent): string {
  const why = reason === undefined ? "" : `: ${reason}`;
  const what = [name, valueText(value)].filter((part) => part !== undefined).join(" ");
  return `${what}${by === undefined ? "" : ` from ${by}`}, ${agoText(sentAt, Date.now())}: ${eventStatusText(event)}${why}`;
}

/** Returns the metadata without the part that every checkpoint of a run has; `undefined` if nothing else is there. */
function metadataText(checkpoint: CheckpointSummary): string | undefined {
  const { metadata = {} } = checkpoint;
  const { waymark: _ofRun, ...own } = metadata;
  const shown = isOfRun(checkpoint) ? own : metadata;
  return Object.keys(shown).length === 0 ? undefined : jsonText(shown);
}

/** Returns the outline of a state in a few words. If the key is missing, it returns only the size. */
function stateText({ checkpoint, state, thread }: CheckpointDetails): string {
  const size = bytesText(checkpoint.sizeBytes);
  if (state === undefined) return `${size}, not readable with this configuration; --state says why`;
  return `${outline(state, thread === undefined ? undefined : outline)}, ${size}; --state prints it`;
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
