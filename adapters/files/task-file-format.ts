import { hash } from "node:crypto";
import { dirname } from "node:path";
import {
  type CheckpointDraft,
  type CheckpointStatus,
  compareTexts,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type StoredCheckpoint,
  sealDraft,
  toSummary,
} from "../../src/contract/checkpoint.js";
import { UnsupportedFormatError } from "../../src/contract/errors.js";
import { parseSummary } from "../../src/contract/parse-summary.js";
import { decodeText, UnreadableError } from "./file-io.js";
import {
  assertOwner,
  attempt,
  joinRecord,
  measureEmbedded,
  parseHead,
  parseJson,
  parseObject,
  type RecordHead,
  type RecordSource,
  renderBody,
  renderValue,
} from "./record.js";

/**
 * The file with all checkpoints of a task: a JSON document with one checkpoint per line, so that a damaged line doesn't
 * affect the others.
 *
 * ```
 * {"version":"1.0","lastModified":"…","waymark":{"taskId":"T1","lastSequence":7,"seal":"…"},"checkpoints":[
 * {"id":"a1","taskId":"T1","label":"…","createdAt":"…","waymark":{"sequence":7,…}, "state":{"step":3}}
 * ]}
 * ```
 *
 * Other programs may also use this format. They use only `version`, `checkpoints` and `lastModified`; Waymark's own
 * fields are under the `waymark` keys. A record without that key is adopted: it is ordered by its own date and numbered
 * after the other records, and the next write adds the `waymark` key.
 */
const FORMAT_VERSION = "1.0";
export const TASK_FILE_NAME = "checkpoints.json";
const FIRST_LINE_END = '"checkpoints":[';
const LAST_LINE = Buffer.from("]}");
const LINE_END = Buffer.from(",\r\n");
/**
 * The bytes before a record's state. `JSON.stringify` never writes a space after a comma, so a line contains these
 * bytes once.
 */
const STATE_KEY = Buffer.from(', "state":');
const CLOSING_BRACE = 0x7d;

/** Finds the stage and status of a record from another program, which has no fields for them. Must not throw. */
export type AdoptRecord = (record: JsonObject) => {
  readonly stage?: string | undefined;
  /** The record's status. Default: `failed` if it has an error, else `running`. */
  readonly status?: CheckpointStatus | undefined;
};

/** A task's file. */
export interface TaskFileContent {
  /** The lines of the records, the oldest first, with adopted records of other programs. */
  readonly lines: readonly RecordLine[];
  /** `undefined` if another program wrote the file, or if the numbering can't be read. */
  readonly numbering?: Numbering | undefined;
  /** The damage to the file as a whole. If there is damage and no numbering, the file must not be written. */
  readonly damage?: string | undefined;
  /** The first line's fields, including those of other programs. */
  readonly fields: JsonObject;
}

/** Waymark's own fields in the first line. */
export interface Numbering {
  readonly taskId: string;
  /** The last sequence that was taken. */
  readonly lastSequence: number;
}

/** A record's line. The next write of the file keeps a line that can't be read. */
export class RecordLine implements RecordSource {
  readonly location: string;
  /** The line's bytes in the file, without the comma after it. */
  readonly line: Buffer;
  readonly headOrReason: RecordHead | UnreadableError;
  readonly #path: string;
  readonly #stateAt: number;

  /** @param reason - Why the record can't be read, if that is already known. */
  constructor(path: string, position: string, line: Buffer, reason?: UnreadableError) {
    this.location = `${path} (${position})`;
    this.line = line;
    this.#path = path;
    this.#stateAt = line.indexOf(STATE_KEY);
    this.headOrReason =
      reason ??
      attempt(() => {
        const head = parseFields(this.fields());
        const size = line.length - this.#stateAt - STATE_KEY.length - 1;
        if (size === measureEmbedded(head) && line.at(-1) === CLOSING_BRACE) return head;
        throw new UnreadableError("its state was cut short or changed");
      });
  }

