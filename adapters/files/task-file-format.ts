import { hash } from "node:crypto";
import { dirname } from "node:path";
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
import { isJsonObject, parseSummary } from "../../src/contract/parse-summary.js";
import { decodeText, UnreadableError } from "./file-io.js";
import {
  assertOwner,
  attempt,
  compareCheckpoints,
  embeddedSize,
  formOfBody,
  type Position,
  parseHead,
  parseJson,
  parseObject,
  type RecordHead,
  type RecordSource,
  storedCheckpoint,
  textOfBody,
  textOfValue,
} from "./record.js";

/**
 * The file with all checkpoints of a task. It is a JSON document with one checkpoint per line, so a damaged line harms
 * no other line.
 *
 * ```
 * {"version":"1.0","lastModified":"…","waymark":{"taskId":"T1","lastSequence":7,"seal":"…"},"checkpoints":[
 * {"id":"a1","taskId":"T1","label":"…","createdAt":"…","waymark":{"sequence":7,…}, "state":{"step":3}}
 * ]}
 * ```
 *
 * Other programs may use this format too. They know only `version`, `checkpoints` and `lastModified`. Waymark's own
 * fields are under the `waymark` keys. A record without that key is adopted. It is ordered by its own date and numbered
 * after the other records, and the next write gives it the `waymark` key.
 */
const FORMAT_VERSION = "1.0";
export const TASK_FILE_NAME = "checkpoints.json";
const FIRST_LINE_END = '"checkpoints":[';
const LAST_LINE = "]}";
/**
 * The bytes before a record's state. `JSON.stringify` never writes a space after a comma, so a line contains these
 * bytes once.
 */
const STATE_KEY = Buffer.from(', "state":');
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const COMMA = 0x2c;
const CLOSING_BRACE = 0x7d;

/** Finds the stage and status of another program's record, which has no such fields, from its state. Must not throw. */
export type AdoptRecord = (record: JsonObject) => {
  readonly stage?: string | undefined;
  /** Default: `failed` if the record has an error, else `running`. */
  readonly status?: CheckpointStatus | undefined;
};

/** A task's file. */
export interface TaskFileContent {
  /** The lines of the records, the oldest first. Records of other programs are adopted. */
  readonly lines: readonly RecordLine[];
  /** The last sequence that was given, according to the first line; 0 if the line doesn't tell it. */
  readonly lastSequence: number;
  /** The task's id, if the first line tells it. */
  readonly taskId?: string;
  /** The damage to the file as a whole. */
  readonly damage?: string | undefined;
  /** True if the file must not be written, because its own fields can't be read. */
  readonly isRefused?: boolean;
  /** The first line's fields, including those of other programs. */
  readonly fields: JsonObject;
}

/**
 * A record's line. It is parsed when it is needed. If it can't be read, the next write of the file keeps it as it is.
 */
export class RecordLine implements RecordSource {
  readonly location: string;
  /** The line's bytes in the file, without the comma after it. */
  readonly line: Buffer;
  readonly #path: string;
  #head: RecordHead | UnreadableError | undefined;

  constructor(path: string, position: string, line: Buffer, head?: RecordHead | UnreadableError) {
    this.location = `${path} (${position})`;
    this.line = line;
    this.#path = path;
    this.#head = head;
  }

