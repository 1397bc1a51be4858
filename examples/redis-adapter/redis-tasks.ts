import { randomUUID } from "node:crypto";
import { CheckpointCorruptError, type CorruptRecord } from "waymark";
import {
  isCorrupt,
  type LeaseRecord,
  readHeader,
  type SealedSummary,
  type StoredCheckpoint,
  type TimedLease,
  toHeader,
} from "waymark/adapter";
import { COMMIT, GET, LEASE, LEASES, LIST, LOOK, TASKS } from "./scripts.js";

/** The part of a client that is used here. Those of the packages @redis/client and redis have it. */
export interface RedisClient {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A task at one moment. */
export interface Seen {
  readonly taskId: string;
  readonly newestSequence: number;
  readonly lastSequence: number;
  readonly count: number;
  /** The headers of the ids that were asked for. */
  readonly headers: readonly (SealedSummary | CorruptRecord | undefined)[];
  /** @throws {CheckpointCorruptError} It can't be read. A write that needs no lease doesn't call it. */
  lease(): TimedLease;
  /** The texts of its keys on the server. */
  readonly texts: { readonly task: string; readonly lease: string };
}

/** A task for `selectTasks`. */
export interface ListedTask {
  readonly taskId: string;
  readonly count: number;
  readonly headers: readonly (SealedSummary | CorruptRecord)[];
}

/** The changes of one write, made in one step. */
export interface Change {
  /** A header to store, with a body if there is a new one. */
  readonly put?: SealedSummary;
  readonly body?: string | Uint8Array;
  readonly removed?: readonly string[] | "all";
  /** A new one, if the write took it. */
  readonly lastSequence?: number;
}

/** Which key holds what, as which text. Each method is one script, so one moment. */
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

  async look(taskId: string, ids: readonly string[] = []): Promise<Seen> {
    const [task = "", lease = "", now, count, newest, ...headers] = await this.#eval(LOOK, taskId, ids);
    return {
      taskId,
      count: Number(count),
      newestSequence: Number(newest),
      lastSequence: lastSequenceIn(task, taskId),
      headers: ids.map((id, index) => (headers[index] ? this.#header(headers[index], { taskId, id }) : undefined)),
      lease: () => ({ lease: requireLease(lease, taskId), nowMs: Number(now) }),
      texts: { task, lease },
    };
  }

  /** False if the task isn't as it was seen. @param isFenced - Then the lease must be held, too. */
  commit({ taskId, texts, lastSequence: last, lease }: Seen, change: Change, isFenced: boolean): Promise<boolean> {
    const { put, body, removed = [], lastSequence = last } = change;
    const fence = isFenced ? [texts.lease, `${lease().lease?.expiresAtMs}`] : ["", ""];
    const header = put ? [put.id, `${put.sequence}`, JSON.stringify(toHeader(put))] : ["", "", ""];
    // No other commit writes the same text.
    const task = removed === "all" ? "" : `${lastSequence} ${randomUUID()}`;
    const payload = body === undefined ? "" : bodyText(body);
    const gone = removed === "all" ? [] : removed;
    return this.#succeeds(COMMIT, taskId, [texts.task, task, ...fence, ...header, payload, ...gone]);
  }

  /** Newest first. @param last - 0 for the newest alone, -1 for all. */
  async list(taskId: string, last: 0 | -1 = -1): Promise<ListedTask> {
    const [count, ...found] = await this.#eval(LIST, taskId, [`${last}`]);
    const headers = Array.from({ length: found.length / 3 }, (_, index) => {
      const [id = "", sequence, header = ""] = found.slice(index * 3, index * 3 + 3);
      return this.#header(header, { taskId, id, sequence: Number(sequence) });
    });
    // If the newest is damaged, the newest readable one may be anywhere in the list.
    return last === 0 && headers.some(isCorrupt) ? this.list(taskId) : { taskId, count: Number(count), headers };
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

  /** Without those that can't be read. */
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
    place: { readonly taskId: string; readonly id: string; readonly sequence?: number },
  ): SealedSummary | CorruptRecord {
    return readHeader(text, { location: `${this.#prefix}headers:${place.taskId}`, ...place });
  }

  async #succeeds(script: string, taskId: string, args: readonly string[]): Promise<boolean> {
    const [answer] = await this.#eval(script, taskId, args);
    return answer === "done";
  }

  async #eval(script: string, taskId: string, args: readonly string[]): Promise<string[]> {
    const names = ["tasks", "leases", `order:${taskId}`, `headers:${taskId}`, `payloads:${taskId}`];
    const keys = names.map((name) => this.#prefix + name);
    const answer = await this.#client.eval(script, { keys, arguments: [taskId, ...args] });
    return Array.isArray(answer) ? answer.map(String) : [];
  }
}

/** The holder comes last, since it may hold anything. */
function leaseText({ token, renewedAtMs, expiresAtMs, holder }: LeaseRecord): string {
  return `${token} ${renewedAtMs} ${expiresAtMs} ${holder}`;
}

/** `undefined` if it is no lease. */
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

function lastSequenceIn(text: string, taskId: string): number {
  if (text === "") return 0;
  const [, sequence] = /^(\d+) /.exec(text) ?? [];
  if (sequence === undefined) throw unreadable("numbering", taskId);
  return Number(sequence);
}

/** It tells text from bytes. */
function bodyText(body: string | Uint8Array): string {
  return typeof body === "string" ? `text ${body}` : `base64 ${Buffer.from(body).toString("base64")}`;
}

/** `undefined` if it is missing, or no payload. Whether it fits the digest is the manager's to check. */
function bodyIn(text: string): string | Uint8Array | undefined {
  if (text.startsWith("text ")) return text.slice("text ".length);
  return text.startsWith("base64 ") ? Buffer.from(text.slice("base64 ".length), "base64") : undefined;
}

function unreadable(part: "lease" | "numbering", taskId: string): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `The ${part} of task ${JSON.stringify(taskId)} can't be read. It was left untouched, and nothing was changed.`,
  );
}
