import { createHash } from "node:crypto";
import type { CorruptRecord, JsonObject } from "waymark";
import {
  isCorrupt,
  type RecordHeader,
  readHeader,
  requireIntact,
  type SealedSummary,
  type StoredCheckpoint,
} from "waymark/adapter";

type Json = JsonObject[string];

/** The part of an unstorage `Storage` that is used here. `createStorage` and `prefixStorage` return such objects. */
export interface KeyValueStorage {
  getItem(key: string): Promise<unknown>;
  setItem(key: string, value: string): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base: string): Promise<string[]>;
}

/** All of a task except its payloads. It outlives the last checkpoint because it has the last sequence. */
export interface TaskIndex {
  readonly taskId: string;
  readonly lastSequence: number;
  /** The checkpoints, oldest first. */
  readonly entries: readonly IndexEntry[];
  /** The headers of the log's records, oldest first. An event whose body was removed has 0 bytes. */
  readonly records: readonly RecordHeader[];
  /** The highest sequence of a removed record that isn't a mark; 0 if there is none. */
  readonly removedUpTo: number;
}

/** A checkpoint's header and its value in the index. The value of a damaged header is written back unchanged. */
export interface IndexEntry {
  readonly stored: Json | SealedSummary;
  readonly header: SealedSummary | CorruptRecord;
}

/**
 * Begins every value. unstorage parses text that looks like JSON, and drops keys like `__proto__` in doing so. Text
 * with this beginning is returned unchanged.
 */
const MARK = "waymark-1 ";

/** Stores values under their keys as text, and checks that they can be read. It doesn't depend on the contract. */
export class Records {
  readonly #storage: KeyValueStorage;

  constructor(storage: KeyValueStorage) {
    this.#storage = storage;
  }

  async indexKeys(): Promise<string[]> {
    return this.#storage.getKeys("waymark:tasks");
  }

  /** Returns the index, or `undefined` if there is none. */
  async index(key: string): Promise<TaskIndex | CorruptRecord | undefined> {
    return this.#read(key, taskIdOf(key), (value) => indexIn(value, key));
  }

  /** Reads the index for a change. Throws if the index can't be read, so that a damaged one is never overwritten. */
  async indexToChange(taskId: string): Promise<TaskIndex> {
    const index = await this.index(indexKey(taskId));
    if (index === undefined) return { taskId, lastSequence: 0, entries: [], records: [], removedUpTo: 0 };
    return isCorrupt(index) ? requireIntact<never>(index) : index;
  }

  async storeIndex({ taskId, lastSequence, entries, records, removedUpTo }: TaskIndex): Promise<void> {
    const headers = entries.map(({ stored }) => stored);
    await this.#write(indexKey(taskId), { taskId, lastSequence, headers, records, removedUpTo });
  }

  /** Returns the whole checkpoint of a header. The manager checks whether its payload matches the digest. */
  async checkpoint(header: SealedSummary | CorruptRecord): Promise<StoredCheckpoint | CorruptRecord> {
    if (isCorrupt(header)) return header;
    const { taskId, id, sequence, payload } = header;
    const found = await this.payload(taskId, sequence, { id });
    return isCorrupt(found) ? found : { ...header, payload: { ...payload, ...found } };
  }

