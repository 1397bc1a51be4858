import { isCancelled } from "waymark/kit";
import { type DescribedCheckpoint, shownStatus } from "./langgraph/thread-state.js";
import type { Output } from "./output.js";
import { type FleetStatus, fleetStatus } from "./queries/fleet.js";
import type { ListedTask } from "./queries/tasks.js";
import type { Cell } from "./table.js";

/** Shows how a task or a thread stands; `died` if its runner is known to have died. */
export function taskStatusCell(task: ListedTask, colors: Output["colors"], nowMs: number): Cell {
  if (!("newest" in task) || task.thread === undefined) return statusCell(fleetStatus(task, nowMs), colors);
  const status = shownStatus(task.newest, task.thread.interrupts);
  return statusCell(status, colors, status === "running" && task.lapsed?.hasDied ? "died" : undefined);
}

/** Shows the status of a checkpoint. */
export function checkpointCell({ checkpoint, interrupts }: DescribedCheckpoint, colors: Output["colors"]): Cell {
  return statusCell(isCancelled(checkpoint) ? "cancelled" : shownStatus(checkpoint, interrupts), colors);
}

/** Shows a status in its colour, or `died` if the runner died. */
export function statusCell(
  status: FleetStatus | "unknown",
  { green, red, yellow, cyan, dim }: Output["colors"],
  runner?: "alive" | "died",
): Cell {
  if (runner === "died") return { text: "died", color: red };
  const color = {
    ...{ completed: green, failed: red, cancelled: red, died: red },
    ...{ paused: yellow, waits: yellow, due: yellow, running: cyan, unknown: dim },
  }[status];
  return { text: status, color };
}
