import { hash } from "node:crypto";
import {
  type CheckpointDraft,
  type CheckpointStatus,
  type JsonObject,
  type JsonValue,
  type StoredCheckpoint,
  sealDraft,
  summaryOf,
} from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { decodeText, UnreadableError } from "./read-file.js";
import {
  attempt,
  embeddedSize,
  formOfBody,
  isJsonObject,
  optionalText,
  parseFailure,
  parseHead,
  parseObject,
  type RecordHead,
  storedCheckpoint,
  text,
  textOfBody,
  wholeNumber,
} from "./record.js";

/**
 * All checkpoints of a task in one file: a JSON document with one checkpoint per line, so that a damaged line harms no
 * other.
 *
 * ```
 * {"version":"1.0","lastModified":"…","waymark":{"taskId":"T1","lastSequence":7,"seal":"…"},"checkpoints":[
 * {"id":"a1","taskId":"T1","label":"…","createdAt":"…","waymark":{"sequence":7,…}, "state":{"step":3}}
 * ]}
 * ```
 *
 * The `waymark` keys hold what has no place in the format of programs that know `version`, `checkpoints` and
 * `lastModified` alone. Where such a program has written the file, records without that key are adopted: ordered by
 * their own dates, numbered after the others, and written in our form by the next write.
 */
const FORMAT_VERSION = "1.0";
const FIRST_LINE_END = '"checkpoints":[';
const LAST_LINE = "]}";
/** With a space, which no JSON.stringify writes: so it stands in a line once. */
const STATE_KEY = Buffer.from(', "state":');
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const COMMA = 0x2c;

/** What another program's record doesn't say, as far as its state tells it. Must not throw. */
export type AdoptRecord = (record: JsonObject) => {
  readonly stage?: string | undefined;
  /** Default: `failed` where the record has an error, else `running`. */
  readonly status?: CheckpointStatus | undefined;
};

/** A checkpoint in the file. */
export interface RecordEntry {
  readonly head: RecordHead;
  /** As it stands in the file, without the comma after it. */
  readonly line: Buffer;
  /** From 1, where it was read from a line. */
  readonly lineNumber?: number;
}

/** A line that can't be read and is carried along as it is; or, without a line, what is wrong with the file as a whole. */
export interface DamagedEntry {
  readonly reason: string;
  readonly cause?: unknown;
  readonly line?: Buffer;
  /** From 1. */
  readonly lineNumber?: number;
  /** What the line seems to have held. */
  readonly id?: string;
}

export type Entry = RecordEntry | DamagedEntry;

/** A task's file, the oldest first. */
export interface TaskFileContent {
  readonly entries: readonly Entry[];
  /** The last sequence that was given, as far as the file tells. */
  readonly lastSequence: number;
  /** Whose it is, as far as the file tells. */
  readonly taskId?: string | undefined;
  /** Why the file must not be written: what it says of itself can't be read. */
  readonly refusal?: string | undefined;
  /** The first line's keys, another program's too. */
  readonly fields: JsonObject;
}

export function isDamaged(entry: Entry): entry is DamagedEntry {
  return "reason" in entry;
}

/**
 * Reads as much of a task's file as can be read.
 *
 * @throws {UnsupportedFormatError} It has another version.
 */
export function parseTaskFile(bytes: Buffer, path: string, adopt: AdoptRecord | undefined): TaskFileContent {
  return parseLines(bytes, path) ?? parseDocument(bytes, path, adopt) ?? salvage(bytes);
}

/**
 * The newest checkpoint of a task's file, and how many it has, without reading more lines than the first and the last.
 * `undefined` where they don't tell: then the whole has to be read.
 */
