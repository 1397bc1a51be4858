import type { StorageAdapter } from "waymark";
import { buildsAt } from "./builds.js";
import { oneshotAt } from "./oneshot.js";
import { phasesAt } from "./phase-checkpoints.js";
import { prpAt } from "./prp.js";

/** Checkpoints in a format of their own, and how to get at them. */
export interface OtherSystem {
  /** The URL of its own checkpoints alone. */
  readonly url: string;
  /** Names the checkpoints that are there: `checkpoints of waymark oneshot`. */
  readonly what: string;
  /** The command or the function that works on it. */
  readonly how: string;
  /** Its checkpoints as they are now. They can be read, and not changed. */
  open(): Promise<StorageAdapter>;
}

/**
 * The systems of ours that have left checkpoints at a path where no storage has. Without them, a look by the wrong means
 * would find nothing and say so.
 */
export async function otherSystemsAt(path: string): Promise<readonly OtherSystem[]> {
  const found = await Promise.all([buildsAt, oneshotAt, phasesAt, prpAt].map((look) => look(path)));
  return found.filter((system) => system !== undefined);
}
