import type { CheckpointStatus } from "waymark";
import type { Output } from "./output.js";
import type { Cell } from "./table.js";

/** A status in its colour. */
export function statusCell(status: CheckpointStatus, { green, red, yellow, cyan }: Output["colors"]): Cell {
  const color = { completed: green, failed: red, paused: yellow, running: cyan }[status];
  return { text: status, color };
}
