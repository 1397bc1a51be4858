import { dirname } from "node:path";
import type { JsonObject } from "../../src/checkpoint.js";
import { UnsupportedFormatError } from "../../src/errors.js";
import {
  attempt,
  decodeText,
  isJsonObject,
  NOT_JSON,
  type Numbering,
  parseNumbering,
  parseObject,
  sealNumbering,
  versionDamage,
} from "./sealed-record.js";
import { UnreadableError } from "./stored-file.js";
import { inOrder, withMisplaced } from "./task-file-order.js";
import {
  type AdoptRecord,
  type ForeignEntry,
  hintsOf,
  holdsSealed,
  parseRecord,
  parseRecordLine,
  type RecordEntry,
  renderRecord,
} from "./task-file-record.js";
import { foreignReason, isForeign } from "./task-scan.js";

/**
 * All checkpoints of a task in one file: a JSON document with one checkpoint per line, so that a damaged line harms no
 * other.
 *
 * ```
 * {"version":"1.0","lastModified":"…","waymark":{"taskId":"T1","lastSequence":7,"seal":"…"},"checkpoints":[
 * {"id":"a1","taskId":"T1","label":"…","createdAt":"…","waymark":{"sequence":7,…},"state":{"step":3}}
 * ]}
 * ```
 *
 * The `waymark` keys hold what has no place in the format of programs that know `version`, `checkpoints` and
 * `lastModified` alone. Where such a program has written the file, records without that key are adopted: ordered by
 * their own dates, numbered after the others, and written in our form by the next write.
 */
