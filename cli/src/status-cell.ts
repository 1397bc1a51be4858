import type { CheckpointStatus } from "waymark";
import { isCancelled } from "waymark/adapter";
import { type DescribedCheckpoint, shownStatus } from "./langgraph/thread-state.js";
import type { Output } from "./output.js";
import type { ListedTask } from "./queries/tasks.js";
import type { Cell } from "./table.js";

/** Shows the status of a task or a thread; `died` if its runner is known to have died. */
export function taskStatusCell(task: ListedTask, colors: Output["colors"]): Cell {
  if (!("newest" in task)) return statusCell("running", colors);
  const { newest, thread, lapsed } = task;
  const interrupts = thread ? thread.interrupts : [];
  const hasDied = lapsed?.hasDied && shownStatus(newest, interrupts) === "running";
  return hasDied ? statusCell("running", colors, "died") : checkpointCell({ checkpoint: newest, interrupts }, colors);
}

/** Shows the status of a checkpoint. */
export function checkpointCell({ checkpoint, interrupts }: DescribedCheckpoint, colors: Output["colors"]): Cell {
  return statusCell(isCancelled(checkpoint) ? "cancelled" : shownStatus(checkpoint, interrupts), colors);
}

/** Shows a status in its colour, or `died` if the runner died. */
export function statusCell(
  status: CheckpointStatus | "cancelled" | "unknown",
  { green, red, yellow, cyan, dim }: Output["colors"],
  runner?: "alive" | "died",
): Cell {
  if (runner === "died") return { text: "died", color: red };
  const color = { completed: green, failed: red, cancelled: red, paused: yellow, running: cyan, unknown: dim }[status];
  return { text: status, color };
}
