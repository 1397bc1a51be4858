import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { checkInteger, checkStatus, checkText } from "../../src/contract/arguments.js";
import type { CheckpointStatus } from "../../src/contract/checkpoint.js";
import { CheckpointNotFoundError } from "../../src/contract/errors.js";
import { checkKeys } from "../../src/contract/keys.js";
import type { Logger } from "../../src/manager/logger.js";
import type { CheckpointManager } from "../../src/manager/manager.js";
import { CHANNELS, type MarkedWritesRecord } from "./records.js";
import { loadedValue, serializedFrom } from "./stored-values.js";
import { skippingDamage } from "./thread-reader.js";
import {
  bytesOf,
  type FoundThread,
  type RecordPlace,
  removeThread,
  type ThreadQuery,
  threadBatches,
} from "./threads.js";

/** Which threads. Every part that is given must hold. */
export interface ThreadsQuery {
  /** Only threads whose ids begin with this. */
  readonly prefix?: string | undefined;
  /** Only threads with this status, or with one of these; see {@link ThreadSummary.status}. */
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
  /** Only threads that nobody has written to since. */
  readonly idleSince?: Date | undefined;
  /** At most this many, the most recent ones. Default: all. */
  readonly limit?: number | undefined;
}

/** Which threads to delete: at least `status` or `idleSince` must be given. */
export type DeleteThreadsQuery = Omit<ThreadsQuery, "limit">;

/** A thread without its states. */
export interface ThreadSummary {
  readonly id: string;
  /**
   * `paused`: it asks something. `failed`: a node has thrown. `running`: it isn't done; a run may be under way, was killed, or
   * has stopped before a breakpoint. `completed`: the graph has come to its end.
   */
  readonly status: CheckpointStatus;
  /** How many checkpoints it has, with those of its subgraphs. */
  readonly checkpoints: number;
  /** The bytes of its checkpoints and pending writes. A database stores what changed between them, so it may take far fewer. */
  readonly bytes: number;
  /** How the graph's newest checkpoint came about: `input`, `loop`, `update` or `fork`. */
  readonly stage?: string | undefined;
  /** When somebody wrote to it last, in ISO 8601 UTC. */
  readonly writtenAt: string;
  /** The values of the interrupts that it waits at. `undefined` if one can't be read; the logger has said so. */
  readonly asks: readonly unknown[] | undefined;
}

/** The result of a deletion of threads. */
export interface DeletedThreads {
  /** How many threads it deleted. */
  readonly threads: number;
  /** How many checkpoints they had, with those of their subgraphs. */
  readonly checkpoints: number;
  /** The ids of threads that the query found, and that were kept: somebody wrote to them meanwhile, or holds their lease. */
  readonly kept: readonly string[];
}

export interface ThreadListOptions {
  readonly storage: StorageAdapter;
  /** Over the same storage. */
  readonly manager: CheckpointManager;
  readonly serde: SerializerProtocol;
  readonly logger: Logger;
}

/** Finds threads by their summaries, and deletes some. It reads no state. */
export class ThreadList {
  readonly #options: ThreadListOptions;

  constructor(options: ThreadListOptions) {
    this.#options = options;
  }

  /** Those that were written to last come first. */
  async find(query: ThreadsQuery): Promise<ThreadSummary[]> {
    const { limit } = query;
    let found: FoundThread[] = [];
    for await (const batch of threadBatches(this.#place(), resolved("ThreadsQuery", query, ["limit"]))) {
      found = [...found, ...batch].sort((a, b) => (a.writtenAt < b.writtenAt ? 1 : -1)).slice(0, limit);
    }
    const summaries: ThreadSummary[] = [];
    for (const thread of found) summaries.push(await this.#summaryOf(thread));
    return summaries;
  }

  /** @param deleted - Called with what the ids of a thread's tasks begin with, once it is gone. */
  async delete(query: DeleteThreadsQuery, deleted: (prefix: string) => void): Promise<DeletedThreads> {
    const { storage } = this.#options;
    const asked = resolved("DeleteThreadsQuery", query, []);
    if (asked.status === undefined && asked.idleSince === undefined) {
      throw new TypeError(
        "deleteThreads needs a status or idleSince, so that no running thread goes with the others. Nothing was deleted.",
      );
    }
    const total = { threads: 0, checkpoints: 0 };
    const kept: string[] = [];
    for await (const batch of threadBatches(this.#place(), asked)) {
      for (const thread of batch) {
        if (await removeThread(storage, thread)) {
          deleted(thread.prefix);
          total.threads += 1;
          total.checkpoints += thread.checkpoints;
        } else kept.push(thread.id);
      }
    }
    return { ...total, kept };
  }

  async #summaryOf(thread: FoundThread): Promise<ThreadSummary> {
    const { id, status, stage, writtenAt, checkpoints } = thread;
    const bytes = await bytesOf(this.#place(), thread);
    return { id, status, checkpoints, bytes, stage, writtenAt, asks: await this.#asks(thread) };
  }

  async #asks({ asking }: FoundThread): Promise<readonly unknown[] | undefined> {
    const { serde } = this.#options;
    const questions: unknown[] = [];
    for (const place of asking) {
      const record = await this.#writes(place);
      if (record === undefined) return undefined;
      for (const write of record.writes) {
        if (write.channel !== CHANNELS.interrupt || "marks" in write) continue;
        const interrupts = await loadedValue(serde, serializedFrom(write.value));
        questions.push(...(Array.isArray(interrupts) ? interrupts : [interrupts]).map(questionIn));
      }
    }
    return questions;
  }

  /** `undefined` if it is damaged, which the logger has said, or was removed meanwhile. */
  async #writes({ taskId, id }: RecordPlace): Promise<MarkedWritesRecord | undefined> {
    try {
      const record = await skippingDamage(this.#options.manager.restore(taskId, id));
      // A record that `putWrites` has stored; its seal has been checked.
      return record && (record.state as MarkedWritesRecord);
    } catch (error) {
      if (error instanceof CheckpointNotFoundError) return undefined;
      throw error;
    }
  }

  #place() {
    const { storage, logger } = this.#options;
    return {
      storage,
      damaged: ({ location, reason }: { readonly location: string; readonly reason: string }) =>
        logger.warn({ location, reason }, `A record of a thread can't be read: ${reason} (${location})`),
      readWrites: (record: RecordPlace) => this.#writes(record),
    };
  }
}

/** @throws {TypeError | RangeError} A part is misspelled or out of range; the message names it. */
function resolved(what: string, query: ThreadsQuery, more: readonly (keyof ThreadsQuery)[]): ThreadQuery {
  checkKeys(what, query, ["prefix", "status", "idleSince", ...more] satisfies (keyof ThreadsQuery)[]);
  const { prefix, status, idleSince, limit } = query;
  if (prefix !== undefined) checkText(`${what}.prefix`, prefix);
  checkInteger(`${what}.limit`, limit, 0);
  if (idleSince !== undefined && (!(idleSince instanceof Date) || Number.isNaN(idleSince.getTime()))) {
    throw new TypeError(`${what}.idleSince must be a valid Date.`);
  }
  const statuses = typeof status === "string" ? [status] : status;
  if (statuses !== undefined && !Array.isArray(statuses)) {
    throw new TypeError(`${what}.status is one status, or an array of them.`);
  }
  for (const one of statuses ?? []) checkStatus(one);
  return { prefix, status: statuses, idleSince };
}

/** `{ id, value }` */
function questionIn(interrupt: unknown): unknown {
  return typeof interrupt === "object" && interrupt !== null && "value" in interrupt ? interrupt.value : interrupt;
}