const FORMAT_VERSION = "1.0";
/** In its task's folder. */
export const TASK_FILE_NAME = "checkpoints.json";
const FIRST_LINE_END = '"checkpoints":[';
const LAST_LINE = "]}";
const OBJECT_START = /^\s*\{/;
const COMMA = 0x2c;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** A line that can't be read and is kept as it is; or, without a line, what is wrong with the file as a whole. */
export interface DamagedEntry {
  readonly reason: string;
  readonly cause?: unknown;
  readonly line?: string | Uint8Array | undefined;
  /** From 1. */
  readonly lineNumber?: number | undefined;
  /** What the line seems to have held. */
  readonly id?: string | undefined;
  readonly sequence?: number | undefined;
}

export type Entry = RecordEntry | DamagedEntry;

/** A task's file, in the order in which its lines are written. */
export interface TaskFileContent {
  readonly entries: readonly Entry[];
  /** `undefined` where another program wrote the file, or its first line can't be read. */
  readonly numbering?: Numbering | undefined;
  /** Why the file must not be written: what it says of itself can't be read. */
  readonly refusal?: string | undefined;
  /** Keys that another program has added. */
  readonly extra: JsonObject;
}

export function isDamaged(entry: object): entry is DamagedEntry {
  return "reason" in entry;
}

/**
 * Reads as much of a task's file as can be read.
 *
 * @throws {UnsupportedFormatError} It has another version.
 */
export function parseTaskFile(bytes: Buffer, path: string, adopt: AdoptRecord | undefined): TaskFileContent {
  const lines = splitLines(bytes);
  const read: ReadRecords = { folder: dirname(path), adopt };
  const parsed = parseOurs(lines, path, read) ?? parseWhole(bytes, path, read) ?? salvage(lines, read);
  const entries = numberForeign(parsed);
  return { ...parsed, entries: parsed.refusal === undefined ? entries : [...entries, { reason: parsed.refusal }] };
}

/** The newest checkpoint of a task's file, and how many lines hold checkpoints. */
interface NewestEntry {
  readonly newest: RecordEntry;
  readonly count: number;
}

/**
 * The same without reading more lines than the first and the last. `undefined` where they don't tell for certain: then
 * the whole has to be read.
 */
export function parseNewest(bytes: Buffer): NewestEntry | undefined {
  const end = bytes.length - LAST_LINE.length - 2;
  const firstEnd = bytes.indexOf(LINE_FEED);
  const lastStart = bytes.lastIndexOf(LINE_FEED, end - 1) + 1;
  const isOurs = lastStart > firstEnd && bytes.toString("latin1", end) === `\n${LAST_LINE}\n`;
  if (firstEnd === -1 || !isOurs) return undefined;
  const parsed = attempt(() => {
    const { version, waymark } = parseFirstLine(decodeText(bytes.subarray(0, firstEnd)));
    if (version !== FORMAT_VERSION || !isJsonObject(waymark)) return undefined;
    const newest = parseRecordLine(decodeText(bytes.subarray(lastStart, end)), undefined);
    return "head" in newest ? { newest, numbering: parseNumbering(waymark) } : undefined;
  });
  if (parsed === undefined || parsed instanceof UnreadableError) return undefined;
  const { newest, numbering } = parsed;
  // Other programs may have put their records in any order.
  return newest.head.sequence === numbering.lastSequence
    ? { newest, count: countLines(bytes, firstEnd, end) }
    : undefined;
}

/** A task's file as its bytes. */
export function renderTaskFile(
  { entries, numbering, extra }: TaskFileContent & { readonly numbering: Numbering },
  nowIso: string,
): Buffer {
  const head = { version: FORMAT_VERSION, lastModified: nowIso, ...extra, waymark: sealNumbering(numbering) };
  const lines = entries.flatMap((entry) => {
    const line = isDamaged(entry) ? entry.line : (entry.line ?? renderRecord(entry));
    return line === undefined ? [] : [Buffer.from(line)];
  });
  const separated = lines.flatMap((line, index) => [line, Buffer.from(index < lines.length - 1 ? ",\n" : "\n")]);
  const firstLine = `${JSON.stringify(head).slice(0, -1)},${FIRST_LINE_END}\n`;
  return Buffer.concat([Buffer.from(firstLine), ...separated, Buffer.from(`${LAST_LINE}\n`)]);
}

/** How records are read: those of another task than the folder's are damage. */
interface ReadRecords {
  readonly folder: string;
  readonly adopt: AdoptRecord | undefined;
}

interface Parsed extends Omit<TaskFileContent, "entries"> {
  readonly entries: readonly (Entry | ForeignEntry)[];
}

/** A file in our form; `undefined` where its first line isn't. */
function parseOurs(lines: readonly Line[], path: string, read: ReadRecords): Parsed | undefined {
  const [first, ...rest] = lines;
  const head = first && attempt(() => parseFirstLine(first.content));
  if (head === undefined || head instanceof UnreadableError) return undefined;
  const isWhole = isLastLine(rest.at(-1));
  const entries = parseLines(isWhole ? rest.slice(0, -1) : rest, read);
  const parsed = { ...parseFileHead(head, path), entries };
  return isWhole || !misses(parsed) ? parsed : { ...parsed, entries: [...entries, CUT_SHORT] };
}

const CUT_SHORT: DamagedEntry = { reason: "it was cut short" };

/** Whether a file without its last line misses more than that, and no damaged line tells of it. */
function misses({ numbering, entries }: Parsed): boolean {
  const last = entries.at(-1);
  if (last && isDamaged(last)) return false;
  return (last && "head" in last ? last.head.sequence : 0) !== numbering?.lastSequence;
}

/** A JSON document in any other form: another program wrote it. */
function parseWhole(bytes: Buffer, path: string, read: ReadRecords): Parsed | undefined {
  const document = attempt(() => parseObject(decodeText(bytes)));
  if (document instanceof UnreadableError) return undefined;
  const { checkpoints, ...head } = document;
  const file = parseFileHead(head, path);
  if (!Array.isArray(checkpoints)) return undefined;
  const entries = checkpoints.map((value) => {
    const entry = attempt(() => ofTask(read.folder, parseRecord(value, read.adopt)));
    return entry instanceof UnreadableError ? damagedEntry(entry, JSON.stringify(value)) : entry;
  });
  // Other programs may have put them in any order. Two of one sequence aren't theirs.
  return { ...file, entries: withMisplaced(inOrder(entries)) };
}

/** What is left of a file that is damaged where it says what it is. */
function salvage(lines: readonly Line[], read: ReadRecords): Parsed {
  const refusal = lines.length === 0 ? "it is empty" : "its first line is damaged, or it is not a checkpoint file";
  const [first, ...rest] = parseLines(
    lines.filter((line) => !isLastLine(line)),
    read,
  );
  const entries = first && !isDamaged(first) ? [first, ...rest] : rest;
  // Of another kind of file each line would be reported else.
  return { refusal, extra: {}, entries: entries.every(isDamaged) ? [] : entries };
}

function parseFirstLine(line: string | Buffer): JsonObject {
  if (typeof line !== "string" || !line.endsWith(FIRST_LINE_END)) {
    throw new UnreadableError("its first line holds no head");
  }
  const { checkpoints: _none, ...head } = parseObject(`${line}${LAST_LINE}`);
  return head;
}

function parseFileHead(head: JsonObject, path: string): Omit<TaskFileContent, "entries"> {
  const { version, lastModified: _then, waymark, ...extra } = head;
  const isOurs = waymark !== undefined || holdsSealed(extra);
  if (version === undefined && isOurs) return { extra, refusal: "its version is damaged" };
  const numbering = attempt(() => parseNumbering(isJsonObject(waymark) ? waymark : {}));
  const isSealed = !(numbering instanceof UnreadableError);
  if (version !== FORMAT_VERSION) {
    const said = JSON.stringify(version) ?? "none";
    // No program writes another version over what it seals as version 1.
    if (isSealed) return { extra, numbering, refusal: versionDamage(said, FORMAT_VERSION) };
    throw new UnsupportedFormatError(
      `${path} has format version ${said}; this program knows version "${FORMAT_VERSION}". ` +
        "It was left untouched; run the program that wrote it.",
    );
  }
  if (waymark === undefined) return isOurs ? { extra, refusal: "the name of its waymark key is damaged" } : { extra };
  if (!isSealed) return { extra, refusal: numbering.message };
  return isForeign(numbering.taskId, dirname(path))
    ? { extra, numbering, refusal: foreignReason(numbering.taskId) }
    : { extra, numbering };
}

/**
 * Numbers what other programs have written: after the rest, by their own dates, then as they stand in the file. They are
 * written in that order: ours ascend.
 */
function numberForeign({ entries, numbering }: Parsed): readonly Entry[] {
  let sequence = numbering?.lastSequence ?? 0;
  for (const entry of entries) if ("head" in entry) sequence = Math.max(sequence, entry.head.sequence);
  const numbered = new Map<ForeignEntry, RecordEntry>();
  const foreign = entries.filter((entry) => "numbered" in entry);
  for (const entry of foreign.toSorted((a, b) =>
    a.createdAt < b.createdAt ? -1 : Number(a.createdAt > b.createdAt),
  )) {
    sequence += 1;
    numbered.set(entry, entry.numbered(sequence));
  }
  return inOrder(entries.flatMap((entry) => ("numbered" in entry ? (numbered.get(entry) ?? []) : entry)));
}

interface Line {
  /** Bytes where it isn't UTF-8. */
  readonly content: string | Buffer;
  /** From 1. */
  readonly number: number;
}

/** The lines that hold something, without the carriage returns that Git puts there on Windows. */
function splitLines(bytes: Buffer): Line[] {
  const whole = attempt(() => decodeText(bytes));
  const lines =
    typeof whole === "string"
      ? whole.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line))
      : splitBytes(bytes);
  return lines.map((content, index) => ({ content, number: index + 1 })).filter(({ content }) => content.length > 0);
}

