import type { CheckpointSummary } from "waymark";
import { isCancelled, keptErrorsText, type RunRecord, readParent, stepText } from "waymark/kit";
import { describeTask } from "../langgraph/find-tasks.js";
import { durationFlag } from "../measure-arguments.js";
import { printable } from "../printable.js";
import type { CheckpointRow, Command, RunnerInfo } from "./api-parts.js";
import type { Policy } from "./api-storage.js";
import type { TaskRow } from "./api-tasks.js";
import type { PageSession } from "./page-session.js";

const MOST_FILE_NAME = 100;
const PLACEHOLDER = "NEW-TASK";
/** Used if the configuration has no policy. The retention view also begins with it. */
const DEFAULT_POLICY: Policy = { keepLast: 5 };
const FORK_NOTE =
  "Finished steps of that checkpoint are kept. If a worker's prefix covers the new task, the worker begins it at once; " +
  "otherwise start the program with the new task. A fork of a completed run runs every step again, with new keys.";
const RETRY_NOTE = "A worker continues it, and tries the failed step again.";
const CANCEL_NOTE = "Its runner is stopped, and the task runs again only from its beginning.";
const REWIND_NOTE =
  "Finished steps of that checkpoint are kept. If a worker's prefix covers the task, the worker continues it at once; " +
  "otherwise start the program again. A rewind to a completed run runs every step again, with new keys.";

/** The facts, besides the task's row, by which the commands for a task are chosen. */
export interface OfferedFor {
  readonly policy: Policy | undefined;
  /** The record of its run at the newest checkpoint. */
  readonly run: RunRecord | undefined;
  /** Newest first. */
  readonly checkpoints: readonly CheckpointRow[];
}

/** The commands that the page offers to copy. Commands that don't work on LangGraph threads are left out. */
export function commandsFor({ commandText }: PageSession) {
  const command = (
    action: Command["action"],
    name: string,
    args: readonly string[],
    options: readonly string[] = [],
    more: Pick<Command, "note" | "loses" | "checkpoint"> = {},
  ): Command => ({ action, text: commandText(name, args, options), ...more });
  return {
    ofStorage: (): readonly Command[] => [
      command("tasks", "tasks", []),
      command("verify", "verify", []),
      command("repair", "repair", [], ["--dry-run"]),
    ],

    /** Commands that get a stopped task going come first, and those that hide the task come last. */
    ofTask(row: TaskRow, { policy = DEFAULT_POLICY, run, checkpoints }: OfferedFor): readonly Command[] {
      const { name, isThread, status, newest, runner, error } = row;
      const canComplete = !isThread && newest !== undefined && status !== "completed";
      const isKnown = status !== "interrupted" || runner !== undefined;
      const standsStill = canComplete && status !== "running" && isKnown;
      // A failed run's checkpoint keeps the finished steps, which older ones don't have.
      const good = run ? newest : checkpoints.find((checkpoint) => checkpoint.status !== "failed");
      const point = good ?? newest;
      const at = `@${point?.sequence}`;
      const checkpoint = point && { id: point.id, sequence: point.sequence };
      return [
        ...(canComplete && run && status !== "waiting" && status !== "cancelled" ? adviceFor(run, row) : []),
        // For a child run, put the parent run back: it continues the child run.
        ...(canComplete && run && status === "failed" && row.parent === undefined
          ? [command("retry", "retry", [name], [], { note: RETRY_NOTE })]
          : []),
        ...(standsStill
          ? [
              command("fork", "fork", [name, at, PLACEHOLDER], [], {
                note: FORK_NOTE,
                ...(checkpoint && { checkpoint }),
              }),
            ]
          : []),
        ...(standsStill && good && good.id !== newest.id
          ? [command("rewind", "rewind", [name, at], [], { note: REWIND_NOTE, ...(checkpoint && { checkpoint }) })]
          : []),
        ...(isThread && status !== "completed" && runner?.state !== "held"
          ? [continueThread({ thread_id: name }, row.asks.length)]
          : []),
        command("list", "list", [name]),
        command("show", "show", [name]),
        ...(isThread ? [] : [command("prune", "prune", [name], formatFlags(policy))]),
        ...(canComplete && run && status !== "failed" && status !== "cancelled"
          ? [command("cancel", "cancel", [name], ["--reason", "…"], { note: CANCEL_NOTE })]
          : []),
        command("export", "export", [name], ["--out", exportFileName(name)]),
        command("delete", "delete", [name]),
        ...(canComplete
          ? [command("complete", "complete", [name], [], error === undefined ? {} : { loses: error })]
          : []),
      ];
    },

    /**
     * @param before - The sequence of the checkpoint before it.
     * @param run - The run that continues from this checkpoint.
     */
    ofCheckpoint(
      checkpoint: CheckpointSummary,
      {
        before,
        run,
        runner,
      }: Pick<Partial<OfferedFor>, "run"> & { readonly before?: number; readonly runner?: RunnerInfo },
    ): readonly Command[] {
      const { taskId, sequence, status } = checkpoint;
      const name = describeTask({ taskId });
      const parent = readParent(checkpoint);
      const [isThread, at] = [name !== taskId, `@${sequence}`];
      return [
        ...(run && status !== "completed" && !isCancelled(checkpoint)
          ? adviceFor(run, { runner, status, ...(parent && { parent }) })
          : []),
        ...(isThread && before !== undefined
          ? [continueThread({ thread_id: name, checkpoint_id: checkpoint.id }, 0)]
          : []),
        command("show", "show", [name, at]),
        command("show-state", "show", [name, at], ["--state"]),
        ...(before === undefined ? [] : [command("diff", "diff", [name, `@${before}`, at])]),
        command("fork", "fork", [name, at, PLACEHOLDER], [], { note: FORK_NOTE }),
        ...(!isThread ? [command("rewind", "rewind", [name, at], [], { note: REWIND_NOTE })] : []),
        ...(!isThread ? [command("delete", "delete", [name, at])] : []),
      ];
    },

    /** None for checkpoints of two tasks, which `waymark diff` doesn't compare. */
    ofDiff: ({ taskId, ...from }: CheckpointSummary, to: CheckpointSummary): readonly Command[] =>
      taskId === to.taskId
        ? [command("diff", "diff", [describeTask({ taskId }), `@${from.sequence}`, `@${to.sequence}`])]
        : [],

    ofPolicy: (policy: Policy, taskId: string | undefined): readonly Command[] => [
      command("prune", "prune", taskId === undefined ? [] : [taskId], [
        ...(taskId === undefined ? ["--all"] : []),
        ...formatFlags(policy),
      ]),
    ],
  };
}

