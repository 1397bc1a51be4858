import type { CheckpointStatus, CorruptRecord, JsonObject } from "waymark";
import {
  CHECKPOINT_STATUSES,
  type CheckpointDraft,
  type CheckpointFailure,
  findDamage,
  isCorrupt,
  type StoredCheckpoint,
  summaryOf,
} from "waymark/adapter";

/** Whether the record could be read and is intact. */
export function isWhole(record: StoredCheckpoint | CorruptRecord): record is StoredCheckpoint {
  return !isCorrupt(record) && findDamage(record) === undefined;
}

/** The draft that makes the same record in another storage, appended under the same sequence. */
export function draftOf({ sequence: _sequence, seal: _seal, ...draft }: StoredCheckpoint): CheckpointDraft {
  return draft;
}

/** A record as JSON. Bytes become base64. */
export function recordJson(record: StoredCheckpoint): object {
  const { encoding, sha256, body } = record.payload;
  const content = typeof body === "string" ? { body } : { base64: Buffer.from(body).toString("base64") };
  return { ...summaryOf(record), payload: { encoding, sha256, ...content }, seal: record.seal };
}

/**
 * The record that {@link recordJson} made. It checks each part, because storages don't validate what they are given.
 *
 * @throws {Error} The value isn't a record, or isn't intact. The message is the end of a sentence.
 */
export function recordFrom(value: unknown): StoredCheckpoint {
  if (!isObject(value)) throw new Error("its record is not an object");
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
  const damage = findDamage(record) ?? damageInBody(record);
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

/** Checks what the seal doesn't cover: that a body is one that Waymark writes. */
function damageInBody({ sizeBytes, payload: { body } }: StoredCheckpoint): string | undefined {
  const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  if (bytes !== sizeBytes) return `its payload has ${bytes} bytes, not ${sizeBytes}`;
  // A storage may embed the text as JSON.
  return typeof body === "string" && JSON.stringify(JSON.parse(body)) !== body
    ? "its state is not JSON as Waymark writes it"
    : undefined;
}

/** The parts of an object from a file. Each getter checks the type of its part. */
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

/** The key with its value; without a value, nothing. */
function optional<Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } {
  const entry: { [K in Key]?: Value } = {};
  if (value !== undefined) entry[key] = value;
  return entry;
}

function wrong(key: string): Error {
  return new Error(`its ${key} is missing or malformed`);
}

/** An object that JSON.parse made. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
