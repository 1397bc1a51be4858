import { decodeText, isJsonObject, parseObject } from "../../adapters/files/sealed-record.js";
import { UnreadableError } from "../../adapters/files/stored-file.js";
import { PayloadTooLargeError, StateInvalidError } from "../../src/contract/errors.js";
import { decodeMetadata, encodeMetadata, taggedMetadataIn } from "./metadata.js";
import { type CheckpointState, checkpointStateSchema, describeIssues, type IscCriterionSnapshot } from "./schema.js";

/** The largest file, in bytes. Larger ones are neither written nor read. */
export const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** A checkpoint that has no time yet. */
interface CheckpointDraft extends Omit<CheckpointState, "createdAt" | "iscCriteria" | "metadata"> {
  readonly iscCriteria: readonly IscCriterionSnapshot[];
  readonly metadata: Readonly<Record<string, unknown>>;
}

/**
 * Prepares a checkpoint's file, up to the time that it gets once its name is known. The state is read at once.
 *
 * @throws {StateInvalidError} It doesn't fit the schema.
 * @throws {StateNotSerializableError} Its metadata holds something that would be lost.
 * @throws {PayloadTooLargeError} It is larger than {@link MAX_FILE_BYTES}; also from the function that it returns.
 */
export function prepareCheckpointFile(draft: CheckpointDraft): (createdAt: string) => Buffer {
  const { success, data, error } = checkpointStateSchema.omit({ createdAt: true }).safeParse(draft);
  if (!success) {
    const issues = error.issues.map(({ path, message }) => ({ message, path: ["$", ...path].join(".") }));
    throw new StateInvalidError(`Nothing was saved: the checkpoint is not valid: ${describeIssues(error)}.`, issues);
  }
  const { id, sessionId, phase, phaseNumber, completed, taskSummary, iscCriteria } = data;
  const { plain: metadata, tagged } = encodeMetadata(draft.metadata, MAX_FILE_BYTES);
  const waymark = tagged === undefined ? undefined : { metadata: tagged };
  return (createdAt) => {
    const rest = { completed, taskSummary, iscCriteria, metadata, waymark };
    const content = Buffer.from(JSON.stringify({ id, sessionId, phase, phaseNumber, createdAt, ...rest }, null, 2));
    if (content.length <= MAX_FILE_BYTES) return content;
    throw new PayloadTooLargeError(
      `Nothing was saved: the checkpoint's file would have ${content.length} bytes, and at most ${MAX_FILE_BYTES} are ` +
        "allowed. Keep what is large elsewhere, and its path in the metadata.",
    );
  };
}

/**
 * The checkpoint in a file, which any program that follows the spec may have written, or a person edited.
 *
 * @throws {UnreadableError}
 */
export function parseCheckpointFile(content: Uint8Array): CheckpointState {
  const raw = parseObject(decodeText(content));
  const { success, data, error } = checkpointStateSchema.safeParse(raw);
  if (!success) throw new UnreadableError(`it is no checkpoint: ${describeIssues(error)}`, { cause: error });
  const { metadata, waymark } = raw;
  if (!isJsonObject(metadata)) throw new UnreadableError("its metadata is no object");
  // Not the schema's own copy of it, which leaves out a key like "__proto__".
  return { ...data, metadata: decodeMetadata(metadata, taggedMetadataIn(waymark)) };
}