export function parseNewest(bytes: Buffer, path: string): { head: RecordHead; count: number } | undefined {
  const end = bytes.length - LAST_LINE.length - 2;
  const firstEnd = bytes.indexOf(LINE_FEED);
  const start = bytes.lastIndexOf(LINE_FEED, end - 1) + 1;
  if (firstEnd === -1 || start <= firstEnd || bytes.toString("latin1", end) !== `\n${LAST_LINE}\n`) return undefined;
  const newest = parseLine(bytes.subarray(start, end), 0);
  const header = parseHeader(bytes.subarray(0, firstEnd), path);
  if (header?.refusal !== undefined || header === undefined || isDamaged(newest)) return undefined;
  let count = 0;
  for (let at = firstEnd; at < end; at = bytes.indexOf(LINE_FEED, at + 1)) count += 1;
  return { head: newest.head, count };
}

/** The checkpoint of an entry. @throws {UnreadableError} */
export function checkpointOf({ head, line }: RecordEntry): StoredCheckpoint {
  return storedCheckpoint(head, decodeText(line.subarray(line.indexOf(STATE_KEY) + STATE_KEY.length, -1)));
}

/** A checkpoint as an entry. @param former - The keys of the record in whose place it comes, another program's too. */
export function entryOf(record: StoredCheckpoint, former: JsonObject = {}): RecordEntry {
  const { payload, seal, ...summary } = record;
  const { id, taskId, label, createdAt, error, ...rest } = summaryOf(summary);
  const { sequence, stage, status, parentId, metadata, stateVersion, sizeBytes } = rest;
  const { encoding, sha256 } = payload;
  const bodyIs = formOfBody(payload);
  const waymark = {
    ...{ sequence, stage, status, parentId, metadata, stateVersion, sizeBytes },
    ...{ encoding, bodyIs, sha256, seal },
  };
  const fields = JSON.stringify({ ...former, id, taskId, label, createdAt, error, waymark });
  const line = Buffer.from(`${fields.slice(0, -1)}${STATE_KEY}${textOfBody(payload)}}`);
  return { head: { ...record, payload: { encoding, sha256 }, ...(bodyIs && { bodyIs }) }, line };
}

/** The keys of an entry but its state, another program's too. */
export function fieldsOf({ line }: RecordEntry): JsonObject {
  return parseObject(`${line.subarray(0, line.indexOf(STATE_KEY))}}`);
}

/** A task's file as its bytes. */
export function renderTaskFile(
  { entries, fields }: TaskFileContent,
  taskId: string,
  lastSequence: number,
  nowIso: string,
): Buffer {
  const waymark = { taskId, lastSequence, seal: sealOf(taskId, lastSequence) };
  const header = JSON.stringify({ ...fields, version: FORMAT_VERSION, lastModified: nowIso, waymark });
  const parts: Uint8Array[] = [Buffer.from(`${header.slice(0, -1)},${FIRST_LINE_END}\n`)];
  for (const { line } of entries) {
    if (line === undefined) continue;
    if (parts.length > 1) parts.push(Buffer.from(",\n"));
    parts.push(line);
  }
  parts.push(Buffer.from(`${parts.length > 1 ? "\n" : ""}${LAST_LINE}\n`));
  return Buffer.concat(parts);
}

type Header = Omit<TaskFileContent, "entries">;

/** A file in our form; `undefined` where it isn't. */
function parseLines(bytes: Buffer, path: string): TaskFileContent | undefined {
  const lines = linesOf(bytes);
  const first = lines.next().value;
  const header = first && parseHeader(first.line, path);
  if (header === undefined) return undefined;
  const entries: Entry[] = [];
  let isWhole = false;
  for (const { line, number } of lines) {
    isWhole = line.toString("latin1", 0, LAST_LINE.length + 1) === LAST_LINE;
    if (!isWhole) entries.push(parseLine(line, number));
  }
  const last = entries.at(-1);
  if (!isWhole && (last === undefined || !isDamaged(last))) entries.push({ reason: "it was cut short" });
  return completed(header, entries);
}

/** A first line of our form; `undefined` where it isn't one. */
function parseHeader(bytes: Buffer, path: string): Header | undefined {
  const line = attempt(() => decodeText(bytes).replace(/\r$/, ""));
  if (line instanceof UnreadableError || !line.endsWith(FIRST_LINE_END)) return undefined;
  const document = attempt(() => parseObject(`${line}${LAST_LINE}`));
  return document instanceof UnreadableError ? undefined : checkedHeader(document, path, true);
}

