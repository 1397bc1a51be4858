import { createHash } from "node:crypto";
import type { CorruptRecord } from "waymark";
import { type SealedSummary, type StoredCheckpoint, summaryOf } from "waymark/adapter";
import { isIndex, isObject, type TaskIndex } from "./task-index.js";

/**
 * The part of an unstorage `Storage` that is used here. The results of `createStorage` and `prefixStorage` both fit.
 */
export interface KeyValueStorage {
  getItem(key: string): Promise<unknown>;
  setItem(key: string, value: string): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base: string): Promise<string[]>;
}

/**
 * Begins every value. unstorage turns text that looks like JSON into objects, and drops keys like `__proto__`. Text
 * with this beginning comes back unchanged.
 */
const MARK = "waymark-1 ";

/** Maps keys to records, encodes them as text, and decides what is unreadable. Knows nothing of the contract. */
export class Records {
  readonly #storage: KeyValueStorage;

  constructor(storage: KeyValueStorage) {
    this.#storage = storage;
  }

  async indexKeys(): Promise<string[]> {
    return this.#storage.getKeys("waymark:tasks");
  }

  /** `undefined` if there is none. */
  async index(key: string): Promise<TaskIndex | CorruptRecord | undefined> {
    return this.#read(key, taskIdOf(key), (value) =>
      isIndex(value) && indexKey(value.taskId) === key ? value : undefined,
    );
  }

  async storeIndex(index: TaskIndex): Promise<void> {
    await this.#write(indexKey(index.taskId), index);
  }

  /** The whole checkpoint of a header. The manager checks whether its payload fits the digest. */
  async checkpoint(header: SealedSummary): Promise<StoredCheckpoint | CorruptRecord> {
    const { taskId, id, sequence, payload, seal } = header;
    const key = payloadKey(taskId, sequence);
    const found = await this.#read(key, { taskId, id, sequence }, (value) => {
      const body = bodyOf(value);
      return body === undefined ? undefined : { ...summaryOf(header), payload: { ...payload, body }, seal };
    });
    return found ?? { corrupt: true, location: key, reason: "The payload is missing.", taskId, id, sequence };
  }

  async storePayload(taskId: string, sequence: number, body: string | Uint8Array): Promise<void> {
    const value = typeof body === "string" ? { text: body } : { base64: Buffer.from(body).toString("base64") };
    await this.#write(payloadKey(taskId, sequence), value);
  }

  async removePayload(taskId: string, sequence: number): Promise<void> {
    await this.#storage.removeItem(payloadKey(taskId, sequence));
  }

  /**
   * Removes the index, which ends the task, then every payload, even those that the index doesn't name. Returns how
   * many.
   */
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
    parse: (value: unknown) => Found | undefined,
  ): Promise<Found | CorruptRecord | undefined> {
    const text = await this.#storage.getItem(location);
    if (text === null || text === undefined) return undefined;
    const corrupt = { corrupt: true, location, ...belongsTo } as const;
    if (typeof text !== "string" || !text.startsWith(MARK))
      return { ...corrupt, reason: `It doesn't begin "${MARK}".` };
    try {
      const value: unknown = JSON.parse(text.slice(MARK.length));
      return parse(value) ?? { ...corrupt, reason: "Its content has changed." };
    } catch (cause) {
      return { ...corrupt, reason: "It is cut short or damaged.", cause };
    }
  }
}

export function indexKey(taskId: string): string {
  return `waymark:tasks:${taskKey(taskId)}`;
}

/** Without a sequence, the prefix of all payloads of the task. */
function payloadKey(taskId: string, sequence?: number): string {
  return `waymark:payloads:${taskKey(taskId)}${sequence === undefined ? "" : `:${sequence}`}`;
}

/**
 * unstorage takes "/" for ":" and ends a key at "?", and some drivers don't distinguish "A" from "a". So task ids are
 * written in hexadecimal. Long ones are hashed, because a file's name ends at 255 bytes.
 */
function taskKey(taskId: string): string {
  const hex = Buffer.from(taskId).toString("hex");
  return hex.length <= 200 ? `x${hex}` : `h${createHash("sha256").update(taskId).digest("hex")}`;
}

/** The task's id, if its key tells. */
function taskIdOf(key: string): { taskId?: string } {
  const hex = /:x([0-9a-f]*)$/.exec(key)?.[1];
  return hex === undefined ? {} : { taskId: Buffer.from(hex, "hex").toString() };
}

function bodyOf(value: unknown): string | Uint8Array | undefined {
  if (!isObject(value)) return undefined;
  if (typeof value["text"] === "string") return value["text"];
  return typeof value["base64"] === "string" ? Buffer.from(value["base64"], "base64") : undefined;
}