/** Lines of which some are not UTF-8. */
function splitBytes(bytes: Buffer): (string | Buffer)[] {
  const lines: (string | Buffer)[] = [];
  for (let start = 0; start < bytes.length; ) {
    const lineFeed = bytes.indexOf(LINE_FEED, start);
    const end = lineFeed === -1 ? bytes.length : lineFeed;
    const line = bytes.subarray(start, bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end);
    const decoded = attempt(() => decodeText(line));
    lines.push(decoded instanceof UnreadableError ? line : decoded);
    start = end + 1;
  }
  return lines;
}

/** The lines after `start` and up to `end`, where line feeds stand. */
function countLines(bytes: Buffer, start: number, end: number): number {
  let count = 0;
  for (let at = start; at < end; at = bytes.indexOf(LINE_FEED, at + 1)) count += 1;
  return count;
}

function isLastLine(line: Line | undefined): boolean {
  return line?.content === LAST_LINE;
}

function parseLines(lines: readonly Line[], read: ReadRecords): readonly (Entry | ForeignEntry)[] {
  const entries = lines.map((line) => parseLine(line, read));
  return withMisplaced(
    entries,
    lines.map(({ number }) => number),
  );
}

function parseLine({ content, number }: Line, { folder, adopt }: ReadRecords): Entry | ForeignEntry {
  const line = withoutComma(content);
  // Another kind of file has very many such lines, and to throw an error takes longer than all the rest.
  if (!OBJECT_START.test(startOf(line))) return { ...damagedEntry({ message: NOT_JSON }, line), lineNumber: number };
  const entry = attempt(() =>
    ofTask(folder, parseRecordLine(typeof line === "string" ? line : decodeText(line), adopt)),
  );
  return entry instanceof UnreadableError ? { ...damagedEntry(entry, line), lineNumber: number } : entry;
}

/** @throws {UnreadableError} It is another task's. */
function ofTask<Item extends RecordEntry | ForeignEntry>(folder: string, entry: Item): Item {
  const { taskId } = "head" in entry ? entry.head : entry;
  if (isForeign(taskId, folder)) throw new UnreadableError(foreignReason(taskId));
  return entry;
}

function withoutComma(line: string | Buffer): string | Buffer {
  if (typeof line === "string") return line.endsWith(",") ? line.slice(0, -1) : line;
  return line.at(-1) === COMMA ? line.subarray(0, -1) : line;
}

function startOf(line: string | Buffer): string {
  return typeof line === "string" ? line : line.toString("latin1", 0, 64);
}

function damagedEntry(
  { message, cause }: Pick<UnreadableError, "message" | "cause">,
  line: string | Buffer,
): DamagedEntry {
  return { reason: message, cause, line, ...hintsOf(typeof line === "string" ? line : line.toString("latin1")) };
}
