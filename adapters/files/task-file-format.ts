import { dirname } from "node:path";
import type { JsonObject } from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import {
  attempt,
  decodeText,
  isJsonObject,
  type Numbering,
  parseNumbering,
  parseObject,
  sealNumbering,
  versionDamage,
} from "./sealed-record.js";
import { UnreadableError } from "./stored-file.js";
import { MAX_DAMAGED_LINES, TaskFileLimits, TaskFileOverfullError } from "./task-file-limits.js";
import { countLines, type Line, linesOf } from "./task-file-lines.js";
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
/** No line of ours is as short. */
const SHORTEST_LINE = 100;
const COMMA = 0x2c;
const LINE_FEED = 0x0a;

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
  const inFolder = { folder: dirname(path), adopt };
  const read = (): ReadRecords => ({ ...inFolder, limits: new TaskFileLimits() });
  const parsed = parseOurs(bytes, path, read()) ?? parseWhole(bytes, path, read()) ?? salvage(bytes, read());
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
  if (newest.head.sequence !== numbering.lastSequence) return undefined;
  const count = countLines(bytes, firstEnd, end, MAX_DAMAGED_LINES + bytes.length / SHORTEST_LINE);
  return count === undefined ? undefined : { newest, count };
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
  readonly limits: TaskFileLimits;
}

interface Parsed extends Omit<TaskFileContent, "entries"> {
  readonly entries: readonly (Entry | ForeignEntry)[];
}

/** A file in our form; `undefined` where its first line isn't. */
function parseOurs(bytes: Buffer, path: string, read: ReadRecords): Parsed | undefined {
  const lines = linesOf(bytes);
  const first = lines.next().value;
  const head = first && attempt(() => parseFirstLine(first.content));
  if (head === undefined || head instanceof UnreadableError) return undefined;
  const file = parseFileHead(head, path);
  return withinLimits(file, () => {
    const { entries, last } = parseLines(lines, read);
    const parsed = { ...file, entries };
    return isLastLine(last) || !misses(parsed) ? parsed : { ...parsed, entries: [...entries, CUT_SHORT] };
  });
}

/** A file of which too much isn't ours is damaged as a whole. */
function withinLimits(file: Omit<Parsed, "entries">, parse: () => Parsed): Parsed {
  try {
    return parse();
  } catch (error) {
    if (error instanceof TaskFileOverfullError) return { ...file, refusal: error.message, entries: [] };
    throw error;
  }
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
  return withinLimits(file, () => {
    const entries = checkpoints.map((value) => {
      const entry = attempt(() => ofTask(read.folder, parseRecord(value, read.adopt)));
      if (!(entry instanceof UnreadableError)) return counted(entry, read);
      read.limits.countDamaged();
      return damagedEntry(entry, JSON.stringify(value));
    });
    // Other programs may have put them in any order. Two of one sequence aren't theirs.
    return { ...file, entries: withMisplaced(inOrder(entries)) };
  });
}

/** What is left of a file that is damaged where it says what it is. */
function salvage(bytes: Buffer, read: ReadRecords): Parsed {
  const refusal = bytes.length === 0 ? "it is empty" : "its first line is damaged, or it is not a checkpoint file";
  const file = { refusal, extra: {} };
  return withinLimits(file, () => {
    const [first, ...rest] = parseLines(linesOf(bytes), read).entries;
    const entries = first && !isDamaged(first) ? [first, ...rest] : rest;
    // Of another kind of file each line would be reported else.
    return { ...file, entries: entries.every(isDamaged) ? [] : entries };
  });
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

function isLastLine(line: Line | undefined): boolean {
  return line?.content === LAST_LINE;
}

/** The records of lines, and the last of them, which is none where it is the file's last one. */
function parseLines(lines: Iterable<Line>, read: ReadRecords) {
  const entries: (Entry | ForeignEntry)[] = [];
  const numbers: number[] = [];
  let last: Line | undefined;
  const add = (line: Line): void => {
    entries.push(parseLine(line, read));
    numbers.push(line.number);
  };
  for (const line of lines) {
    // That was the last one of another file.
    if (last && isLastLine(last)) add(last);
    if (!isLastLine(line)) add(line);
    last = line;
  }
  return { entries: withMisplaced(entries, numbers), last };
}

function parseLine({ content, number }: Line, read: ReadRecords): Entry | ForeignEntry {
  const line = withoutComma(content);
  const entry = attempt(() =>
    ofTask(read.folder, parseRecordLine(typeof line === "string" ? line : decodeText(line), read.adopt)),
  );
  if (!(entry instanceof UnreadableError)) return counted(entry, read);
  read.limits.countDamaged();
  return { ...damagedEntry(entry, line), lineNumber: number };
}

function counted<Item extends RecordEntry | ForeignEntry>(entry: Item, { limits }: ReadRecords): Item {
  if (!("head" in entry)) limits.countForeign();
  return entry;
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

function damagedEntry({ message, cause }: UnreadableError, line: string | Buffer): DamagedEntry {
  return { reason: message, cause, line, ...hintsOf(typeof line === "string" ? line : line.toString("latin1")) };
}
