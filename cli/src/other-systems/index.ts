import type { StorageAdapter } from "waymark";
import { buildsAt } from "./builds.js";
import { oneshotAt } from "./oneshot.js";
import { phasesAt } from "./phase-checkpoints.js";
import { prpAt } from "./prp.js";

/** A system with its own checkpoint format. */
export interface OtherSystem {
  /** The URL of this system's own checkpoints. */
  readonly url: string;
  /** Names the checkpoints: `checkpoints of waymark oneshot`. */
  readonly what: string;
  /** Names the command or the function that works on them. */
  readonly how: string;
  /** Opens the current checkpoints, read-only. */
  open(): Promise<StorageAdapter>;
}

/**
 * If a path has no storage, returns the systems of this package that have checkpoints there. Without this, a command
 * with the wrong URL would report an empty storage.
 */
export async function otherSystemsAt(path: string): Promise<readonly OtherSystem[]> {
  const found = await Promise.all([buildsAt, oneshotAt, phasesAt, prpAt].map((look) => look(path)));
  return found.filter((system) => system !== undefined);
}
