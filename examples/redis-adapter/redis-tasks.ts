import { randomUUID } from "node:crypto";
import { CheckpointCorruptError, type CorruptRecord } from "waymark";
import {
  findRecordDamage,
  isCorrupt,
  type LeaseRecord,
  type LogRecord,
  type RecordHeader,
  type RecordQuery,
  readHeader,
  type SealedSummary,
  type StoredCheckpoint,
  type TimedLease,
  toHeader,
  toRecordHeader,
} from "waymark/adapter";
import { COMMIT, GET, LEASE, LEASES, LIST, LOG, LOOK, TASKS } from "./scripts.js";

/** The part of a Redis client that is used here. The clients of the packages @redis/client and redis have it. */
export interface RedisClient {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A task at one moment. */
export interface Seen {
  readonly taskId: string;
  readonly newestSequence: number;
  readonly lastSequence: number;
  readonly lastEvent: number;
  readonly removedUpTo: number;
  readonly count: number;
  /** The headers of the requested ids. */
  readonly headers: readonly (SealedSummary | CorruptRecord | undefined)[];
  /** Returns one of the requested events. */
  findEvent(id: string): RecordHeader | undefined;
  /** @throws {CheckpointCorruptError} The lease can't be read. Writes that need no lease don't call this. */
  lease(): TimedLease;
  /** The task's and the lease's stored texts. */
  readonly texts: { readonly task: string; readonly lease: string };
}

/** A task in the form that `selectTasks` takes. */
export interface ListedTask {
  readonly taskId: string;
  readonly count: number;
  readonly lastSequence: number;
  readonly headers: readonly (SealedSummary | CorruptRecord)[];
  readonly log: { readonly last?: RecordHeader; readonly removedUpTo?: number };
}

/** The changes of one write, made in one step. */
export interface Change {
  /** A header to store, with a body if there is a new one. */
  readonly put?: SealedSummary;
  readonly body?: string | Uint8Array;
  readonly removed?: readonly string[] | "all";
  /** The last sequence after the write, if the write takes a new one. */
  readonly lastSequence?: number;
  /** Records to store, replace or empty. A header alone removes the record's body. */
  readonly records?: readonly (LogRecord | RecordHeader)[];
  /** The sequences of records to remove. */
  readonly removedRecords?: readonly number[];
  readonly removedUpTo?: number;
}

/** Maps tasks to keys and texts on the server. Each method runs one script, so it is atomic. */
export class RedisTasks {
  readonly #client: RedisClient;
  readonly #prefix: string;

