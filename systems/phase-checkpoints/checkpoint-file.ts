import { isRecord, UnreadableError } from "../json-object.js";
import { describeIssues, invalidCheckpoint } from "../schema-issues.js";
import { decodeMetadata, encodeMetadata } from "./metadata.js";
import { type CheckpointState, checkpointStateSchema, type IscCriterionSnapshot } from "./schema.js";

/** A checkpoint without its time. */
interface PhaseDraft extends Omit<CheckpointState, "createdAt" | "iscCriteria" | "metadata"> {
  readonly iscCriteria: readonly IscCriterionSnapshot[];
  readonly metadata: Readonly<Record<string, unknown>>;
}

/**
 * Prepares a checkpoint's file. Reads the state at once; the time is added when the file's name is chosen.
 *
 * @throws {StateInvalidError} The state doesn't fit the schema.
 * @throws {StateNotSerializableError} Its metadata holds a value without a stored form.
 * @throws {PayloadTooLargeError} Its metadata is too large.
 */
export function prepareCheckpointFile(draft: PhaseDraft): (createdAt: string) => Buffer {
  const { success, data, error } = checkpointStateSchema.omit({ createdAt: true }).safeParse(draft);
  if (!success) throw invalidCheckpoint(error);
  const { id, sessionId, phase, phaseNumber, completed, taskSummary, iscCriteria } = data;
  const { plain: metadata, tagged } = encodeMetadata(draft.metadata);
  const rest = {
    completed,
    taskSummary,
    iscCriteria,
    metadata,
    ...(tagged !== undefined && { waymark: { metadata: tagged } }),
  };
  return (createdAt) => Buffer.from(JSON.stringify({ id, sessionId, phase, phaseNumber, createdAt, ...rest }, null, 2));
}

/**
 * Parses a file's checkpoint. Any program that follows the spec, or a person, may have written the file.
 *
 * @throws {UnreadableError} The content is not a checkpoint.
 */
export function parseCheckpointFile(file: Record<string, unknown>): CheckpointState {
  const { success, data, error } = checkpointStateSchema.safeParse(file);
  if (!success) throw new UnreadableError(`it is not a checkpoint: ${describeIssues(error)}`, { cause: error });
  const { metadata, waymark } = file;
  // The schema's copy of the metadata would lack a key like "__proto__".
  const plain = isRecord(metadata) ? metadata : data.metadata;
  return { ...data, metadata: decodeMetadata(plain, isRecord(waymark) ? waymark["metadata"] : undefined) };
}
