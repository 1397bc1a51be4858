import { customAlphabet } from "nanoid";
import type { CheckpointManagerOptions } from "../../src/manager/options.js";
import { PRP_STAGE_PATTERN } from "./schema.js";

/** No underscore: it separates the parts. */
const uniqueEnd = customAlphabet("0123456789abcdefghijklmnopqrstuvwxyz", 12);

type CreateId = NonNullable<CheckpointManagerOptions["createId"]>;

/** `{taskId}_{milliseconds}_{stage}`, and an end that makes it unique within one millisecond. */
export const createCheckpointId: CreateId = ({ taskId, stage, nowMs }) =>
  `${taskId}_${nowMs}_${stage ?? "pre-execution"}_${uniqueEnd()}`;

/** Read from the right: a task's name may itself look like the rest of an id. The spec's ids have a shorter end, or none. */
const ID = new RegExp(`^(.+)_\\d+_${PRP_STAGE_PATTERN}(?:_[A-Za-z0-9-]+)?$`, "s");

/** The task of a checkpoint id; `undefined` if it isn't one. */
export function taskOfCheckpointId(id: string): string | undefined {
  return ID.exec(id)?.[1];
}
