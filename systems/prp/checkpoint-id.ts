import { customAlphabet } from "nanoid";
import type { CheckpointManagerOptions } from "../../src/manager/options.js";
import { PRP_STAGE_PATTERN } from "./schema.js";

/** Has no underscore, because underscores separate the parts. */
const uniqueEnd = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", 12);

type CreateId = NonNullable<CheckpointManagerOptions["createId"]>;

/** `{taskId}_{milliseconds}_{stage}`, with an end that makes the id unique within a millisecond. */
export const createCheckpointId: CreateId = ({ taskId, stage, nowMs }) =>
  `${taskId}_${nowMs}_${stage ?? "pre-execution"}_${uniqueEnd()}`;

/**
 * Parsed from the right, because a task's name may itself look like the rest of an id. Ids of the spec have a shorter
 * end, or none.
 */
const ID = new RegExp(`^(.+)_\\d+_${PRP_STAGE_PATTERN}(?:_[A-Za-z0-9-]+)?$`, "s");

/** Returns the task of a checkpoint id; `undefined` if the text isn't one. */
export function taskOfCheckpointId(id: string): string | undefined {
  return ID.exec(id)?.[1];
}
