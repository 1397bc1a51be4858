import { hash } from "node:crypto";
import { sequenceOfSame } from "../../src/contract/adapter.js";
import {
  brokenSeal,
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointFailure,
  type JsonObject,
  type JsonValue,
  type Payload,
  type SealedSummary,
  type StoredCheckpoint,
  seal,
  summaryOf,
  withPayload,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, isStackOverflow } from "../../src/contract/errors.js";
import { UnreadableError } from "./stored-file.js";

/** The parts of a JSON object that are looked at, each of which may be missing. */
interface Fields {
  readonly [key: string]: JsonValue | undefined;
  readonly label?: JsonValue;
  readonly error?: JsonValue;
  readonly stage?: JsonValue;
  readonly parentId?: JsonValue;
  readonly metadata?: JsonValue;
  readonly bodyIs?: JsonValue;
}

/** What a file says of a checkpoint beside its body. */
export interface RecordHead extends SealedSummary {
  /** The body is bytes, and stands in the file as base64 text. */
  readonly bodyIs?: "base64";
}

/** A checkpoint in the form in which files hold it: its body as one JSON value, without a line break. */
export interface EmbeddedRecord {
  readonly head: RecordHead;
  readonly bodyText: string;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The draft with a body that can stand in a JSON file, independent of what becomes of the draft. */
export function embedDraft(draft: CheckpointDraft): (sequence: number) => EmbeddedRecord {
  const { encoding, sha256 } = draft.payload;
  const { bodyIs, bodyText } = embedBody(draft.payload);
  const { metadata, error } = draft;
  const summary = summaryOf({
    ...draft,
    sequence: 0,
    // The only parts that a caller could change later.
    ...(metadata && { metadata: structuredClone(metadata) }),
    ...(error && { error: { ...error } }),
  });
  return (sequence) => {
    const record = { ...summary, sequence, payload: { encoding, sha256 } };
    return { head: { ...record, ...(bodyIs && { bodyIs }), seal: seal(record) }, bodyText };
  };
}

/**
 * A record with another payload, independent of what becomes of that payload.
 *
 * @throws {CheckpointCorruptError} The record fails its seal.
 */
export function embedPayload(payload: Payload): (head: RecordHead) => EmbeddedRecord {
  // Of the body nothing but its size is looked at later, which stays.
  const { encoding, sha256, body } = payload;
  const { bodyIs, bodyText } = embedBody(payload);
  return (head) => {
    const { bodyIs: _former, ...changed } = withPayload(head, { encoding, sha256, body });
    return { head: { ...changed, payload: { encoding, sha256 }, ...(bodyIs && { bodyIs }) }, bodyText };
  };
}

/** The body as one JSON value. */
function embedBody({ body }: Payload): Pick<EmbeddedRecord, "bodyText"> & Pick<RecordHead, "bodyIs"> {
  if (typeof body === "string") return { bodyText: body };
  return { bodyText: JSON.stringify(Buffer.from(body).toString("base64")), bodyIs: "base64" };
}

/**
 * The checkpoint of a head and the text that stands for its body.
 *
 * @throws {UnreadableError} The text is not as long as the head says.
 */
export function storedCheckpoint({ head, bodyText }: EmbeddedRecord): StoredCheckpoint {
  const size = Buffer.byteLength(bodyText);
  const expected = embeddedSize(head);
  if (size !== expected) throw new UnreadableError(`its state takes ${size} bytes, not ${expected}`);
  const { encoding, sha256 } = head.payload;
  const body = head.bodyIs === "base64" ? new Uint8Array(Buffer.from(bodyText.slice(1, -1), "base64")) : bodyText;
  return { ...summaryOf(head), payload: { encoding, body, sha256 }, seal: head.seal };
}

/**
 * Answers an append whose id the task has already.
 *
 * @param where - Where that checkpoint is stored.
 * @throws {CheckpointConflictError} It holds another state.
 * @throws {CheckpointCorruptError} Its state is damaged.
 */
export function sequenceOfIntact(record: EmbeddedRecord, draft: CheckpointDraft, where: string): number {
  const { sequence, payload } = storedCheckpoint(record);
  const same = sequenceOfSame({ sequence, sha256: payload.sha256 }, draft);
  if (hash("sha256", payload.body, "hex") === payload.sha256) return same;
  throw new CheckpointCorruptError(
    `Checkpoint ${draft.id} exists at ${where} and is damaged: its state fails its digest. It was left untouched, and ` +
      "nothing was stored; use another id.",
  );
}

/** How many bytes the body's text takes in the file. */
export function embeddedSize({ bodyIs, sizeBytes }: RecordHead): number {
  return bodyIs === "base64" ? 2 + 4 * Math.ceil(sizeBytes / 3) : sizeBytes;
}

/**
 * A head from what a file holds: each field of the type it must have, and the seal whole.
 *
 * @param common - Where id, taskId, label, createdAt and error stand.
 * @param ours - Where all else stands.
 * @throws {UnreadableError}
 */
export function parseHead(common: Fields, ours: Fields): RecordHead {
  const { label, error } = common;
  const { stage, parentId, metadata, bodyIs } = ours;
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
  if (brokenSeal(head) !== undefined) throw new UnreadableError("it fails its seal: something of it was changed");
  return head;
}

/** Whose numbering a file keeps, and the last sequence it gave, which outlives the checkpoint that had it. */
export interface Numbering {
  readonly taskId: string;
  readonly lastSequence: number;
}

/** The numbering as a file keeps it: sealed, since a wrong one would give a sequence twice. */
export function sealNumbering({ taskId, lastSequence }: Numbering): JsonObject {
  const sealed = JSON.stringify(["waymark-numbering-1", taskId, lastSequence]);
  return { taskId, lastSequence, seal: hash("sha256", sealed, "hex") };
}

/** @throws {UnreadableError} */
export function parseNumbering(fields: Fields): Numbering {
  const numbering = { taskId: text(fields, "taskId"), lastSequence: wholeNumber(fields, "lastSequence", 0) };
  if (sealNumbering(numbering)["seal"] !== fields["seal"]) {
    throw new UnreadableError("its numbering fails its seal: something of it was changed");
  }
  return numbering;
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

/** @throws {UnreadableError} Not UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch (error) {
    throw new UnreadableError("it is not UTF-8 text", { cause: error });
  }
}

/** @throws {UnreadableError} Not JSON. */
export function parseJson(source: string): JsonValue {
  let value: JsonValue;
  try {
    // What JSON.parse gives is, by its definition, a JsonValue.
    value = JSON.parse(source) as JsonValue;
  } catch (error) {
    throw new UnreadableError("it is not JSON, or cut short", { cause: error });
  }
  return value;
}

/** @throws {UnreadableError} Not a JSON object. */
export function parseObject(source: string): JsonObject {
  const value = parseJson(source);
  if (!isJsonObject(value)) throw new UnreadableError("it is no JSON object");
  return value;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @throws {UnreadableError} */
export function text(fields: Fields, key: string): string {
  const value = fields[key];
  if (typeof value !== "string") throw new UnreadableError(`its ${key} is no text`);
  return value;
}

/** @throws {UnreadableError} */
export function optionalText<Key extends string>(fields: Fields, key: Key): { readonly [K in Key]?: string } {
  // A computed key widens to an index signature, so the type has to be said.
  return fields[key] === undefined ? {} : ({ [key]: text(fields, key) } as { readonly [K in Key]?: string });
}

/** @throws {UnreadableError} */
export function wholeNumber(fields: Fields, key: string, min: number): number {
  const value = fields[key];
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= min) return value;
  throw new UnreadableError(`its ${key} is no whole number from ${min}`);
}

/**
 * Why a file is damaged whose seals hold as `sealed`: the next version of the format MUST seal in another way, or this
 * program would take its files for damaged ones.
 */
export function versionDamage(version: string, sealed: string | number): string {
  return `its format version was changed to ${version}: it is sealed as version ${sealed}`;
}

/** What can't be read is no exception here. */
export function attempt<Result>(parse: () => Result): Result | UnreadableError {
  try {
    return parse();
  } catch (error) {
    if (error instanceof UnreadableError) return error;
    if (isStackOverflow(error)) return new UnreadableError("it nests deeper than anything that is saved");
    throw error;
  }
}