/** @param isOurs - No other program writes a file of that form. */
function checkedHeader({ checkpoints: _records, ...fields }: JsonObject, path: string, isOurs: boolean): Header {
  const { version, waymark } = fields as { version?: JsonValue; waymark?: JsonValue };
  const damaged = (refusal: string): Header => ({ fields: {}, lastSequence: 0, refusal });
  if (version === undefined && isOurs) return damaged("its version is damaged");
  if (version !== FORMAT_VERSION) {
    throw new UnsupportedFormatError(
      `${path} has format version ${JSON.stringify(version) ?? "none"}; this program knows version "${FORMAT_VERSION}". ` +
        "It was left untouched; run the program that wrote it.",
    );
  }
  if (waymark === undefined && !isOurs) return { fields, lastSequence: 0 };
  const numbering = attempt(() => parseNumbering(waymark));
  return numbering instanceof UnreadableError ? damaged(numbering.message) : { fields, ...numbering };
}

/** @throws {UnreadableError} */
function parseNumbering(waymark: JsonValue | undefined): { readonly taskId: string; readonly lastSequence: number } {
  if (!isJsonObject(waymark)) throw new UnreadableError("its numbering is missing");
  const numbering = { taskId: text(waymark, "taskId"), lastSequence: wholeNumber(waymark, "lastSequence", 0) };
  if (waymark["seal"] === sealOf(numbering.taskId, numbering.lastSequence)) return numbering;
  throw new UnreadableError("its numbering doesn't match its seal");
}

/** A wrong numbering would give a sequence twice: so it is sealed. */
function sealOf(taskId: string, lastSequence: number): string {
  return hash("sha256", JSON.stringify(["waymark-numbering-1", taskId, lastSequence]), "hex");
}

/** A JSON document in any other form: another program wrote it. */
function parseDocument(bytes: Buffer, path: string, adopt: AdoptRecord | undefined): TaskFileContent | undefined {
  const document = attempt(() => parseObject(decodeText(bytes)));
  if (document instanceof UnreadableError) return undefined;
  const header = checkedHeader(document, path, false);
  const { checkpoints } = document as { checkpoints?: JsonValue };
  if (!Array.isArray(checkpoints)) return undefined;
  const damaged: DamagedEntry[] = [];
  const ours: RecordEntry[] = [];
  const foreign: ForeignRecord[] = [];
  for (const value of checkpoints as readonly JsonValue[]) {
    const found = attempt(() => parseRecord(value, adopt));
    if (found instanceof UnreadableError) damaged.push(damagedEntry(found, Buffer.from(JSON.stringify(value))));
    else if ("head" in found) ours.push(found);
    else foreign.push(found);
  }
  ours.sort((a, b) => a.head.sequence - b.head.sequence);
  foreign.sort((a, b) => (a.draft.createdAt < b.draft.createdAt ? -1 : Number(a.draft.createdAt > b.draft.createdAt)));
  let sequence = Math.max(header.lastSequence, ours.at(-1)?.head.sequence ?? 0);
  const adopted = foreign.map(({ draft, fields }) => entryOf(sealDraft(draft, ++sequence), fields));
  return completed(header, [...damaged, ...ours, ...adopted]);
}

/** What is left of a file that is damaged where it says what it is. */
function salvage(bytes: Buffer): TaskFileContent {
  const entries: Entry[] = [];
  for (const { line, number } of linesOf(bytes)) {
    const entry = parseLine(line, number);
    if (!isDamaged(entry)) entries.push(entry);
  }
  const refusal = bytes.length === 0 ? "it is empty" : "its first line is damaged, or it is not a checkpoint file";
  return completed({ fields: {}, lastSequence: 0, refusal }, entries);
}

function completed(header: Header, entries: readonly Entry[]): TaskFileContent {
  const records = entries.filter((entry): entry is RecordEntry => !isDamaged(entry));
  const { taskId = records[0]?.head.taskId, refusal } = header;
  const lastSequence = Math.max(header.lastSequence, records.at(-1)?.head.sequence ?? 0);
  const all = refusal === undefined ? entries : [...entries, { reason: refusal }];
  return { ...header, taskId, lastSequence, entries: all };
}

