import type { CheckpointFailure, CheckpointStatus, CorruptRecord, JsonObject } from "waymark";
import {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  isCorrupt,
  type StoredCheckpoint,
  seal,
  summaryOf,
} from "waymark/adapter";
import { sha256Of } from "./record-line.js";

/**
 * What is wrong with a record that a storage gave, or a file: its seal and its payload's digest are computed anew.
 * `undefined` where it is whole.
 */
export function damageOf(record: StoredCheckpoint): string | undefined {
  if (seal(record) !== record.seal) return "its seal doesn't match its content";
  if (sha256Of(record.payload.body) !== record.payload.sha256) return "its payload fails its SHA-256 checksum";
  return undefined;
}

/** Whether it could be read, and is whole. */
export function isWhole(record: StoredCheckpoint | CorruptRecord): record is StoredCheckpoint {
  return !isCorrupt(record) && damageOf(record) === undefined;
}

/** What is appended elsewhere to have the same record there, under the same sequence. */
export function draftOf({ sequence: _sequence, seal: _seal, ...draft }: StoredCheckpoint): CheckpointDraft {
  return draft;
}

/** A record as JSON: bytes as base64, everything else as it is. */
export function recordJson(record: StoredCheckpoint): object {
  const { encoding, sha256, body } = record.payload;
  const content = typeof body === "string" ? { body } : { base64: Buffer.from(body).toString("base64") };
  return { ...summaryOf(record), payload: { encoding, sha256, ...content }, seal: record.seal };
}

/**
 * The record that {@link recordJson} made: checked part by part, since storages take what they are given for valid.
 *
 * @throws {Error} It isn't one, or isn't whole; the message is the rest of a sentence.
 */
export function recordFrom(value: unknown): StoredCheckpoint {
  if (!isObject(value)) throw new Error("its record is no object");
  const part = new Parts(value);
  const payload = new Parts(part.object("payload"));
  const record: StoredCheckpoint = {
    taskId: part.text("taskId", 512),
    id: part.text("id", 1024),
    sequence: part.count("sequence", 1),
    createdAt: part.text("createdAt", 100),
    ...optional("stage", part.optionalText("stage")),
    ...optional("label", part.optionalText("label")),
    ...optional("parentId", part.optionalText("parentId")),
    ...optional("metadata", part.optionalObject("metadata")),
    status: part.status("status"),
    ...optional("error", part.failure("error")),
    stateVersion: part.count("stateVersion", 1),
    sizeBytes: part.count("sizeBytes", 0),
    payload: { encoding: payload.text("encoding", 1024), sha256: payload.text("sha256", 64), body: bodyFrom(payload) },
    seal: part.text("seal", 64),
  };
  const damage = damageOf(record) ?? damageOfBody(record);
  if (damage !== undefined) throw new Error(damage);
  return record;
}

function bodyFrom(payload: Parts): string | Uint8Array {
  const text = payload.optionalText("body");
  if (text !== undefined) return text;
  const base64 = payload.optionalText("base64");
  if (base64 === undefined) throw wrong("body");
  return new Uint8Array(Buffer.from(base64, "base64"));
}

/** The seal says whose body it is, not what a body has to be. */
function damageOfBody({ sizeBytes, payload: { body } }: StoredCheckpoint): string | undefined {
  const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  if (bytes !== sizeBytes) return `its payload has ${bytes} bytes, not ${sizeBytes}`;
  // A storage may embed a text as JSON.
  return typeof body === "string" && JSON.stringify(JSON.parse(body)) !== body
    ? "its state is no JSON as Waymark writes it"
    : undefined;
}

/** The parts of an object from a file, each of which must be what it is taken for. */
class Parts {
  readonly #from: Readonly<Record<string, unknown>>;

  constructor(from: Readonly<Record<string, unknown>>) {
    this.#from = from;
  }

  text(key: string, maxLength: number): string {
    const text = this.optionalText(key);
    if (text === undefined || text === "" || text.length > maxLength) throw wrong(key);
    return text;
  }

  optionalText(key: string): string | undefined {
    const value = this.#from[key];
    if (value === undefined) return undefined;
    if (typeof value !== "string" || !value.isWellFormed()) throw wrong(key);
    return value;
  }

  count(key: string, min: number): number {
    const value = this.#from[key];
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < min) throw wrong(key);
    return value;
  }

  status(key: string): CheckpointStatus {
    const status = CHECKPOINT_STATUSES.find((known) => known === this.#from[key]);
    if (status === undefined) throw wrong(key);
    return status;
  }

  object(key: string): JsonObject {
    const value = this.#from[key];
    if (!isObject(value)) throw wrong(key);
    return value;
  }

  optionalObject(key: string): JsonObject | undefined {
    return this.#from[key] === undefined ? undefined : this.object(key);
  }

  failure(key: string): CheckpointFailure | undefined {
    const error = this.optionalObject(key);
    if (error === undefined) return undefined;
    const parts = new Parts(error);
    const message = parts.optionalText("message");
    if (message === undefined) throw wrong(key);
    return {
      message,
      ...optional("name", parts.optionalText("name")),
      ...optional("code", parts.optionalText("code")),
      ...optional("stack", parts.optionalText("stack")),
    };
  }
}

/** The key, where there is a value for it. */
function optional<Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } {
  const entry: { [K in Key]?: Value } = {};
  if (value !== undefined) entry[key] = value;
  return entry;
}

function wrong(key: string): Error {
  return new Error(`its ${key} isn't what it must be`);
}

/** An object that JSON.parse made. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