  get known(): RecordSource["known"] {
    const head = this.headOrReason();
    if (!(head instanceof UnreadableError)) return { id: head.id, sequence: head.sequence };
    const [, id] = /^\{"id":"([^"\\]+)",/.exec(this.line.toString("latin1", 0, 1000)) ?? [];
    return id === undefined ? {} : { id };
  }

  bytes(): Uint8Array {
    return this.line;
  }

  head(): RecordHead {
    const head = this.headOrReason();
    if (head instanceof UnreadableError) throw head;
    assertOwner(head.taskId, dirname(this.#path), this.location);
    return head;
  }

  checkpoint(): StoredCheckpoint {
    return storedCheckpoint(this.head(), decodeText(this.line.subarray(this.#stateAt + STATE_KEY.length, -1)));
  }

  headOrReason(): RecordHead | UnreadableError {
    this.#head ??= attempt(() => {
      const head = headOf(this.fields());
      const size = this.line.length - this.#stateAt - STATE_KEY.length - 1;
      if (size === embeddedSize(head) && this.line.at(-1) === CLOSING_BRACE) return head;
      throw new UnreadableError("its state was cut short or changed");
    });
    return this.#head;
  }

  /** All fields but the state, including those of other programs. @throws {UnreadableError} */
  fields(): JsonObject {
    if (this.#stateAt === -1) throw new UnreadableError("it has no state");
    return parseObject(`${decodeText(this.line.subarray(0, this.#stateAt))}}`);
  }

  get #stateAt(): number {
    return this.line.indexOf(STATE_KEY);
  }
}

/** Reads as much of a task's file as can be read. @throws {UnsupportedFormatError} The file has another version. */
export function parseTaskFile(bytes: Buffer, path: string, adopt: AdoptRecord | undefined): TaskFileContent {
  const content = parseContent(bytes, path, adopt);
  return { ...content, lines: inOrder(content.lines) };
}

/**
 * Sorts lines, since a merge by hand may leave them in any order. An unreadable line stays after the line that precedes
 * it.
 */
function inOrder(lines: readonly RecordLine[]): readonly RecordLine[] {
  let position: Position = { sequence: 0, createdAt: "", id: "" };
  const placed = lines.map((line) => {
    const head = line.headOrReason();
    if (!(head instanceof UnreadableError)) position = head;
    return { line, position };
  });
  return placed.sort((a, b) => compareCheckpoints(a.position, b.position)).map(({ line }) => line);
}

function parseContent(bytes: Buffer, path: string, adopt: AdoptRecord | undefined): TaskFileContent {
  const content = parseLines(bytes, path);
  if (content === undefined) return parseDocument(bytes, path, adopt, false) ?? salvage(bytes, path);
  if (content.isRefused || isIntact(content)) return content;
  // An editor or a formatter may have changed the layout of only some lines.
  const document = parseDocument(bytes, path, adopt, true);
  return document && isIntact(document) ? document : content;
}

function isIntact({ lines, damage }: TaskFileContent): boolean {
  return damage === undefined && lines.every((line) => !(line.headOrReason() instanceof UnreadableError));
}

/**
 * The line of a checkpoint. @param former - The fields of the record that it replaces, including those of other
 * programs.
 */
export function renderRecord(record: StoredCheckpoint, former: JsonObject = {}): Buffer {
  const { id, taskId, label, createdAt, error, ...rest } = summaryOf(record);
  const { sequence, stage, status, parentId, metadata, stateVersion, sizeBytes } = rest;
  const { payload, seal } = record;
  const { encoding, sha256 } = payload;
  const waymark = {
    ...{ sequence, stage, status, parentId, metadata, stateVersion, sizeBytes },
    ...{ encoding, bodyIs: formOfBody(payload), sha256, seal },
  };
  const fields = JSON.stringify({ ...former, id, taskId, label, createdAt, error, waymark });
  return Buffer.from(`${fields.slice(0, -1)}${STATE_KEY}${textOfBody(payload)}}`);
}

export function renderTaskFile(
  lines: readonly Buffer[],
  {
    fields,
    taskId,
    lastSequence,
  }: { readonly fields: JsonObject; readonly taskId: string; readonly lastSequence: number },
): Buffer {
  const waymark = { taskId, lastSequence, seal: sealOf(taskId, lastSequence) };
  const header = { ...fields, version: FORMAT_VERSION, lastModified: new Date().toISOString(), waymark };
  const parts: Uint8Array[] = [Buffer.from(`${JSON.stringify(header).slice(0, -1)},${FIRST_LINE_END}\n`)];
  for (const [at, line] of lines.entries()) parts.push(line, Buffer.from(at < lines.length - 1 ? ",\n" : "\n"));
  return Buffer.concat([...parts, Buffer.from(`${LAST_LINE}\n`)]);
}

type Header = Omit<TaskFileContent, "lines">;

/** Reads a file in Waymark's own layout; `undefined` if it has another layout. */
function parseLines(bytes: Buffer, path: string): TaskFileContent | undefined {
  const firstEnd = bytes.indexOf(LINE_FEED);
  const document = attempt(() => {
    const line = decodeText(bytes.subarray(0, Math.max(firstEnd, 0))).replace(/\r$/, "");
    return parseObject(line.endsWith(FIRST_LINE_END) ? `${line}${LAST_LINE}` : "");
  });
  if (document instanceof UnreadableError) return undefined;
  const header = checkedHeader(document, path, true);
  const { lines, isWhole } = linesOf(bytes, firstEnd + 1, path);
  return isWhole || header.isRefused ? { ...header, lines } : { ...header, lines, damage: "it was cut short" };
}

/** @param isOurs - True if the file has the layout that only Waymark writes. Then it must have a numbering. */
function checkedHeader({ checkpoints: _records, ...fields }: JsonObject, path: string, isOurs: boolean): Header {
  const { version, waymark } = fields as { version?: JsonValue; waymark?: JsonValue };
  const numbering = attempt(() => parseNumbering(waymark));
  const isSealed = !(numbering instanceof UnreadableError);
  const said = JSON.stringify(version) ?? "none";
  if (version !== FORMAT_VERSION && !isSealed) {
    throw new UnsupportedFormatError(
      `${path} has format version ${said}; this program knows version "${FORMAT_VERSION}". ` +
        "It was left untouched; use the program that wrote it.",
    );
  }
  if (waymark === undefined && !isOurs) return { fields, lastSequence: 0 };
  if (isSealed && version === FORMAT_VERSION) return { fields, ...numbering };
  // No program changes the version of a sealed file, so another version means damage.
  const damage = isSealed ? `its version was changed to ${said}` : numbering.message;
  return { fields: {}, lastSequence: 0, damage, isRefused: true };
}

function parseNumbering(waymark: JsonValue | undefined): { readonly taskId: string; readonly lastSequence: number } {
  if (!isJsonObject(waymark)) throw new UnreadableError("its numbering is missing");
  const { taskId, lastSequence, seal } = waymark as Partial<Record<"taskId" | "lastSequence" | "seal", JsonValue>>;
  const isRead = typeof taskId === "string" && typeof lastSequence === "number";
  if (isRead && seal === sealOf(taskId, lastSequence)) return { taskId, lastSequence };
  throw new UnreadableError("its numbering doesn't match its seal");
}

/** The seal of the numbering. It is needed because a wrong numbering would give a sequence twice. */
function sealOf(taskId: string, lastSequence: number): string {
  return hash("sha256", JSON.stringify(["waymark-numbering-1", taskId, lastSequence]), "hex");
}

/**
 * Reads a JSON document in any layout; `undefined` if it is damaged.
 *
 * @param isOurs - True if other programs have changed nothing but the layout. Then there are no records to adopt.
 * @throws {UnsupportedFormatError} It is intact JSON in another format, so it must not be set aside as damaged.
 */
function parseDocument(
  bytes: Buffer,
  path: string,
  adopt: AdoptRecord | undefined,
  isOurs: boolean,
): TaskFileContent | undefined {
  const document = attempt(() => parseJson(decodeText(bytes)));
  if (document instanceof UnreadableError) return undefined;
  if (!isJsonObject(document)) throw anotherFormat(path);
  const header = checkedHeader(document, path, isOurs);
  const { checkpoints, waymark } = document as { checkpoints?: JsonValue; waymark?: JsonValue };
  if (!Array.isArray(checkpoints)) {
    if (waymark === undefined) throw anotherFormat(path);
    return undefined;
  }
  const damaged: RecordLine[] = [];
  const ours: RecordLine[] = [];
  const foreign: ForeignRecord[] = [];
  for (const [at, value] of (checkpoints as readonly JsonValue[]).entries()) {
    const line = (content: Buffer, head: RecordHead | UnreadableError) =>
      new RecordLine(path, `record ${at + 1}`, content, head);
    const found = attempt(() => parseRecord(value, adopt, isOurs));
    if (found instanceof UnreadableError) damaged.push(line(Buffer.from(JSON.stringify(value)), found));
    else if ("draft" in found) foreign.push(found);
    else ours.push(line(found.bytes, found.head));
  }
  foreign.sort((a, b) => Date.parse(a.draft.createdAt) - Date.parse(b.draft.createdAt));
  let sequence = Math.max(header.lastSequence, ...ours.map(({ known }) => known.sequence ?? 0));
  for (const { draft, fields } of foreign) {
    sequence += 1;
    ours.push(new RecordLine(path, `record ${draft.id}`, renderRecord(sealDraft(draft, sequence), fields)));
  }
  return { ...header, lines: [...damaged, ...ours] };
}

function anotherFormat(path: string): UnsupportedFormatError {
  return new UnsupportedFormatError(
    `${path} is JSON without a list of checkpoints, so another program wrote it. It was left untouched; use another folder, or ` +
      "another name for the task.",
  );
}

function salvage(bytes: Buffer, path: string): TaskFileContent {
  const damage = bytes.length === 0 ? "it is empty" : "its first line is damaged, or it is not a checkpoint file";
  const lines = linesOf(bytes, 0, path).lines.filter((line) => !(line.headOrReason() instanceof UnreadableError));
  return { lines, lastSequence: 0, damage, isRefused: true, fields: {} };
}

function linesOf(bytes: Buffer, from: number, path: string): { lines: RecordLine[]; isWhole: boolean } {
  const lines: RecordLine[] = [];
  for (let [start, number] = [from, from === 0 ? 1 : 2]; start < bytes.length; number++) {
    const found = bytes.indexOf(LINE_FEED, start);
    let end = found === -1 ? bytes.length : found;
    // On Windows, Git may add carriage returns.
    if (bytes[end - 1] === CARRIAGE_RETURN) end -= 1;
    if (end === start + LAST_LINE.length && bytes.toString("latin1", start, end) === LAST_LINE)
      return { lines, isWhole: true };
    if (bytes[end - 1] === COMMA) end -= 1;
    if (end > start) lines.push(new RecordLine(path, `line ${number}`, bytes.subarray(start, end)));
    start = found === -1 ? bytes.length : found + 1;
  }
  return { lines, isWhole: false };
}

function headOf(fields: JsonObject): RecordHead {
  const { waymark, taskId, id, label, createdAt, error } = fields as CommonFields;
  if (!isJsonObject(waymark)) throw new UnreadableError("its waymark key doesn't hold an object");
  return parseHead({ ...waymark, taskId, id, label, createdAt, error });
}

type CommonFields = Partial<Record<"taskId" | "id" | "label" | "createdAt" | "error" | "waymark", JsonValue>>;

/** A record that another program wrote, or from which it removed Waymark's fields. */
interface ForeignRecord {
  readonly draft: CheckpointDraft;
  readonly fields: JsonObject;
}

function parseRecord(
  value: JsonValue,
  adopt: AdoptRecord | undefined,
  isOurs: boolean,
): ForeignRecord | { readonly head: RecordHead; readonly bytes: Buffer } {
  if (!isJsonObject(value)) throw new UnreadableError("it isn't an object");
  const { state, ...fields } = value as { state?: JsonValue } & JsonObject;
  if (state === undefined) throw new UnreadableError("it has no state");
  const body = textOfValue(state);
  if (fields["waymark"] === undefined && !isOurs) return { fields, draft: foreignDraft(fields, body, adopt?.(value)) };
  const head = headOf(fields);
  if (Buffer.byteLength(body) !== embeddedSize(head)) throw new UnreadableError("its state was cut short or changed");
  return { head, bytes: renderRecord(storedCheckpoint(head, body), fields) };
}

function foreignDraft(fields: JsonObject, body: string, adopted: ReturnType<AdoptRecord> = {}): CheckpointDraft {
  const { taskId, id, label, createdAt, error } = fields as CommonFields;
  const date = new Date(typeof createdAt === "string" ? createdAt : Number.NaN);
  if (Number.isNaN(date.getTime())) throw new UnreadableError("its createdAt isn't a date");
  const { stage, status = error === undefined ? "running" : "failed" } = adopted;
  const described = { taskId, id, label, createdAt: date.toISOString(), error, stage, status };
  const sizeBytes = Buffer.byteLength(body);
  const payload = { encoding: "json", body, sha256: hash("sha256", body, "hex") };
  // This sequence and this seal are placeholders, since the storage assigns the right ones.
  const found = parseSummary({ ...described, ...payload, stateVersion: 1, sizeBytes, sequence: 1, seal: "" });
  if (typeof found === "string") throw new UnreadableError(found);
  const { sequence: _sequence, ...summary } = summaryOf(found);
  return { ...summary, payload };
}