  constructor(client: RedisClient, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  taskIds(): Promise<string[]> {
    return this.#eval(TASKS, "", []);
  }

  async look(taskId: string, ids: readonly string[] = [], eventIds: readonly string[] = []): Promise<Seen> {
    const args = [`${ids.length}`, ...ids, ...eventIds];
    const [task = "", lease = "", now, count, newest, ...headers] = await this.#eval(LOOK, taskId, args);
    const events = new Map(eventIds.map((id, index) => [id, headers[ids.length + index] ?? ""]));
    return {
      taskId,
      count: Number(count),
      newestSequence: Number(newest),
      ...numberingIn(task, taskId),
      findEvent: (id) => {
        const header = events.get(id);
        return header ? requireRecord(this.#recordHeader(header, taskId)) : undefined;
      },
      headers: ids.map((id, index) => (headers[index] ? this.#header(headers[index], { taskId, id }) : undefined)),
      lease: () => ({ lease: requireLease(lease, taskId), nowMs: Number(now) }),
      texts: { task, lease },
    };
  }

  /**
   * Returns false if the task has changed since it was seen. @param isFenced - Whether the lease must still be held.
   */
  commit({ taskId, texts, lease, ...seen }: Seen, change: Change, isFenced: boolean): Promise<boolean> {
    const { put, body, removed = [], records = [], removedRecords = [] } = change;
    const { lastSequence = seen.lastSequence, removedUpTo = seen.removedUpTo } = change;
    const events = records.filter(({ kind }) => kind === "event").map(({ sequence }) => sequence);
    const lastEvent = Math.max(seen.lastEvent, ...events);
    const fence = isFenced ? [texts.lease, `${lease().lease?.expiresAtMs}`] : ["", ""];
    const header = put ? [put.id, `${put.sequence}`, JSON.stringify(toHeader(put))] : ["", "", ""];
    // The UUID makes each commit's text unique.
    const task = removed === "all" ? "" : `${lastSequence} ${lastEvent} ${removedUpTo} ${randomUUID()}`;
    const payload = body === undefined ? "" : bodyText(body);
    const gone = removed === "all" ? [] : removed;
    const log = [
      ...removedRecords.flatMap((sequence) => [`${sequence}`, "", "", ""]),
      ...records.flatMap(recordArguments),
    ];
    const checkpoints = [...header, payload, `${gone.length}`, ...gone];
    return this.#succeeds(COMMIT, taskId, [texts.task, task, ...fence, ...checkpoints, ...log]);
  }

  /** Lists a task's headers, newest first. @param last - 0 for only the newest header, -1 for all. */
  async list(taskId: string, last: 0 | -1 = -1): Promise<ListedTask> {
    const [count, task = "", record = "", ...found] = await this.#eval(LIST, taskId, [`${last}`]);
    const headers = Array.from({ length: found.length / 3 }, (_, index) => {
      const [id = "", sequence, header = ""] = found.slice(index * 3, index * 3 + 3);
      return this.#header(header, { taskId, id, sequence: Number(sequence) });
    });
    // If the newest is damaged, the newest readable one may be anywhere in the list.
    if (last === 0 && headers.some(isCorrupt)) return this.list(taskId);
    const { lastSequence, removedUpTo } = numberingIn(task, taskId);
    const lastRecord = record === "" ? undefined : this.#recordHeader(record, taskId);
    const isLast = lastRecord && !isCorrupt(lastRecord) && lastRecord.sequence > (headers[0]?.sequence ?? 0);
    const log = { ...(isLast && { last: lastRecord }), ...(removedUpTo > 0 && { removedUpTo }) };
    return { taskId, count: Number(count), lastSequence, headers, log };
  }

  /** Reads the first items of the range, all from one moment. */
  async log(
    taskId: string,
    { order, afterSequence = 0, beforeSequence = Number.MAX_SAFE_INTEGER, headersOnly = false }: RecordQuery,
    limit: number,
  ): Promise<(LogRecord | RecordHeader | SealedSummary | CorruptRecord)[]> {
    const range = [`${afterSequence}`, `${beforeSequence}`, order, `${limit}`, `${!headersOnly}`];
    const found = await this.#eval(LOG, taskId, range);
    return Array.from({ length: found.length / 3 }, (_, index) => {
      const [number, header = "", body = ""] = found.slice(index * 3, index * 3 + 3);
      const sequence = Number(number);
      if (body === "checkpoint") return this.#header(header, { taskId, sequence });
      const record = this.#recordHeader(header, taskId, sequence);
      return headersOnly || isCorrupt(record) || record.sizeBytes === 0 ? record : this.#withBody(record, body);
    });
  }

  #withBody({ sizeBytes: _sizeBytes, ...record }: RecordHeader, text: string): LogRecord | CorruptRecord {
    const { taskId, sequence } = record;
    const body = bodyIn(text);
    if (body !== undefined) return { ...record, payload: { ...record.payload, body } };
    return {
      corrupt: true,
      location: `${this.#prefix}bodies:${taskId}`,
      reason: "its payload is missing",
      taskId,
      sequence,
    };
  }

  #recordHeader(text: string, taskId: string, sequence?: number): RecordHeader | CorruptRecord {
    const location = `${this.#prefix}log:${taskId}`;
    const damaged = { corrupt: true, location, taskId, ...(sequence !== undefined && { sequence }) } as const;
    try {
      const header: RecordHeader = JSON.parse(text);
      const reason = findRecordDamage(header);
      return reason === undefined ? header : { ...damaged, reason };
    } catch (cause) {
      return { ...damaged, reason: "its header isn't what was stored", cause };
    }
  }

  async get(taskId: string, id: string): Promise<StoredCheckpoint | CorruptRecord | undefined> {
    const [text = "", payload = ""] = await this.#eval(GET, taskId, [id]);
    if (text === "") return undefined;
    const header = this.#header(text, { taskId, id });
    if (isCorrupt(header)) return header;
    const body = bodyIn(payload);
    if (body !== undefined) return { ...header, payload: { ...header.payload, body } };
    const location = `${this.#prefix}payloads:${taskId}`;
    return { corrupt: true, location, reason: "its payload is missing", taskId, id, sequence: header.sequence };
  }

  /** Returns the readable leases. */
  async leases(): Promise<(TimedLease & { readonly taskId: string })[]> {
    const [now, ...found] = await this.#eval(LEASES, "", []);
    return Array.from({ length: found.length / 2 }, (_, index) => {
      const [taskId = "", text = ""] = found.slice(index * 2, index * 2 + 2);
      return { taskId, lease: leaseIn(text), nowMs: Number(now) };
    }).filter(({ lease }) => lease !== undefined);
  }

  async changeLease(taskId: string, change: (now: TimedLease) => LeaseRecord | undefined): Promise<void> {
    for (;;) {
      const seen = await this.look(taskId);
      const lease = change(seen.lease());
      if (lease === undefined || (await this.#succeeds(LEASE, taskId, [seen.texts.lease, leaseText(lease)]))) return;
    }
  }

  #header(
    text: string,
    location: { readonly taskId: string; readonly id?: string; readonly sequence?: number },
  ): SealedSummary | CorruptRecord {
    return readHeader(text, { location: `${this.#prefix}headers:${location.taskId}`, ...location });
  }

  async #succeeds(script: string, taskId: string, args: readonly string[]): Promise<boolean> {
    const [answer] = await this.#eval(script, taskId, args);
    return answer === "done";
  }

  async #eval(script: string, taskId: string, args: readonly string[]): Promise<string[]> {
    const ofTask = ["order", "headers", "payloads", "log", "bodies", "events"].map((name) => `${name}:${taskId}`);
    const keys = ["tasks", "leases", ...ofTask].map((name) => this.#prefix + name);
    const answer = await this.#client.eval(script, { keys, arguments: [taskId, ...args] });
    return Array.isArray(answer) ? answer.map(String) : [];
  }
}

/** Formats a lease. The holder comes last, because it may contain spaces. */
function leaseText({ token, renewedAtMs, expiresAtMs, holder }: LeaseRecord): string {
  return `${token} ${renewedAtMs} ${expiresAtMs} ${holder}`;
}

/** Parses a lease. Returns `undefined` if the text isn't a lease. */
function leaseIn(text: string): LeaseRecord | undefined {
  const [, token, renewedAtMs, expiresAtMs, holder] = /^(\d+) ([\d.]+) ([\d.]+) (.+)$/s.exec(text) ?? [];
  if (holder === undefined) return undefined;
  return { holder, token: Number(token), renewedAtMs: Number(renewedAtMs), expiresAtMs: Number(expiresAtMs) };
}

function requireLease(text: string, taskId: string): LeaseRecord | undefined {
  const lease = leaseIn(text);
  if (lease === undefined && text !== "") throw unreadable("lease", taskId);
  return lease;
}

function numberingIn(text: string, taskId: string): Pick<Seen, "lastSequence" | "lastEvent" | "removedUpTo"> {
  if (text === "") return { lastSequence: 0, lastEvent: 0, removedUpTo: 0 };
  const [, lastSequence, lastEvent, removedUpTo] = /^(\d+) (\d+) (\d+) /.exec(text) ?? [];
  if (removedUpTo === undefined) throw unreadable("numbering", taskId);
  return { lastSequence: Number(lastSequence), lastEvent: Number(lastEvent), removedUpTo: Number(removedUpTo) };
}

/** Returns a record's arguments for COMMIT. */
function recordArguments(record: LogRecord | RecordHeader): string[] {
  const { payload, sequence, id = "" } = record;
  const body = "body" in payload ? bodyText(payload.body) : "";
  return [`${sequence}`, JSON.stringify(toRecordHeader(record)), body, id];
}

/** @throws {CheckpointCorruptError} The stored event can't be read, so a repeated event can't be compared with it. */
function requireRecord(record: RecordHeader | CorruptRecord): RecordHeader {
  if (!isCorrupt(record)) return record;
  throw new CheckpointCorruptError(`${record.location} has a damaged event: ${record.reason}. Nothing was changed.`);
}

/** Formats a body so that `bodyIn` can distinguish text from bytes. */
function bodyText(body: string | Uint8Array): string {
  return typeof body === "string" ? `text ${body}` : `base64 ${Buffer.from(body).toString("base64")}`;
}

/**
 * Parses a body. Returns `undefined` if it is missing or malformed. The manager checks whether it matches the digest.
 */
function bodyIn(text: string): string | Uint8Array | undefined {
  if (text.startsWith("text ")) return text.slice("text ".length);
  return text.startsWith("base64 ") ? Buffer.from(text.slice("base64 ".length), "base64") : undefined;
}

function unreadable(part: "lease" | "numbering", taskId: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `The ${part} of task ${JSON.stringify(taskId)} can't be read. It was left untouched, and nothing was changed.`,
  );
}
