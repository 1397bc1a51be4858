import type { CorruptRecord, JsonObject } from "waymark";
import {
  type CheckpointDraft,
  findDamage,
  findRecordDamage,
  isCorrupt,
  type LogRecord,
  type Payload,
  type RecordDraft,
  type StoredCheckpoint,
  toSummary,
} from "waymark/adapter";
import { parseSummary } from "waymark/kit";
import { type ReadLinesOptions, readCheckedLines } from "./checked-lines.js";
import { isLogRecord, type StoredItem } from "./whole-records.js";

/** The format name in the header of an export. */
export const EXPORT_FORMAT = "waymark-export";

/** Whether the record is readable and intact. */
export function isWhole(record: StoredCheckpoint | CorruptRecord): record is StoredCheckpoint {
  return !isCorrupt(record) && findDamage(record) === undefined;
}

/** Returns the draft that makes the same record in another storage, if it is appended under the same sequence. */
export function toDraft({ sequence: _sequence, seal: _seal, ...draft }: StoredCheckpoint): CheckpointDraft {
  return draft;
}

/** Like {@link toDraft}, for a record of a log. */
export function toRecordDraft({ taskId: _taskId, sequence: _sequence, seal: _seal, ...draft }: LogRecord): RecordDraft {
  return draft;
}

/** Returns a checkpoint or record as JSON. Bytes become base64. Only a record has a `kind`. */
export function recordJson(item: StoredItem): object {
  const { encoding, sha256, body } = item.payload;
  const content = typeof body === "string" ? { body } : { base64: Buffer.from(body).toString("base64") };
  const { payload: _payload, seal, ...fields } = item;
  const described = isLogRecord(item) ? fields : toSummary(item);
  return { ...described, payload: { encoding, sha256, ...content }, seal };
}

/**
 * Yields the records of an export. See {@link readCheckedLines}.
 *
 * @throws {CommandError} A line is damaged, or the trailer is missing; the message names the line.
 */
export function readExport(
  chunks: AsyncIterable<Uint8Array>,
  source: Pick<ReadLinesOptions<unknown>, "from" | "outcome">,
) {
  return readCheckedLines(chunks, { format: EXPORT_FORMAT, parse: recordFrom, ...source });
}

/**
 * Returns the record that {@link recordJson} encoded. It checks each part, because storages don't validate drafts.
 *
 * @throws {Error} The value isn't a record, or isn't intact. The message completes a sentence.
 */
function recordFrom(value: unknown): StoredItem {
  if (!isObject(value)) throw new Error("its record is not an object");
  const { payload } = value;
  if (!isObject(payload)) throw new Error("its payload isn't an object");
  if (value["kind"] !== undefined) return logRecordFrom(value, payload);
  const { encoding, sha256 } = payload;
  const summary = parseSummary({ ...value, encoding, sha256 });
  if (typeof summary === "string") throw new Error(summary);
  const record = { ...summary, payload: { ...summary.payload, body: bodyFrom(payload) } };
  const damage = textDamageIn(record) ?? findDamage(record) ?? damageInBody(record.payload, record.sizeBytes);
  if (damage !== undefined) throw new Error(damage);
  return record;
}

/** Like {@link recordFrom}, for a record of a log. */
function logRecordFrom(value: JsonObject, payload: JsonObject): LogRecord {
  const { taskId, sequence, createdAt, seal } = value;
  const { encoding, sha256 } = payload;
  const kind = KINDS.find((known) => known === value["kind"]);
  if (kind === undefined) throw new Error("its kind is unknown");
  if (!isText(taskId) || !isText(createdAt) || !isText(seal) || !isText(encoding) || !isText(sha256))
    throw new Error("a field isn't text");
  if (!Number.isSafeInteger(sequence) || typeof sequence !== "number" || sequence < 1)
    throw new Error("its sequence isn't a whole number from 1");
  const texts: { name?: string; recordKey?: string; id?: string } = {};
  for (const field of ["name", "recordKey", "id"] as const) {
    const text = value[field];
    if (isText(text)) texts[field] = text;
    else if (text !== undefined) throw new Error(`its ${field} isn't text`);
  }
  if ((kind === "event") !== (texts.id !== undefined))
    throw new Error("an event has an id, and no other record has one");
  const record = {
    taskId,
    sequence,
    kind,
    ...texts,
    createdAt,
    payload: { encoding, sha256, body: bodyFrom(payload) },
    seal,
  };
  const damage = textDamageIn(record) ?? findRecordDamage(record) ?? damageInBody(record.payload);
  if (damage !== undefined) throw new Error(damage);
  return record;
}

const KINDS = ["step", "event", "chunk", "run", "mark"] as const;

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function bodyFrom({ body, base64 }: JsonObject): string | Uint8Array {
  if (typeof body === "string") return body;
  if (typeof base64 !== "string") throw new Error("its body isn't text");
  return new Uint8Array(Buffer.from(base64, "base64"));
}

/** Checks that a storage can hold the record's texts: they must be Unicode and not too long. */
function textDamageIn(
  record: Readonly<Partial<Record<(typeof TEXTS)[number][0], string | undefined>>>,
): string | undefined {
  for (const [field, most] of TEXTS) {
    const text = record[field];
    if (text === undefined) continue;
    if (!text.isWellFormed()) return `its ${field} isn't Unicode text`;
    if (text.length > most || (text === "" && most < Number.POSITIVE_INFINITY))
      return `its ${field} is empty or too long`;
  }
  return undefined;
}

const TEXTS = [
  ["taskId", 512],
  ["id", 1024],
  ["createdAt", 100],
  ["dueAt", 100],
  ["stage", Number.POSITIVE_INFINITY],
  ["label", Number.POSITIVE_INFINITY],
  ["parentId", Number.POSITIVE_INFINITY],
  ["name", Number.POSITIVE_INFINITY],
  ["recordKey", Number.POSITIVE_INFINITY],
] as const;

/**
 * Checks the part that the seal doesn't cover: the body must be one that Waymark writes.
 *
 * @param sizeBytes - The size in a checkpoint's header.
 */
function damageInBody({ body }: Pick<Payload, "body">, sizeBytes?: number): string | undefined {
  const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  if (sizeBytes !== undefined && bytes !== sizeBytes) return `its payload has ${bytes} bytes, not ${sizeBytes}`;
  // The body must be canonical JSON, since a storage may embed it as JSON.
  return typeof body === "string" && JSON.stringify(JSON.parse(body)) !== body
    ? "its state is not JSON as Waymark writes it"
    : undefined;
}

/** Whether JSON.parse returned an object. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
