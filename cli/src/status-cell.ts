import type { CheckpointStatus } from "waymark";
import { shownStatus } from "./langgraph/thread-state.js";
import type { Output } from "./output.js";
import type { ListedTask } from "./queries/tasks.js";
import type { Cell } from "./table.js";

/** Shows the status of a task or a thread; `died` if its runner is known to have died. */
export function taskStatusCell(task: ListedTask, colors: Output["colors"]): Cell {
  if (!("newest" in task)) return statusCell("running", colors);
  const { newest, thread, lapsed } = task;
  const status = shownStatus(newest, thread ? thread.interrupts : []);
  return statusCell(status, colors, status === "running" && lapsed?.hasDied ? "died" : "alive");
}

/** Shows a status in its colour, or `died` if the runner died. */
export function statusCell(
  status: CheckpointStatus | "unknown",
  { green, red, yellow, cyan, dim }: Output["colors"],
  runner?: "alive" | "died",
): Cell {
  if (runner === "died") return { text: "died", color: red };
  const color = { completed: green, failed: red, paused: yellow, running: cyan, unknown: dim }[status];
  return { text: status, color };
}