  /** @param named - The checkpoint's id, which is added to a CorruptRecord. */
  async payload(
    taskId: string,
    sequence: number,
    named: { readonly id?: string },
  ): Promise<{ readonly body: string | Uint8Array } | CorruptRecord> {
    const key = payloadKey(taskId, sequence);
    const found = await this.#read(key, { taskId, ...named, sequence }, (value) => {
      const body = bodyOf(value);
      return body === undefined ? undefined : { body };
    });
    return found ?? { corrupt: true, location: key, reason: "The payload is missing.", taskId, ...named, sequence };
  }

  async storePayload(taskId: string, sequence: number, body: string | Uint8Array): Promise<void> {
    const value = typeof body === "string" ? { text: body } : { base64: Buffer.from(body).toString("base64") };
    await this.#write(payloadKey(taskId, sequence), value);
  }

  async removePayload(taskId: string, sequence: number): Promise<void> {
    await this.#storage.removeItem(payloadKey(taskId, sequence));
  }

  /** Removes the index, which ends the task, then all payloads, even unnamed ones. Returns the number of payloads. */
  async removeTask(taskId: string): Promise<number> {
    const payloads = await this.#storage.getKeys(payloadKey(taskId));
    for (const key of [indexKey(taskId), ...payloads]) await this.#storage.removeItem(key);
    return payloads.length;
  }

  async #write(key: string, value: object): Promise<void> {
    await this.#storage.setItem(key, MARK + JSON.stringify(value));
  }

  async #read<Found>(
    location: string,
    belongsTo: Pick<CorruptRecord, "taskId" | "id" | "sequence">,
    parse: (value: Json) => Found | undefined,
  ): Promise<Found | CorruptRecord | undefined> {
    const text = await this.#storage.getItem(location);
    if (text === null || text === undefined) return undefined;
    const corrupt = { corrupt: true, location, ...belongsTo } as const;
    if (typeof text !== "string" || !text.startsWith(MARK))
      return { ...corrupt, reason: `It doesn't begin "${MARK}".` };
    try {
      const value: Json = JSON.parse(text.slice(MARK.length));
      return parse(value) ?? { ...corrupt, reason: "It isn't what was stored there." };
    } catch (cause) {
      return { ...corrupt, reason: "It is cut short or damaged.", cause };
    }
  }
}

export function indexKey(taskId: string): string {
  return `waymark:tasks:${taskKey(taskId)}`;
}

/** Returns the key of a payload. Without a sequence, it is the base of the task's payload keys. */
function payloadKey(taskId: string, sequence?: number): string {
  return `waymark:payloads:${taskKey(taskId)}${sequence === undefined ? "" : `:${sequence}`}`;
}

/**
 * Returns the task id in hexadecimal: unstorage treats "/" like ":" and ends a key at "?", and some drivers ignore
 * case. Long ids are hashed, because a file name has at most 255 bytes.
 */
function taskKey(taskId: string): string {
  const hex = Buffer.from(taskId).toString("hex");
  return hex.length <= 200 ? `x${hex}` : `h${createHash("sha256").update(taskId).digest("hex")}`;
}

/** Returns the task's id, unless its key is a hash. */
function taskIdOf(key: string): { taskId?: string } {
  const hex = /:x([0-9a-f]*)$/.exec(key)?.[1];
  return hex === undefined ? {} : { taskId: Buffer.from(hex, "hex").toString() };
}

/** Returns the index, or `undefined` if the value isn't an index or belongs to another task. */
function indexIn(value: Json, key: string): TaskIndex | undefined {
  if (!isJsonObject(value)) return undefined;
  const { taskId, lastSequence, headers, records, removedUpTo } = value;
  if (typeof taskId !== "string" || indexKey(taskId) !== key) return undefined;
  if (typeof lastSequence !== "number" || !isList(headers)) return undefined;
  const log: readonly unknown[] = isList(records) ? records : [undefined];
  if (typeof removedUpTo !== "number" || !log.every(isRecordHeader)) return undefined;
  const entries = headers.map((stored) => ({ stored, header: readHeader(stored, { location: key, taskId }) }));
  return { taskId, lastSequence, entries, records: log, removedUpTo };
}

/** Whether the value has the form of a record's header. The manager checks its seal. */
function isRecordHeader(value: unknown): value is RecordHeader {
  if (typeof value !== "object" || value === null || !("kind" in value && "payload" in value)) return false;
  return "sequence" in value && typeof value.sequence === "number" && "sizeBytes" in value && "seal" in value;
}

function bodyOf(value: Json): string | Uint8Array | undefined {
  if (!isJsonObject(value)) return undefined;
  const { text, base64 } = value;
  if (typeof text === "string") return text;
  return typeof base64 === "string" ? Buffer.from(base64, "base64") : undefined;
}

function isJsonObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !isList(value);
}

/** `Array.isArray` with a type for readonly arrays. */
function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}
