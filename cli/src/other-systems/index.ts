import type { StorageAdapter } from "waymark";
import { buildsAt } from "./builds.js";
import { oneshotAt } from "./oneshot.js";
import { phasesAt } from "./phase-checkpoints.js";
import { prpAt } from "./prp.js";

/** Checkpoints in a format of their own, and how to get at them. */
export interface OtherSystem {
  /** What is there: `checkpoints of waymark oneshot`. */
  readonly what: string;
  /** The command or the function that works on it. */
  readonly how: string;
  /** Its checkpoints as they are now. They can be read, and not changed. */
  open(): Promise<StorageAdapter>;
}

/**
 * The system of ours that has left checkpoints at a path where no storage has. Without it, a look at them by the wrong
 * means would find nothing and say so.
 */
export async function otherSystemAt(path: string): Promise<OtherSystem | undefined> {
  for (const look of [buildsAt, oneshotAt, phasesAt, prpAt]) {
    const found = await look(path);
    if (found !== undefined) return found;
  }
  return undefined;
}
