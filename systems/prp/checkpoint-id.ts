import { customAlphabet } from "nanoid";
import type { NewCheckpoint } from "../../src/manager/options.js";
import { PRP_STAGES } from "./schema.js";

/** No underscore: it separates the parts. */
const uniqueEnd = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", 12);

/** `{taskId}_{milliseconds}_{stage}`, and an end that is unique, since two may fall into one millisecond. */
export function createCheckpointId({ taskId, stage, nowMs }: NewCheckpoint): string {
  return `${taskId}_${nowMs}_${stage ?? "pre-execution"}_${uniqueEnd()}`;
}

/** Read from the right: a task's name may itself look like the rest of an id. The spec's ids have a shorter end, or none. */
const ID = new RegExp(`^(.+)_\\d+_(?:${PRP_STAGES.join("|")})(?:_[A-Za-z0-9-]+)?$`, "s");

/** The task of a checkpoint id; `undefined` if it isn't one. */
export function taskOfCheckpointId(id: string): string | undefined {
  return ID.exec(id)?.[1];
}
