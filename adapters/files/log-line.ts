import { hash, randomBytes } from "node:crypto";
import { isJsonObject, type JsonValue } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import {
  assignNames,
  type LogRecord,
  RECORD_KINDS,
  type RecordHeader,
  type RecordKind,
} from "../../src/contract/log.js";
import { UnreadableError } from "./file-io.js";
import { attempt, measureEmbedded, parseObject, renderBody } from "./record.js";

/**
 * The file with a task's log. Each line is a JSON document, so `jq` reads the file.
 *
 * ```
 * {"waymark":1,"log":"d9c1…","taskId":"build-42","lastSequence":0,"check":"8f3a…"}
 * {"at":81,"log":"d9c1…","follows":"8f3a…","sequence":1,"kind":"step","name":"compile",…,"check":"11c0…","value":{"ok":true}}
 * ```
 *
 * `check` is a checksum over the text before it. The value has the record's SHA-256. A line counts only if it is
 * intact, begins at the byte `at`, and has the `log` id of line one. An append therefore takes its expected place or
 * doesn't count, and a reader needs only the file to decide.
 */
const FORMAT_VERSION = 1;
const CHECK_KEY = ',"check":"';
const CHECK_DIGITS = 16;
const VALUE_KEY = ',"value":';
const CLOSING_BRACE = 0x7d;

/** A due time that a record has set for its task. The time holds while the newest checkpoint has this digest. */
export type DueMark = { readonly at: string; readonly for: string };

/** The checkpoint with which a batch of records was stored. The seal identifies its status at that time. */
export type Companion = { readonly id: string; readonly seal: string };

/** A line's fields as they are in the file, which leaves out those that are `undefined`. */
export type LineFields = { readonly [field: string]: JsonValue | undefined };

/** The place of the next line. */
export interface LinePlace {
  /** The log's id, from line one. */
  readonly log: string;
  readonly at: number;
  /** The `check` of the last line that counts so far. */
  readonly check: string;
}

/** Line one of a log. */
export interface FirstLine {
  /** The log's random id, so that a line of another file doesn't count in this one. */
  readonly log: string;
  readonly taskId: string;
  /** The last sequence that was taken when the file was made. */
  readonly lastSequence: number;
  readonly removedUpTo: number;
  readonly due: DueMark | undefined;
  readonly check: string;
  /** The length of the line in bytes, without the line feed. */
  readonly size: number;
}

/** A record's fields, as parsed from its line. */
interface RecordFields extends Omit<RecordHeader, "taskId" | "payload"> {
  readonly encoding: string;
  readonly sha256: string;
  readonly bodyIs?: "base64" | typeof EMPTIED;
}

/** A later line of a log. */
export interface LogLine {
  /** The offset in bytes at which its writer expected the line to begin. */
  readonly at: number;
  readonly log: string;
  /** The `check` of the last line that counted when this line was written. */
  readonly follows: string;
  readonly sequence: number;
  /**
   * A `barrier` moves the end of the log. A `commit` line confirms that the previous batch was stored with its
   * checkpoint.
   */
  readonly kind: RecordKind | "barrier" | "commit";
  /** The line's number in its batch, from 1, and the number of lines in the batch. */
  readonly of: readonly [number, number];
  /** Whether the line's writer left it unsynced. */
  readonly isLazy: boolean;
  readonly with: Companion | undefined;
  readonly due: DueMark | undefined;
  /** A record's fields; `undefined` for other lines. */
  readonly record: RecordFields | undefined;
  readonly check: string;
  readonly fields: LineFields;
  /** The text of the value; `undefined` if there is none. */
  readonly value: Buffer | undefined;
  /** Whether the line has its whole length. */
  readonly isWhole: boolean;
}

/** Renders the first line of a new file, and returns the place after it. */
export function renderFirstLine(first: {
  readonly taskId: string;
  readonly lastSequence: number;
  readonly removedUpTo?: number | undefined;
  readonly due?: DueMark | undefined;
}): { readonly bytes: Buffer } & LinePlace {
  const { taskId, lastSequence, removedUpTo, due } = first;
  const log = randomBytes(12).toString("hex");
  const fields = { waymark: FORMAT_VERSION, log, taskId, lastSequence, removedUpTo: removedUpTo || undefined, due };
  const { bytes, check } = renderFields(fields);
  return { bytes, log, at: bytes.length, check };
}

