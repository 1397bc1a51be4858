import type { CheckpointStatus } from "waymark";
import type { Output } from "./output.js";
import type { Cell } from "./table.js";

/** A status in its colour; `died` if its run is under way by its status, and isn't alive any more. */
export function statusCell(
  status: CheckpointStatus | "unknown",
  { green, red, yellow, cyan, dim }: Output["colors"],
  runner?: "alive" | "died",
): Cell {
  if (runner === "died") return { text: "died", color: red };
  const color = { completed: green, failed: red, paused: yellow, running: cyan, unknown: dim }[status];
  return { text: status, color };
}
