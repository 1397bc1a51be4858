import { hash } from "node:crypto";
import { type CheckpointStatus, type JsonObject, type JsonValue, summaryOf } from "../../src/contract/checkpoint.js";
import {
  type EmbeddedRecord,
  embedDraft,
  embeddedSize,
  isJsonObject,
  optionalText,
  parseFailure,
  parseHead,
  parseJson,
  parseObject,
  text,
} from "./sealed-record.js";
import { UnreadableError } from "./stored-file.js";

/** What another program's record doesn't say, as far as its state tells it. Must not throw. */
export type AdoptRecord = (record: JsonObject) => {
  readonly stage?: string | undefined;
  /** Default: `failed` where the record has an error, else `running`. */
  readonly status?: CheckpointStatus | undefined;
};

/** A checkpoint in the file. */
export interface RecordEntry extends EmbeddedRecord {
  /** As it stands in the file; `undefined` where it has to be written anew. */
  readonly line?: string;
  /** Keys that another program has added. */
  readonly extra: JsonObject;
}

/** A record that another program has written, or stripped of what it didn't know. */
export interface ForeignEntry {
  readonly taskId: string;
  readonly createdAt: string;
  readonly numbered: (sequence: number) => RecordEntry;
}

const STATE_KEY = '"state":';
const KNOWN_KEYS = new Set(["id", "taskId", "label", "createdAt", "error", "waymark"]);
const NO_EXTRA: JsonObject = {};

/**
 * A record from its line, without the comma after it. Its state's text is taken as it stands, without being parsed.
 *
 * @throws {UnreadableError}
 */
export function parseRecordLine(line: string, adopt: AdoptRecord | undefined): RecordEntry | ForeignEntry {
  const parts = line.endsWith("}") ? splitState(line) : undefined;
  const entry = parts ? parseFields(parts.fields, parts.bodyText, adopt) : parseRecord(parseObject(line), adopt);
  return "head" in entry ? { ...entry, line } : entry;
}

/**
 * A record from a parsed document.
 *
 * @throws {UnreadableError}
 */
export function parseRecord(value: JsonValue, adopt: AdoptRecord | undefined): RecordEntry | ForeignEntry {
  if (!isJsonObject(value)) throw new UnreadableError("it is no object");
  const { state, ...fields } = value;
  if (state === undefined) throw new UnreadableError("it has no state");
  return parseFields(fields, JSON.stringify(state), adopt);
}

/** A record as its line. */
export function renderRecord({ head, bodyText, extra }: RecordEntry): string {
  const { id, taskId, label, createdAt, error, ...rest } = summaryOf(head);
  const { sequence, stage, status, parentId, metadata, stateVersion, sizeBytes } = rest;
  const { encoding, sha256 } = head.payload;
  const waymark = {
    ...{ sequence, stage, status, parentId, metadata, stateVersion, sizeBytes },
    ...{ encoding, bodyIs: head.bodyIs, sha256, seal: head.seal },
  };
  const fields = JSON.stringify({ id, taskId, label, createdAt, error, ...extra, waymark });
  return `${fields.slice(0, -1)},${STATE_KEY}${bodyText}}`;
}

/** What can be guessed of a record whose line is damaged. */
export function hintsOf(line: string): { readonly id?: string; readonly sequence?: number } {
  const [, id] = /^\{"id":"([^"\\]+)",/.exec(line) ?? [];
  const [, sequence] = /"waymark":\{"sequence":(\d{1,15}),/.exec(line) ?? [];
  return {
    ...(id === undefined ? undefined : { id }),
    ...(sequence === undefined ? undefined : { sequence: Number(sequence) }),
  };
}

/** Whether one of the keys that seem to be another program's holds what only this adapter writes. */
export function holdsSealed(extra: JsonObject): boolean {
  return Object.values(extra).some((value) => isJsonObject(value) && "seal" in value);
}

function parseFields(fields: JsonObject, bodyText: string, adopt: AdoptRecord | undefined): RecordEntry | ForeignEntry {
  const waymark = fields["waymark"];
  if (waymark === undefined) return foreignEntry(fields, bodyText, adopt);
  if (!isJsonObject(waymark)) throw new UnreadableError("its waymark key holds no object");
  const head = parseHead(fields, waymark);
  if (Buffer.byteLength(bodyText) !== embeddedSize(head)) {
    throw new UnreadableError("its state was cut short or changed");
  }
  return { head, bodyText, extra: extraOf(fields) };
}

/** What other programs have added to the keys that are known. */
function extraOf(fields: JsonObject): JsonObject {
  const extra = Object.keys(fields).filter((key) => !KNOWN_KEYS.has(key));
  return extra.length === 0
    ? NO_EXTRA
    : Object.fromEntries(Object.entries(fields).filter(([key]) => extra.includes(key)));
}

function foreignEntry(fields: JsonObject, bodyText: string, adopt: AdoptRecord | undefined): ForeignEntry {
  const extra = extraOf(fields);
  // Adopted, it would become the newest.
  if (holdsSealed(extra)) throw new UnreadableError("the name of its waymark key is damaged");
  const error = fields["error"];
  const createdAt = new Date(text(fields, "createdAt"));
  if (Number.isNaN(createdAt.getTime())) throw new UnreadableError("its createdAt is no date");
  const state = parseJson(bodyText);
  const draft = {
    taskId: text(fields, "taskId"),
    id: text(fields, "id"),
    createdAt: createdAt.toISOString(),
    ...optionalText(fields, "label"),
    ...(error === undefined ? undefined : { error: parseFailure(error) }),
    stateVersion: 1,
    sizeBytes: Buffer.byteLength(bodyText),
    payload: { encoding: "json", body: bodyText, sha256: hash("sha256", bodyText, "hex") },
  };
  return {
    taskId: draft.taskId,
    createdAt: draft.createdAt,
    numbered(sequence) {
      const { stage, status = error === undefined ? "running" : "failed" } = adopt?.({ ...fields, state }) ?? {};
      const adopted = { ...draft, ...(stage === undefined ? undefined : { stage }), status };
      return { ...embedDraft(adopted)(sequence), extra };
    },
  };
}

interface LineParts {
  readonly fields: JsonObject;
  readonly bodyText: string;
}

/** A line's state, as it stands there, and what comes before it. */
function splitState(line: string): LineParts | undefined {
  const first = line.indexOf(STATE_KEY);
  // As a rule the first is the one. Where it belongs to an inner object, what comes before it is no JSON.
  return first === -1 ? undefined : (splitAt(line, first) ?? splitAt(line, findState(line)));
}

function splitAt(line: string, at: number | undefined): LineParts | undefined {
  if (at === undefined || line[at - 1] !== ",") return undefined;
  try {
    const fields = parseObject(`${line.slice(0, at - 1)}}`);
    return { fields, bodyText: line.slice(at + STATE_KEY.length, -1) };
  } catch (error) {
    if (error instanceof UnreadableError) return undefined;
    throw error;
  }
}

/** Where a line's own `state` key begins: the first one that stands in no other object and in no text. */
function findState(line: string): number | undefined {
  let depth = 0;
  let inText = false;
  for (let at = 0; at < line.length; at++) {
    const character = line[at];
    if (inText) {
      if (character === "\\") at += 1;
      else if (character === '"') inText = false;
    } else if (character === '"') {
      if (depth === 1 && line.startsWith(STATE_KEY, at)) return at;
      inText = true;
    } else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") depth -= 1;
  }
  return undefined;
}