  get known(): RecordSource["known"] {
    const head = this.headOrReason;
    if (!(head instanceof UnreadableError)) return { id: head.id, sequence: head.sequence };
    const [, id] = /^\{"id":"([^"\\]+)",/.exec(this.line.toString("latin1", 0, 1000)) ?? [];
    return id === undefined ? {} : { id };
  }

  bytes(): Uint8Array {
    return this.line;
  }

  head(): RecordHead {
    const head = this.headOrReason;
    if (head instanceof UnreadableError) throw head;
    assertOwner(head.taskId, dirname(this.#path), this.location);
    return head;
  }

  checkpoint(): StoredCheckpoint {
    return joinRecord(this.head(), decodeText(this.line.subarray(this.#stateAt + STATE_KEY.length, -1)));
  }

  /** Parses all fields except the state, including those of other programs. @throws {UnreadableError} */
  fields(): JsonObject {
    if (this.#stateAt === -1) throw new UnreadableError("it has no state");
    return parseObject(`${decodeText(this.line.subarray(0, this.#stateAt))}}`);
  }
}

/** Reads a task's file, as far as it is intact. @throws {UnsupportedFormatError} The file has another version. */
export function parseTaskFile(bytes: Buffer, path: string, adopt: AdoptRecord | undefined): TaskFileContent {
  const first = attempt(() => parseFirstLine(bytes));
  const isOurs = !(first instanceof UnreadableError);
  const content = isOurs ? parseLines(bytes, path, first) : salvageLines(bytes, path);
  // An editor or a formatter may have changed the layout, even of a few lines only.
  const document = isIntact(content) ? undefined : attempt(() => parseDocument(bytes, path, adopt, isOurs));
  const best =
    document && !(document instanceof UnreadableError) && (!isOurs || isIntact(document)) ? document : content;
  return { ...best, lines: sortLines(best.lines) };
}

function isIntact({ lines, damage }: TaskFileContent): boolean {
  return damage === undefined && lines.every(isReadable);
}

function isReadable({ headOrReason }: RecordLine): boolean {
  return !(headOrReason instanceof UnreadableError);
}

/**
 * Sorts lines by sequence, since a manual merge may leave them in any order. Two lines with the same sequence stay in
 * their order, and an unreadable line stays after the line that precedes it.
 */
function sortLines(lines: readonly RecordLine[]): readonly RecordLine[] {
  let sequence = 0;
  const placed = lines.map((line) => {
    if (isReadable(line)) sequence = line.known.sequence ?? 0;
    return { line, sequence };
  });
  return placed.sort((a, b) => a.sequence - b.sequence).map(({ line }) => line);
}

/**
 * Renders a checkpoint's line. @param former - The fields of the record that it replaces, including those of other
 * programs.
 */
export function renderRecord(record: StoredCheckpoint, former: JsonObject = {}): Buffer {
  const { id, taskId, label, createdAt, error, payload, seal, ...rest } = record;
  const { sequence, stage, status, parentId, metadata, dueAt, stateVersion, sizeBytes } = rest;
  const { encoding, sha256 } = payload;
  const { bodyIs, text } = renderBody(payload);
  const waymark = {
    sequence,
    stage,
    status,
    parentId,
    metadata,
    dueAt,
    stateVersion,
    sizeBytes,
    encoding,
    bodyIs,
    sha256,
    seal,
  };
  return renderLine({ ...former, id, taskId, label, createdAt, error, waymark }, text);
}

function renderLine(fields: object, state: string): Buffer {
  return Buffer.from(`${JSON.stringify(fields).slice(0, -1)}${STATE_KEY}${state}}`);
}

export function renderTaskFile(lines: readonly Buffer[], fields: JsonObject, numbering: Numbering): Buffer {
  const header = {
    ...fields,
    version: FORMAT_VERSION,
    lastModified: new Date().toISOString(),
    waymark: { ...numbering, seal: sealNumbering(numbering) },
  };
  const first = Buffer.from(`${JSON.stringify(header).slice(0, -1)},${FIRST_LINE_END}`);
  const records = lines.flatMap((line, at) => [Buffer.from(at === 0 ? "\n" : ",\n"), line]);
  return Buffer.concat([first, ...records, Buffer.from(`\n${LAST_LINE}\n`)]);
}

/** Parses the first line of a file in Waymark's own layout. @throws {UnreadableError} The file has another layout. */
function parseFirstLine(bytes: Buffer): JsonObject {
  const line = decodeText(bytes.subarray(0, Math.max(bytes.indexOf("\n"), 0))).replace(/\r$/, "");
  return parseObject(line.endsWith(FIRST_LINE_END) ? `${line}${LAST_LINE}` : "");
}

function parseLines(bytes: Buffer, path: string, first: JsonObject): TaskFileContent {
  const header = parseHeader(first, path, true);
  const { lines, isWhole } = splitLines(bytes, path);
  return { ...header, lines: lines.slice(1), damage: header.damage ?? (isWhole ? undefined : "it was cut short") };
}

/** Reads the intact lines of a damaged file. */
function salvageLines(bytes: Buffer, path: string): TaskFileContent {
  return {
    lines: splitLines(bytes, path).lines.filter(isReadable),
    damage: bytes.length === 0 ? "it is empty" : "its first line is damaged, or it is not a checkpoint file",
    fields: {},
  };
}

/** Splits a file into its lines, the first one included. */
function splitLines(bytes: Buffer, path: string): { readonly lines: RecordLine[]; readonly isWhole: boolean } {
  const lines: RecordLine[] = [];
  for (let [start, number] = [0, 1]; start < bytes.length; number++) {
    const lineFeed = bytes.indexOf("\n", start);
    const next = lineFeed === -1 ? bytes.length : lineFeed + 1;
    let end = next;
    // A record is followed by a comma. On Windows, Git may add carriage returns.
    while (end > start && LINE_END.includes(bytes.subarray(end - 1, end))) end -= 1;
    const line = bytes.subarray(start, end);
    if (line.equals(LAST_LINE)) return { lines, isWhole: true };
    if (line.length > 0) lines.push(new RecordLine(path, `line ${number}`, line));
    start = next;
  }
  return { lines, isWhole: false };
}

/** @param isOurs - True if the file has Waymark's own layout, so that it must have a numbering. */
function parseHeader(
  { checkpoints: _records, ...fields }: JsonObject,
  path: string,
  isOurs: boolean,
): Omit<TaskFileContent, "lines"> {
  const { version, waymark } = fields as { version?: JsonValue; waymark?: JsonValue };
  const numbering = readNumbering(waymark);
  const isNumbered = numbering !== undefined || (waymark === undefined && !isOurs);
  if (version === FORMAT_VERSION && isNumbered) return { fields, numbering };
  const written = JSON.stringify(version) ?? "none";
  if (version !== FORMAT_VERSION && numbering === undefined) {
    throw new UnsupportedFormatError(
      `${path} has format version ${written}; this program knows version "${FORMAT_VERSION}". ` +
        "It was left untouched; use the program that wrote it.",
    );
  }
  // No program changes the version in a sealed file, so a different version means damage.
  return {
    fields: {},
    damage: numbering ? `its version was changed to ${written}` : "its numbering is missing or doesn't match its seal",
  };
}

/** Reads the numbering; returns `undefined` if it is missing or doesn't match its seal. */
function readNumbering(waymark: JsonValue | undefined): Numbering | undefined {
  const { taskId, lastSequence, seal } = (waymark ?? {}) as Partial<Numbering> & { readonly seal?: JsonValue };
  const numbering = taskId === undefined || lastSequence === undefined ? undefined : { taskId, lastSequence };
  return numbering && seal === sealNumbering(numbering) ? numbering : undefined;
}

/** Computes the seal of the numbering, because a wrong numbering would assign a sequence twice. */
function sealNumbering({ taskId, lastSequence }: Numbering): string {
  return hash("sha256", JSON.stringify(["waymark-numbering-1", taskId, lastSequence]), "hex");
}

/**
 * Reads a JSON document in any layout; returns `undefined` if it is damaged.
 *
 * @param isOurs - True if other programs changed only the layout, so that there are no records to adopt.
 * @throws {UnsupportedFormatError} The document is intact JSON in another format, so it must not be set aside as
 *   damaged.
 */
function parseDocument(
  bytes: Buffer,
  path: string,
  adopt: AdoptRecord | undefined,
  isOurs: boolean,
): TaskFileContent | undefined {
  const document = attempt(() => parseJson(decodeText(bytes)));
  if (document instanceof UnreadableError) return undefined;
  const header = isJsonObject(document) ? parseHeader(document, path, isOurs) : undefined;
  const { checkpoints, waymark } = (document ?? {}) as { checkpoints?: JsonValue; waymark?: JsonValue };
  if (header === undefined || (!Array.isArray(checkpoints) && waymark === undefined)) {
    throw new UnsupportedFormatError(
      `${path} is JSON without a list of checkpoints, so another program wrote it. It was left untouched; use another folder, ` +
        "or another name for the task.",
    );
  }
  if (!Array.isArray(checkpoints)) return undefined;
  const ours: RecordLine[] = [];
  const foreign: ForeignRecord[] = [];
  for (const [at, value] of (checkpoints as readonly JsonValue[]).entries()) {
    const record = attempt(() => parseRecord(value, adopt, isOurs));
    const position = `record ${at + 1}`;
    if (record instanceof UnreadableError)
      ours.push(new RecordLine(path, position, Buffer.from(JSON.stringify(value)), record));
    else if ("draft" in record) foreign.push(record);
    else ours.push(new RecordLine(path, position, record));
  }
  foreign.sort((a, b) => compareTexts(a.draft.createdAt, b.draft.createdAt));
  const last = Math.max(header.numbering?.lastSequence ?? 0, ...ours.map(({ known }) => known.sequence ?? 0));
  const adopted = foreign.map(
    ({ draft, fields }, at) =>
      new RecordLine(path, `record ${draft.id}`, renderRecord(sealDraft(draft, last + 1 + at), fields)),
  );
  return { ...header, lines: [...ours, ...adopted] };
}

/** Parses the head from a record's fields. @throws {UnreadableError} */
function parseFields(fields: JsonObject): RecordHead {
  const { waymark, taskId, id, label, createdAt, error } = fields as CommonFields;
  if (!isJsonObject(waymark)) throw new UnreadableError("its `waymark` field isn't an object");
  return parseHead({ ...waymark, taskId, id, label, createdAt, error });
}

type CommonFields = Partial<Record<"taskId" | "id" | "label" | "createdAt" | "error" | "waymark", JsonValue>>;

/** A record that another program wrote, or from which another program removed Waymark's fields. */
interface ForeignRecord {
  readonly draft: CheckpointDraft;
  readonly fields: JsonObject;
}

/** @returns A foreign record, or the line of a record with Waymark's fields. @throws {UnreadableError} */
function parseRecord(value: JsonValue, adopt: AdoptRecord | undefined, isOurs: boolean): ForeignRecord | Buffer {
  if (!isJsonObject(value)) throw new UnreadableError("it isn't an object");
  const { state, ...fields } = value as { state?: JsonValue } & JsonObject;
  if (state === undefined) throw new UnreadableError("it has no state");
  const text = renderValue(state);
  if (isOurs || fields["waymark"] !== undefined) return renderLine(fields, text);
  return { fields, draft: makeDraft(fields, text, adopt?.(value)) };
}

function makeDraft(fields: JsonObject, body: string, adopted: ReturnType<AdoptRecord> = {}): CheckpointDraft {
  const { taskId, id, label, createdAt, error } = fields as CommonFields;
  const date = new Date(typeof createdAt === "string" ? createdAt : Number.NaN);
  if (Number.isNaN(date.getTime())) throw new UnreadableError("its createdAt isn't a date");
  const { stage, status = error === undefined ? "running" : "failed" } = adopted;
  const payload = { encoding: "json", body, sha256: hash("sha256", body, "hex") };

  const summary = parseSummary({
    taskId,
    id,
    label,
    createdAt: date.toISOString(),
    error,
    stage,
    status,
    ...payload,
    sizeBytes: Buffer.byteLength(body),
    stateVersion: 1,
    // Placeholders that `sealDraft` replaces.
    sequence: 1,
    seal: "",
  });
  if (typeof summary === "string") throw new UnreadableError(summary);
  return { ...toSummary(summary), payload };
}
