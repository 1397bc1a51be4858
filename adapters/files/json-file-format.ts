import { sep } from "node:path";
import {
  compareTexts,
  type JsonObject,
  type JsonValue,
  type StoredCheckpoint,
  toSummary,
} from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { decodeText, readFirstLine, readStored, UnreadableError } from "./file-io.js";
import { parseFileName, toFileName } from "./names.js";
import {
  assertOwner,
  attempt,
  joinRecord,
  measureEmbedded,
  parseHead,
  parseObject,
  type RecordHead,
  type RecordSource,
  renderBody,
  renderValue,
} from "./record.js";

/**
 * The file of one checkpoint. Line one is the head, and line two is the state. Together they are one JSON document.
 *
 * ```
 * {"waymark":1,"taskId":"build-42","id":"a1","sequence":7,…,"sha256":"…","seal":"…",
 * "state":{"step":3}}
 * ```
 *
 * With `pretty`, the state takes many lines, and the head's `stateBytes` counts their bytes.
 *
 * People commit these files. Editors, formatters and Git may therefore change a file's layout, but no value. A file
 * with another layout is read whole, and the checkpoint's next change restores the layout above.
 */
const FORMAT_VERSION = 1;
const BEGINNING = Buffer.from(`{"waymark":${FORMAT_VERSION},`);
const STATE_KEY = Buffer.from('"state":');
const SEQUENCE_DIGITS = 12;
const EXTENSION = ".json";
/**
 * The name of a checkpoint's file. A sequence of more than 12 digits has no leading zeros, so each sequence has only
 * one spelling.
 */
export const CHECKPOINT_FILE = /^(?:\d{12}|[1-9]\d{12,15})-.+\.json$/;
export const TOMBSTONE = /^\d{12,16}\.removed$/;

/** Names a checkpoint's file. The padded sequence comes first, so that folders list a task's checkpoints in order. */
export function nameCheckpointFile(sequence: number, id: string): string {
  return `${String(sequence).padStart(SEQUENCE_DIGITS, "0")}-${toFileName(id)}${EXTENSION}`;
}

/**
 * Names a tombstone: a file that keeps the last sequence after the checkpoint with that sequence is removed. The file
 * is empty, so it can't be damaged.
 */
export function nameTombstone(sequence: number): string {
  return `${String(sequence).padStart(SEQUENCE_DIGITS, "0")}.removed`;
}

export function parseSequence(name: string): number {
  return Number.parseInt(name, 10);
}

/** Compares the names of two checkpoint files without parsing them; the older one comes first. */
export function compareFileNames(a: string, b: string): number {
  return a.indexOf("-") - b.indexOf("-") || compareTexts(a, b);
}

/** A checkpoint's file. Each method call reads the file again. */
export class CheckpointFile implements RecordSource {
  readonly folder: string;
  readonly name: string;
  readonly location: string;

  constructor(folder: string, name: string) {
    this.folder = folder;
    this.name = name;
    this.location = folder + sep + name;
  }

  get idName(): string {
    return this.name.slice(this.name.indexOf("-") + 1, -EXTENSION.length);
  }

  get known(): RecordSource["known"] {
    const id = parseFileName(this.idName);
    return { sequence: parseSequence(this.name), ...(id === undefined ? undefined : { id }) };
  }

  bytes(): Buffer | undefined {
    return readStored(this.location);
  }

  /** @throws {UnsupportedFormatError} A newer program wrote the file. */
  head(): RecordHead | undefined {
    const start = readFirstLine(this.location);
    if (start === undefined) return undefined;
    const line = attempt(() => parseFirstLine(start.bytes, start.size, this));
    return line instanceof UnreadableError ? parseFormatted(this.bytes(), this, line)?.head : line.head;
  }

  /** @throws {UnsupportedFormatError} A newer program wrote the file. */
  checkpoint(): StoredCheckpoint | undefined {
    const bytes = this.bytes();
    if (bytes === undefined) return undefined;
    const lines = attempt(() => parseLines(bytes, this));
    const content = lines instanceof UnreadableError ? parseFormatted(bytes, this, lines) : lines;
    return content && joinRecord(content.head, content.state);
  }
}

/**
 * Renders the content of a checkpoint's file.
 *
 * @param isPretty - True to write the state over many lines. The head stays on one line, so that lists read only that
 *   line.
 */
export function renderCheckpoint(record: StoredCheckpoint, isPretty: boolean): Buffer {
  const { payload, seal } = record;
  const { encoding, sha256 } = payload;
  const { bodyIs, text } = renderBody(payload);
  const state = isPretty ? renderPretty(text) : text;
  const stateBytes = state === text ? undefined : Buffer.byteLength(state);
  const fields = { waymark: FORMAT_VERSION, ...toSummary(record), encoding, bodyIs, stateBytes, sha256, seal };
  return Buffer.from(`${JSON.stringify(fields).slice(0, -1)},\n${STATE_KEY}${state}}\n`);
}

function renderPretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2);
  } catch (error) {
    // The state nests too deep for V8, or its indented text would be too long.
    if (error instanceof RangeError) return json;
    throw error;
  }
}

interface Content {
  readonly head: RecordHead;
  readonly state: string;
}

/** Reads a file in Waymark's own layout. Takes the state's text without parsing it. */
function parseLines(bytes: Buffer, file: CheckpointFile): Content {
  const { head, stateAt, stateEnd } = parseFirstLine(bytes, bytes.length, file);
  const isWhole =
    bytes.subarray(stateAt - STATE_KEY.length, stateAt).equals(STATE_KEY) &&
    /^\}\r?\n$/.test(bytes.toString("latin1", stateEnd));
  if (!isWhole) throw new UnreadableError("its second line doesn't hold a state");
  const text = decodeText(bytes.subarray(stateAt, stateEnd));
  if (head.stateBytes === undefined) return { head, state: text };
  return { head, state: restoreText(parseObject(`{${STATE_KEY}${text}}`)["state"], head) };
}

interface FirstLine {
  readonly head: RecordHead;
  /** The offset of the state's text in the file, in bytes; `stateEnd` is the offset of its end. */
  readonly stateAt: number;
  readonly stateEnd: number;
}

function parseFirstLine(bytes: Buffer, size: number, file: CheckpointFile): FirstLine {
  if (size === 0) throw new UnreadableError("it is empty");
  if (!bytes.subarray(0, BEGINNING.length).equals(BEGINNING)) {
    throw new UnreadableError("it doesn't begin like a checkpoint file");
  }
  const end = bytes.indexOf("\n");
  if (end === -1) throw new UnreadableError("its first line is cut short");
  const line = decodeText(bytes.subarray(0, end + 1));
  // On Windows, Git may check text out with CR LF, which changes neither head nor state.
  const lineEnd = line.endsWith("\r\n") ? "\r\n" : "\n";
  if (!line.endsWith(`,${lineEnd}`)) throw new UnreadableError("its first line isn't a header");
  const head = parseHead(parseObject(`${line.slice(0, -lineEnd.length - 1)}}`));
  assertMatchesFileName(head, file);
  const stateAt = end + 1 + STATE_KEY.length;
  const stateEnd = stateAt + (head.stateBytes ?? measureEmbedded(head));
  const expected = stateEnd + 1 + lineEnd.length;
  if (size === expected) return { head, stateAt, stateEnd };
  throw new UnreadableError(`it has ${size} bytes, not ${expected}, so it was cut short or changed`);
}

/**
 * Reads a file that an editor, a formatter or Git rewrote with other white space, line ends or a byte order mark.
 *
 * @param reason - Why the file can't be read in Waymark's own layout. Thrown if the file isn't a checkpoint in any
 *   layout.
 * @throws {UnsupportedFormatError} A newer program wrote the file.
 */
function parseFormatted(bytes: Buffer | undefined, file: CheckpointFile, reason: UnreadableError): Content | undefined {
  if (bytes === undefined) return undefined;
  const document = attempt(() => parseObject(decodeText(bytes)));
  if (document instanceof UnreadableError) throw reason;
  const { waymark: version, state, ...fields } = document as { waymark?: JsonValue; state?: JsonValue } & JsonObject;
  if (typeof version !== "number") throw reason;
  const head = attempt(() => parseHead(fields));
  const isRead = !(head instanceof UnreadableError);
  if (version !== FORMAT_VERSION) {
    if (isRead) throw new UnreadableError(`its version was changed to ${version}`);
    throw new UnsupportedFormatError(
      `${file.location} has format version ${version}; this program knows version ${FORMAT_VERSION}. It was left untouched; ` +
        "use the newer program.",
    );
  }
  if (!isRead) throw head;
  if (state === undefined) throw reason;
  assertMatchesFileName(head, file);
  return { head, state: restoreText(state, head) };
}

/** Restores the saved text of a state whose layout in the file was changed. @throws {UnreadableError} */
function restoreText(state: JsonValue | undefined, head: RecordHead): string {
  const text = state === undefined ? "" : renderValue(state);
  if (Buffer.byteLength(text) === measureEmbedded(head)) return text;
  throw new UnreadableError("its state was cut short or changed");
}

function assertMatchesFileName({ taskId, id, sequence }: RecordHead, { folder, location, name }: CheckpointFile): void {
  assertOwner(taskId, folder, location);
  if (name === nameCheckpointFile(sequence, id)) return;
  throw new UnreadableError(`it contains checkpoint ${id} (sequence ${sequence}), which doesn't match its name`);
}