/** Returns a name for an exported task that any file system allows. */
export function exportFileName(name: string): string {
  return `${name.replace(/[^\w.-]+/g, "-").slice(0, MOST_FILE_NAME)}.ndjson`;
}

/**
 * Returns the call that continues a LangGraph thread in its program.
 *
 * @param configurable - The thread and, for a branch, the checkpoint at which it begins.
 * @param questions - How many answers the thread waits for.
 */
function continueThread(configurable: { thread_id: string; checkpoint_id?: string }, questions: number): Command {
  const resume = questions > 1 ? "{ [interrupt.id]: …, … }" : "…";
  const input = questions === 0 ? "null" : `new Command({ resume: ${resume} })`;
  const fields = Object.entries(configurable).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return {
    action: "continue",
    text: printable(`await graph.invoke(${input}, { configurable: { ${fields.join(", ")} } })`),
    ...("checkpoint_id" in configurable && { note: "The thread gets a branch" }),
  };
}

/** Says how to continue a run that no process runs. */
function adviceFor(
  { failedStep, steps }: RunRecord,
  {
    runner,
    status: taskStatus,
    parent,
  }: Pick<TaskRow, "status" | "parent"> & { readonly runner?: RunnerInfo | undefined },
): readonly Command[] {
  if (runner?.state === "held") return [];
  const isChildRun = parent !== undefined;
  const last = steps.filter(({ status }) => status !== "saved").at(-1);
  const titleOf = ({ name, occurrence }: Pick<RunRecord["steps"][number], "name" | "occurrence">) =>
    stepText({ name, occurrence, status: "completed" });
  const isInterrupted = last?.status === "interrupted";
  const where =
    failedStep !== undefined
      ? `it resumes at ${titleOf(failedStep)}`
      : last === undefined
        ? "it continues from this state"
        : `it resumes ${last.status === "started" || isInterrupted ? "at" : "after"} ${titleOf(last)}`;
  const start = isChildRun
    ? "Start its parent run again"
    : taskStatus === "failed"
      ? "Start the program again"
      : "A worker takes it, or start the program again";
  const retry = isInterrupted ? `waymark retry --from, if ${titleOf(last)} hasn't done its work` : "waymark retry";
  const forWorkers = taskStatus === "failed" && !isChildRun ? ` Workers take it again after "${retry}".` : "";
  const kept = taskStatus === "failed" ? keptErrorsText(steps.filter(({ status }) => status === "failed")) : undefined;
  const text = `${start}: ${where}. Finished steps return their recorded results.${forWorkers}${kept === undefined ? "" : ` ${kept}`}`;
  return [{ action: "advice", text: printable(text) }];
}

/** Returns the flags of `waymark prune` for a policy. */
function formatFlags(policy: Policy): readonly string[] {
  const { keepStages = [] } = policy;
  const flag = (name: string, value: number | string | undefined) => (value === undefined ? [] : [name, String(value)]);
  const time = (ms: number | undefined) => (ms === undefined ? undefined : durationFlag(ms));
  return [
    ...flag("--keep-last", policy.keepLast),
    ...flag("--keep-within", time(policy.keepWithinMs)),
    ...flag("--keep-hourly", policy.keepHourly),
    ...flag("--keep-daily", policy.keepDaily),
    ...flag("--keep-weekly", policy.keepWeekly),
    ...flag("--keep-monthly", policy.keepMonthly),
    ...flag("--time-zone", policy.timeZone),
    ...(keepStages.length > 0 ? ["--keep-stage", ...keepStages] : []),
    ...flag("--max-age", time(policy.maxAgeMs)),
    ...flag("--max-bytes", policy.maxBytes),
    "--dry-run",
  ];
}
