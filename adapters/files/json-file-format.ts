import { type JsonObject, summaryOf } from "../../src/contract/checkpoint.js";
import { StorageError, UnsupportedFormatError } from "../../src/contract/errors.js";
import {
  attempt,
  decodeText,
  type EmbeddedRecord,
  embeddedSize,
  type Numbering,
  parseHead,
  parseNumbering,
  parseObject,
  type RecordHead,
  sealNumbering,
  versionDamage,
} from "./sealed-record.js";
import { MAX_FIRST_LINE_BYTES, readFirstLine, readStored, UnreadableError } from "./stored-file.js";
import { idOf, nameOf } from "./task-folder.js";

/**
 * One checkpoint, one file: line one is the head, line two the state, and the whole is one JSON document.
 *
 * ```
 * {"waymark":1,"taskId":"build-42","id":"a1","sequence":7,…,"sha256":"…","seal":"…",
 * "state":{"step":3}}
 * ```
 */
const FORMAT_VERSION = 1;
/** What every file of ours begins with. */
export const CHECKPOINT_OPENING = Buffer.from('{"waymark":');
const STATE_KEY = Buffer.from('"state":');
const SEQUENCE_DIGITS = 12;
const EXTENSION = ".json";
/** A sequence of more digits has no zeros before it: each has one form. */
const CHECKPOINT_FILE = /^(?:\d{12}|[1-9]\d{12,15})-.+\.json$/;
const RENAMED_FILE = /^(\d{12})-.+\.json/i;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** The file in a task's folder that keeps the last sequence, from when its checkpoint is removed on. */
export const NUMBERING_FILE = "numbering.json";
/** More than any numbering takes: each save reads it. */
export const MAX_NUMBERING_BYTES = 16 * 1024;

/** What a checkpoint file's name tells. */
export interface CheckpointFile {
  readonly name: string;
  readonly sequence: number;
  /** The id, as {@link nameOf} writes it. */
  readonly idName: string;
}

/** The sequence comes first, with zeros before it, so that folders show a task's checkpoints in their order. */
export function checkpointFileName(sequence: number, id: string): string {
  return `${String(sequence).padStart(SEQUENCE_DIGITS, "0")}${checkpointFileNameEnd(nameOf(id))}`;
}

/** What comes after the sequence. */
export function checkpointFileNameEnd(idName: string): string {
  return `-${idName}${EXTENSION}`;
}

/** Whether a file of that name is a checkpoint's. */
export function isCheckpointFileName(name: string): boolean {
  return CHECKPOINT_FILE.test(name) && Number.isSafeInteger(Number(name.slice(0, name.indexOf("-"))));
}

/**
 * The sequence of a checkpoint whose file somebody has given another name: `.JSON`, `.json.bak`. 0 where the name doesn't
 * tell of any.
 */
export function sequenceOfRenamed(name: string): number {
  const [, digits] = RENAMED_FILE.exec(name) ?? [];
  const sequence = Number(digits ?? 0);
  return Number.isSafeInteger(sequence) ? sequence : 0;
}

/** Takes the name apart of a file that is a checkpoint's. */
export function parseCheckpointFileName(name: string): CheckpointFile {
  const dash = name.indexOf("-");
  return { name, sequence: Number(name.slice(0, dash)), idName: name.slice(dash + 1, -EXTENSION.length) };
}

/** The order of checkpoint files' names, the oldest first, without taking them apart. */
export function compareCheckpointFileNames(a: string, b: string): number {
  const digits = a.indexOf("-") - b.indexOf("-");
  if (digits !== 0) return digits;
  return a === b ? 0 : a < b ? -1 : 1;
}

/** What a checkpoint file's name tells of the checkpoint where the file itself can't be read. */
export function knownByName({ sequence, idName }: CheckpointFile): { readonly sequence: number; readonly id?: string } {
  const id = idOf(idName);
  return { sequence, ...(id === undefined ? undefined : { id }) };
}

/**
 * A checkpoint as its file's content.
 *
 * @throws {StorageError} What describes it is larger than what is read of it again.
 */
export function renderCheckpoint({ head, bodyText }: EmbeddedRecord): Buffer {
  const { payload, bodyIs, seal } = head;
  const { encoding, sha256 } = payload;
  const fields = { waymark: FORMAT_VERSION, ...summaryOf(head), encoding, bodyIs, sha256, seal };
  const firstLine = `${JSON.stringify(fields).slice(0, -1)},\n`;
  assertReadable(firstLine);
  return Buffer.from(`${firstLine}"state":${bodyText}}\n`);
}

function assertReadable(firstLine: string): void {
  // No unit takes more than three bytes: as a rule they needn't be counted.
  const fits = firstLine.length <= MAX_FIRST_LINE_BYTES / 3 || Buffer.byteLength(firstLine) <= MAX_FIRST_LINE_BYTES;
  if (fits) return;
  throw new StorageError(
    `What describes the checkpoint (its label, error and metadata) has more than ${MAX_FIRST_LINE_BYTES} bytes. ` +
      "Nothing was changed; shorten it, or keep it in the state.",
  );
}