/** Returns the fields of a record's line, except those that depend on its place in the file. */
export function pickRecordFields(record: LogRecord): { readonly fields: LineFields; readonly value: string } {
  const { kind, sequence, name, recordKey, id, createdAt, payload, seal } = record;
  const { encoding, sha256, body } = payload;
  const { bodyIs, text } = renderBody(payload);
  const sizeBytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  const described = { sequence, kind, name, recordKey, id, createdAt };
  return { fields: { ...described, encoding, bodyIs, sizeBytes, sha256, seal }, value: text };
}

interface ParsedFields {
  readonly fields: LineFields;
  readonly check: string;
  /** The length of the fields and the check, in bytes. */
  readonly end: number;
}

/** A line of the file, with its line feed. */
export interface RenderedLine extends ParsedFields {
  readonly bytes: Buffer;
}

/** Renders a line. @param value - The text of the line's value. */
export function renderFields(fields: LineFields, value?: string | Uint8Array): RenderedLine {
  const header = JSON.stringify(fields).slice(0, -1);
  const check = checksum(header);
  const start = `${header}${CHECK_KEY}${check}"`;
  const end = Buffer.byteLength(start);
  // Joined into one string first, so that the bytes are copied only once.
  const bytes =
    value === undefined || typeof value === "string"
      ? Buffer.from(`${start}${value === undefined ? "" : `${VALUE_KEY}${value}`}}\n`)
      : Buffer.concat([Buffer.from(`${start}${VALUE_KEY}`), value, Buffer.from("}\n")]);
  // Fields are parsed from the text, since untyped callers may pass values that JSON stores differently.
  return { bytes, fields: parseObject(`${header}}`), check, end };
}

/** @throws {UnreadableError} @throws {UnsupportedFormatError} A newer program wrote the file. */
export function parseFirstLine(bytes: Buffer, path: string): FirstLine {
  const { fields, check, end } = parseFields(bytes);
  const { waymark, log, taskId, lastSequence, removedUpTo = 0, due } = fields as FieldsOf<"removedUpTo" | "waymark">;
  if (typeof waymark === "number" && waymark !== FORMAT_VERSION) {
    throw new UnsupportedFormatError(
      `${path} has format version ${waymark}; this program knows version ${FORMAT_VERSION}. It was left untouched; ` +
        "use the newer program.",
    );
  }
  const isComplete =
    typeof log === "string" &&
    typeof taskId === "string" &&
    typeof lastSequence === "number" &&
    typeof removedUpTo === "number";
  if (!isComplete || waymark === undefined) throw new UnreadableError("its first line isn't that of a log");
  return { log, taskId, lastSequence, removedUpTo, due: parseDue(due), check, size: end + 1 };
}

/**
 * Parses a line, given without its line feed. Returns `undefined` if its `check` doesn't match. The value may be
 * damaged.
 */
export function parseLine(bytes: Buffer): LogLine | undefined {
  const parsed = attempt(() => parseFields(bytes));
  return parsed instanceof UnreadableError ? undefined : toLogLine(parsed, bytes);
}

/** @param bytes - The line without its line feed. */
export function toLogLine({ fields, check, end }: ParsedFields, bytes: Buffer): LogLine | undefined {
  const { at, log, follows, sequence, kind, of, lazy, due } = fields as FieldsOf<"follows" | "lazy">;
  const known = KINDS.find((one) => one === kind);
  if (typeof at !== "number" || typeof log !== "string" || typeof follows !== "string") return undefined;
  if (typeof sequence !== "number" || known === undefined) return undefined;
  const record = isRecord(fields) ? fields : undefined;
  const size = record === undefined || record.bodyIs === EMPTIED ? 0 : VALUE_KEY.length + measureEmbedded(record);
  const [number, count] = Array.isArray(of) ? of : [1, 1];
  return {
    at,
    log,
    follows,
    sequence,
    kind: known,
    check,
    fields,
    of: [Number(number), Number(count)],
    isLazy: lazy === true,
    with: parseCompanion(fields),
    due: parseDue(due),
    record,
    value: size > 0 ? bytes.subarray(end + VALUE_KEY.length, end + size) : undefined,
    isWhole: bytes.length === end + size + 1 && bytes[end + size] === CLOSING_BRACE,
  };
}

