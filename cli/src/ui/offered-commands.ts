import type { CheckpointSummary } from "waymark";
import { nameOf } from "../langgraph/find-tasks.js";
import type { Command, Policy, TaskRow } from "./api.js";
import type { PageSession } from "./page-session.js";

const PLACEHOLDER = "NEW-TASK";

/** The commands that the page offers to copy. Those that a thread of LangGraph refuses are left out. */
export function commandsFor({ commandText }: PageSession) {
  const command = (
    action: Command["action"],
    name: string,
    args: readonly string[],
    options: readonly string[] = [],
  ) => ({
    action,
    text: commandText(name, args, options),
  });
  return {
    ofStorage: (): readonly Command[] => [
      command("tasks", "tasks", []),
      command("verify", "verify", []),
      command("repair", "repair", [], ["--dry-run"]),
    ],

    ofTask({ name, isThread, status, newest }: TaskRow): readonly Command[] {
      const canComplete = !isThread && newest !== undefined && status !== "completed";
      return [
        command("list", "list", [name]),
        command("show", "show", [name]),
        ...(canComplete ? [command("complete", "complete", [name])] : []),
        command("delete", "delete", [name]),
        ...(!isThread ? [command("prune", "prune", [name], ["--keep-last", "10", "--dry-run"])] : []),
      ];
    },

    /** @param before - The sequence of the checkpoint before it. */
    ofCheckpoint(taskId: string, { sequence }: CheckpointSummary, before: number | undefined): readonly Command[] {
      const name = nameOf({ taskId });
      const [isThread, at] = [name !== taskId, `@${sequence}`];
      return [
        command("show", "show", [name, at]),
        command("show-state", "show", [name, at], ["--state"]),
        ...(before === undefined ? [] : [command("diff", "diff", [name, `@${before}`, at])]),
        command("fork", "fork", [name, at, PLACEHOLDER]),
        ...(!isThread ? [command("rewind", "rewind", [name, at])] : []),
        ...(!isThread ? [command("delete", "delete", [name, at])] : []),
      ];
    },

    ofDiff: (taskId: string, from: CheckpointSummary, to: CheckpointSummary): readonly Command[] => [
      command("diff", "diff", [nameOf({ taskId }), `@${from.sequence}`, `@${to.sequence}`]),
    ],

    ofPolicy: (policy: Policy, taskId: string | undefined): readonly Command[] => [
      command("prune", "prune", taskId === undefined ? [] : [taskId], [
        ...(taskId === undefined ? ["--all"] : []),
        ...flagsOf(policy),
      ]),
    ],
  };
}

/** The flags of `waymark prune` for a policy. */
function flagsOf(policy: Policy): readonly string[] {
  const { keepStages = [] } = policy;
  const flag = (name: string, value: number | string | undefined, unit = "") =>
    value === undefined ? [] : [name, `${value}${unit}`];
  return [
    ...flag("--keep-last", policy.keepLast),
    ...flag("--keep-within", policy.keepWithinMs, "ms"),
    ...flag("--keep-hourly", policy.keepHourly),
    ...flag("--keep-daily", policy.keepDaily),
    ...flag("--keep-weekly", policy.keepWeekly),
    ...flag("--keep-monthly", policy.keepMonthly),
    ...flag("--time-zone", policy.timeZone),
    ...(keepStages.length > 0 ? ["--keep-stage", ...keepStages] : []),
    ...flag("--max-age", policy.maxAgeMs, "ms"),
    ...flag("--max-bytes", policy.maxBytes),
    "--dry-run",
  ];
}