/**
 * The head of a checkpoint file, without reading its state; `undefined` where the file is gone.
 *
 * @throws {UnreadableError}
 * @throws {UnsupportedFormatError} A newer program wrote it.
 */
export function readHead(path: string, file: CheckpointFile): RecordHead | undefined {
  const start = readFirstLine(path, CHECKPOINT_OPENING);
  return start && parseFirstLine(start.bytes, start.size, path, file).head;
}

/**
 * A whole checkpoint file; `undefined` where it is gone.
 *
 * @throws {UnreadableError}
 * @throws {UnsupportedFormatError} A newer program wrote it.
 */
export async function readCheckpoint(path: string, file: CheckpointFile): Promise<EmbeddedRecord | undefined> {
  const content = await readStored(path);
  if (content === undefined) return undefined;
  const { head, stateAt, stateEnd } = parseFirstLine(content, content.length, path, file);
  const key = content.subarray(stateAt - STATE_KEY.length, stateAt);
  if (!key.equals(STATE_KEY) || !/^\}\r?\n$/.test(content.toString("latin1", stateEnd))) {
    throw new UnreadableError("its second line doesn't hold a state");
  }
  return { head, bodyText: decodeText(content.subarray(stateAt, stateEnd)) };
}

/** The numbering as its file's content. */
export function renderNumbering(numbering: Numbering): Buffer {
  return Buffer.from(`${JSON.stringify({ waymark: FORMAT_VERSION, ...sealNumbering(numbering) })}\n`);
}

/**
 * A task's numbering from its file; `undefined` where there is none, or no longer.
 *
 * @throws {UnreadableError}
 * @throws {UnsupportedFormatError} A newer program wrote it.
 */
export async function readNumbering(path: string): Promise<Numbering | undefined> {
  const content = await readStored(path, MAX_NUMBERING_BYTES);
  return content && parseNumberingFile(content, path);
}

/**
 * @throws {UnreadableError}
 * @throws {UnsupportedFormatError} A newer program wrote it.
 */
export function parseNumberingFile(content: Buffer, path: string): Numbering {
  const parse = (): Numbering => parseNumbering(parseObject(decodeText(content)));
  checkVersion(content, path, parse);
  return parse();
}

interface FirstLine {
  readonly head: RecordHead;
  /** Where the state's text begins and ends, in bytes. */
  readonly stateAt: number;
  readonly stateEnd: number;
}

/** Checks the head against its seal, its file's name and its file's size. */
function parseFirstLine(bytes: Buffer, size: number, path: string, file: CheckpointFile): FirstLine {
  if (size === 0) throw new UnreadableError("it is empty");
  checkVersion(bytes, path, () => parseHeadLine(bytes));
  const { head, end, lineEnd } = parseHeadLine(bytes);
  if (head.sequence !== file.sequence || nameOf(head.id) !== file.idName) {
    throw new UnreadableError(`it holds checkpoint ${head.id} (sequence ${head.sequence}), which its name doesn't say`);
  }
  const stateAt = end + 1 + STATE_KEY.length;
  const stateEnd = stateAt + embeddedSize(head);
  const expected = stateEnd + 1 + lineEnd.length;
  if (size !== expected) {
    throw new UnreadableError(`it has ${size} bytes, not ${expected}: it was cut short or changed`);
  }
  return { head, stateAt, stateEnd };
}

interface HeadLine {
  readonly head: RecordHead;
  /** Where the line feed is, in bytes. */
  readonly end: number;
  readonly lineEnd: string;
}

/** The first line as version 1 has it, whichever version it says. */
function parseHeadLine(bytes: Buffer): HeadLine {
  const end = bytes.subarray(0, MAX_FIRST_LINE_BYTES).indexOf(LINE_FEED);
  if (end === -1) throw new UnreadableError("its first line is cut short");
  // Line ends become CR LF where Git checks text out on Windows. That changes neither head nor state.
  const lineEnd = bytes[end - 1] === CARRIAGE_RETURN ? "\r\n" : "\n";
  const line = decodeText(bytes.subarray(0, end + 1));
  if (!line.endsWith(`,${lineEnd}`)) throw new UnreadableError("its first line holds no head");
  const fields: JsonObject = parseObject(`${line.slice(0, -lineEnd.length - 1)}}`);
  return { head: parseHead(fields, fields), end, lineEnd };
}

/** @param parse - Reads what is sealed, as version 1 has it. */
function checkVersion(bytes: Buffer, path: string, parse: () => unknown): void {
  const [, version] = /^\{"waymark":(\d+)[,}]/.exec(bytes.toString("latin1", 0, 40)) ?? [];
  if (version === undefined) throw new UnreadableError("it doesn't begin like a checkpoint file");
  if (version === String(FORMAT_VERSION)) return;
  // No program writes another version's number over what it seals as version 1.
  if (!(attempt(parse) instanceof UnreadableError)) throw new UnreadableError(versionDamage(version, FORMAT_VERSION));
  throw new UnsupportedFormatError(
    `${path} has format version ${version}; this program knows version ${FORMAT_VERSION}. It was left untouched; ` +
      "run the newer program.",
  );
}