/** Returns the record in a line, or its header if an event's body was removed. */
export function joinLogRecord(line: LogLine, taskId: string): LogRecord | RecordHeader | undefined {
  const { record, value } = line;
  if (record === undefined || value === undefined) return joinHeader(line, taskId);
  const { sequence, kind, createdAt, encoding, sha256, seal, bodyIs } = record;
  // If the text isn't UTF-8, its digest shows the damage.
  const text = value.toString();
  const body = bodyIs === "base64" ? new Uint8Array(Buffer.from(text.slice(1, -1), "base64")) : text;
  const joined: LogRecord = { taskId, sequence, kind, createdAt, payload: { encoding, sha256, body }, seal };
  assignNames(joined, record);
  return joined;
}

/** Returns the header of the record in a line. */
export function joinHeader({ record }: LogLine, taskId: string): RecordHeader | undefined {
  if (record === undefined) return undefined;
  const { sequence, kind, createdAt, encoding, sha256, seal, sizeBytes } = record;
  const header: RecordHeader = { taskId, sequence, kind, createdAt, payload: { encoding, sha256 }, seal, sizeBytes };
  assignNames(header, record);
  return header;
}

/** Searches a line that can't be parsed for its sequence. */
export function findSequence(bytes: Buffer): number | undefined {
  const [, digits] = /"sequence":(\d{1,16}),/.exec(bytes.toString("latin1", 0, 1000)) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

const KINDS = [...RECORD_KINDS, "barrier", "commit"] as const;
/** The value of `bodyIs` for an event whose body was removed. */
export const EMPTIED = "none";

type FieldsOf<More extends string> = Partial<
  Record<"at" | "log" | "taskId" | "sequence" | "lastSequence" | "kind" | "of" | "due" | More, JsonValue>
>;

function parseFields(bytes: Buffer): ParsedFields {
  const headerEnd = bytes.indexOf(CHECK_KEY);
  const checkAt = headerEnd + CHECK_KEY.length;
  const check = bytes.toString("latin1", checkAt, checkAt + CHECK_DIGITS);
  if (headerEnd < 1 || check !== checksum(bytes.subarray(0, headerEnd))) {
    throw new UnreadableError("it doesn't match its checksum");
  }
  return { fields: parseObject(`${bytes.toString("utf8", 0, headerEnd)}}`), check, end: checkAt + CHECK_DIGITS + 1 };
}

function isRecord(fields: LineFields): fields is LineFields & RecordFields {
  const { kind, name, recordKey, id, createdAt, encoding, sizeBytes, sha256, seal, bodyIs } = fields as FieldsOf<
    keyof RecordFields
  >;
  const hasTexts = isText(createdAt) && isText(encoding) && isText(sha256) && isText(seal);
  const hasNames = isTextOrMissing(name) && isTextOrMissing(recordKey) && isTextOrMissing(id);
  const isKnown = kind !== "barrier" && kind !== "commit";
  return isKnown && hasTexts && hasNames && isTextOrMissing(bodyIs) && typeof sizeBytes === "number";
}

function isText(field: JsonValue | undefined): boolean {
  return typeof field === "string";
}

function isTextOrMissing(field: JsonValue | undefined): boolean {
  return field === undefined || typeof field === "string";
}

function parseCompanion({ with: companion }: LineFields): Companion | undefined {
  if (!isJsonObject(companion)) return undefined;
  const { id, seal } = companion as Partial<Record<keyof Companion, JsonValue>>;
  return typeof id === "string" && typeof seal === "string" ? { id, seal } : undefined;
}

function parseDue(due: JsonValue | undefined): DueMark | undefined {
  if (!isJsonObject(due)) return undefined;
  const { at, for: digest } = due as Partial<Record<keyof DueMark, JsonValue>>;
  return typeof at === "string" && typeof digest === "string" ? { at, for: digest } : undefined;
}

function checksum(header: string | Uint8Array): string {
  return hash("sha256", header, "hex").slice(0, CHECK_DIGITS);
}
