import { sequenceOfSame } from "../../src/contract/adapter.js";
import {
  brokenSeal,
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointFailure,
  damageIn,
  type JsonObject,
  type JsonValue,
  type Payload,
  type SealedSummary,
  type StoredCheckpoint,
  summaryOf,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { UnreadableError } from "./read-file.js";

/** What a file says of a checkpoint beside its body. */
export interface RecordHead extends SealedSummary {
  /** The body is bytes, and stands in the file as base64 text. */
  readonly bodyIs?: "base64";
}

/** Independent of what becomes of the draft. */
export function copyOf({ payload, ...summary }: CheckpointDraft): CheckpointDraft {
  return { ...structuredClone(summary), payload: copyOfPayload(payload) };
}

/** Independent of what becomes of the payload. */
export function copyOfPayload({ encoding, body, sha256 }: Payload): Payload {
  return { encoding, sha256, body: typeof body === "string" ? body : Uint8Array.from(body) };
}

/** The body as one JSON value without a line break. */
export function textOfBody({ body }: Payload): string {
  return typeof body === "string" ? body : JSON.stringify(Buffer.from(body).toString("base64"));
}

/** What a file says of the form that {@link textOfBody} has. */
export function formOfBody({ body }: Payload): RecordHead["bodyIs"] {
  return typeof body === "string" ? undefined : "base64";
}

/** How many bytes {@link textOfBody} takes. */
export function embeddedSize({ bodyIs, sizeBytes }: RecordHead): number {
  return bodyIs === "base64" ? 2 + 4 * Math.ceil(sizeBytes / 3) : sizeBytes;
}

/** The checkpoint of a head and the text that stands for its body. */
export function storedCheckpoint(head: RecordHead, bodyText: string): StoredCheckpoint {
  const { encoding, sha256 } = head.payload;
  const body = head.bodyIs === "base64" ? new Uint8Array(Buffer.from(bodyText.slice(1, -1), "base64")) : bodyText;
  return { ...summaryOf(head), payload: { encoding, body, sha256 }, seal: head.seal };
}

/**
 * Answers an append whose id the task has already.
 *
 * @param where - Where that checkpoint is stored.
 * @throws {CheckpointConflictError} It is another checkpoint.
 * @throws {CheckpointCorruptError} It is damaged.
 */
export function sequenceOfStored(stored: StoredCheckpoint, draft: CheckpointDraft, where: string): number {
  const sequence = sequenceOfSame(stored, draft);
  const damage = damageIn(stored);
  if (damage === undefined) return sequence;
  throw new CheckpointCorruptError(
    `Checkpoint ${draft.id} exists at ${where} and is damaged: ${damage}. It was left untouched, and nothing was ` +
      "stored; use another id.",
  );
}

/**
 * A head from what a file holds: each field of the type it must have, and the seal whole.
 *
 * @param common - Where id, taskId, label, createdAt and error stand.
 * @param ours - Where all else stands.
 * @throws {UnreadableError}
 */
export function parseHead(common: JsonObject, ours: JsonObject): RecordHead {
  const [label, error] = [common["label"], common["error"]];
  const [stage, parentId, metadata, bodyIs] = [ours["stage"], ours["parentId"], ours["metadata"], ours["bodyIs"]];
  const status = CHECKPOINT_STATUSES.find((known) => known === ours["status"]);
  if (status === undefined) throw new UnreadableError("it has no known status");
  if (bodyIs !== undefined && bodyIs !== "base64") throw new UnreadableError("its body is in no known form");
  if (metadata !== undefined && !isJsonObject(metadata)) throw new UnreadableError("its metadata is no object");

  // Built up, since lists of thousands of tasks do this for each.
  const head: { -readonly [Key in keyof RecordHead]: RecordHead[Key] } = {
    taskId: text(common, "taskId"),
    id: text(common, "id"),
    sequence: wholeNumber(ours, "sequence", 1),
    createdAt: text(common, "createdAt"),
    status,
    stateVersion: wholeNumber(ours, "stateVersion", 0),
    sizeBytes: wholeNumber(ours, "sizeBytes", 0),
    payload: { encoding: text(ours, "encoding"), sha256: text(ours, "sha256") },
    seal: text(ours, "seal"),
  };
  if (stage !== undefined) head.stage = text(ours, "stage");
  if (label !== undefined) head.label = text(common, "label");
  if (parentId !== undefined) head.parentId = text(ours, "parentId");
  if (metadata !== undefined) head.metadata = metadata;
  if (error !== undefined) head.error = parseFailure(error);
  if (bodyIs !== undefined) head.bodyIs = bodyIs;
  const broken = brokenSeal(head);
  if (broken !== undefined) throw new UnreadableError(broken);
  return head;
}

/** @throws {UnreadableError} */
export function parseFailure(value: JsonValue): CheckpointFailure {
  if (!isJsonObject(value)) throw new UnreadableError("its error is no object");
  return {
    message: text(value, "message"),
    ...optionalText(value, "name"),
    ...optionalText(value, "code"),
    ...optionalText(value, "stack"),
  };
}

/** @throws {UnreadableError} Not a JSON object. */
export function parseObject(source: string): JsonObject {
  let value: JsonValue;
  try {
    // What JSON.parse gives is, by its definition, a JsonValue.
    value = JSON.parse(source) as JsonValue;
  } catch (error) {
    throw new UnreadableError("it is not JSON, or cut short", { cause: error });
  }
  if (!isJsonObject(value)) throw new UnreadableError("it is no JSON object");
  return value;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @throws {UnreadableError} */
export function text(fields: JsonObject, key: string): string {
  const value = fields[key];
  if (typeof value !== "string") throw new UnreadableError(`its ${key} is no text`);
  return value;
}

/** @throws {UnreadableError} */
export function optionalText<Key extends string>(fields: JsonObject, key: Key): { readonly [K in Key]?: string } {
  // A computed key widens to an index signature, so the type has to be said.
  return fields[key] === undefined ? {} : ({ [key]: text(fields, key) } as { readonly [K in Key]?: string });
}

/** @throws {UnreadableError} */
export function wholeNumber(fields: JsonObject, key: string, min: number): number {
  const value = fields[key];
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= min) return value;
  throw new UnreadableError(`its ${key} is no whole number from ${min}`);
}

/** What can't be read is no exception here. */
export function attempt<Result>(parse: () => Result): Result | UnreadableError {
  try {
    return parse();
  } catch (error) {
    if (error instanceof UnreadableError) return error;
    throw error;
  }
}
