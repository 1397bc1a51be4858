import { isCancelled } from "waymark/kit";
import { type DescribedCheckpoint, shownStatus } from "./langgraph/thread-state.js";
import type { RunTask } from "./leases.js";
import type { Output } from "./output.js";
import type { Cell } from "./table.js";

/** Shows the status of a checkpoint. */
export function checkpointCell({ checkpoint, interrupts }: DescribedCheckpoint, colors: Output["colors"]): Cell {
  return statusCell(isCancelled(checkpoint) ? "cancelled" : shownStatus(checkpoint, interrupts), colors);
}

/** Shows the status of a task or a checkpoint in its colour, or `died` if the runner died. `damaged` is a status of tasks. */
export function statusCell(
  status: RunTask["status"] | "damaged",
  { green, red, yellow, cyan, dim }: Output["colors"],
  runner?: "alive" | "died",
): Cell {
  if (runner === "died") return { text: "died", color: red };
  const color = {
    ...{ completed: green, failed: red, damaged: red, cancelled: red, running: cyan, unknown: dim },
    ...{ queued: yellow, scheduled: yellow, waiting: yellow, paused: yellow, interrupted: yellow },
  }[status];
  return { text: status, color };
}