interface Line {
  /** Without its end. */
  readonly line: Buffer;
  /** From 1. */
  readonly number: number;
}

/** The lines that hold something. */
function* linesOf(bytes: Buffer): Generator<Line, void, void> {
  let start = 0;
  for (let number = 1; start < bytes.length; number++) {
    const found = bytes.indexOf(LINE_FEED, start);
    const end = found === -1 ? bytes.length : found;
    // Git puts carriage returns there on Windows.
    const line = bytes.subarray(start, bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end);
    if (line.length > 0) yield { line, number };
    start = end + 1;
  }
}

/** A record's line. Its state is taken as it stands there, without being parsed. */
function parseLine(whole: Buffer, lineNumber: number): Entry {
  const line = whole.at(-1) === COMMA ? whole.subarray(0, -1) : whole;
  const entry = attempt((): RecordEntry => {
    const at = line.indexOf(STATE_KEY);
    if (at === -1) throw new UnreadableError("it has no state");
    const fields = parseObject(`${decodeText(line.subarray(0, at))}}`);
    const head = headOf(fields);
    const size = line.length - at - STATE_KEY.length - 1;
    if (size !== embeddedSize(head) || !line.toString("latin1", line.length - 1).endsWith("}")) {
      throw new UnreadableError("its state was cut short or changed");
    }
    return { head, line, lineNumber };
  });
  return entry instanceof UnreadableError ? { ...damagedEntry(entry, line), lineNumber } : entry;
}

/** @throws {UnreadableError} */
function headOf(fields: JsonObject): RecordHead {
  const waymark = fields["waymark"];
  if (!isJsonObject(waymark)) throw new UnreadableError("its waymark key holds no object");
  return parseHead(fields, waymark);
}

/** A record that another program has written, or stripped of what it didn't know. */
interface ForeignRecord {
  readonly draft: CheckpointDraft;
  readonly fields: JsonObject;
}

/** @throws {UnreadableError} */
function parseRecord(value: JsonValue, adopt: AdoptRecord | undefined): RecordEntry | ForeignRecord {
  if (!isJsonObject(value)) throw new UnreadableError("it is no object");
  const { state, ...fields } = value as { state?: JsonValue } & JsonObject;
  if (state === undefined) throw new UnreadableError("it has no state");
  const body = JSON.stringify(state);
  if (fields["waymark"] === undefined) return foreignRecord(fields, body, value, adopt);
  const head = headOf(fields);
  if (Buffer.byteLength(body) !== embeddedSize(head)) throw new UnreadableError("its state was cut short or changed");
  return entryOf(storedCheckpoint(head, body), fields);
}

function foreignRecord(
  fields: JsonObject,
  body: string,
  whole: JsonObject,
  adopt: AdoptRecord | undefined,
): ForeignRecord {
  const error = fields["error"];
  const createdAt = new Date(text(fields, "createdAt"));
  if (Number.isNaN(createdAt.getTime())) throw new UnreadableError("its createdAt is no date");
  const draft = {
    taskId: text(fields, "taskId"),
    id: text(fields, "id"),
    createdAt: createdAt.toISOString(),
    ...optionalText(fields, "label"),
    ...(error === undefined ? undefined : { error: parseFailure(error) }),
    stateVersion: 1,
    sizeBytes: Buffer.byteLength(body),
    payload: { encoding: "json", body, sha256: hash("sha256", body, "hex") },
  };
  const { stage, status = error === undefined ? "running" : "failed" } = adopt?.(whole) ?? {};
  return { draft: { ...draft, ...(stage === undefined ? undefined : { stage }), status }, fields };
}

function damagedEntry({ message, cause }: UnreadableError, line: Buffer): DamagedEntry {
  const [, id] = /^\{"id":"([^"\\]+)",/.exec(line.toString("latin1", 0, 1000)) ?? [];
  return { reason: message, line, ...(cause === undefined ? undefined : { cause }), ...(id && { id }) };
}
