import { types } from "node:util";
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { checkInteger, checkKeys, checkText, listKeys } from "../../src/contract/arguments.js";
import { type CheckpointStatus, checkStatus } from "../../src/contract/checkpoint.js";
import type { Logger } from "../../src/manager/logger.js";
import { loadedValue, serializedFrom } from "./stored-values.js";
import { questionsIn } from "./thread-status.js";
import { countBytes, type FoundThread, removeThread, type ThreadQuery, threadBatches } from "./threads.js";

/** Which threads to find. A thread must match every given part. */
export interface ThreadsQuery {
  /** Only threads whose ids begin with this. */
  readonly prefix?: string | undefined;
  /** Only threads with this status, or with one of these; see {@link ThreadSummary.status}. */
  readonly status?: CheckpointStatus | readonly CheckpointStatus[] | undefined;
  /** Only threads that no program has written to since then. */
  readonly idleSince?: Date | undefined;
  /** Returns at most this many threads, the most recently written ones. Default: all. */
  readonly limit?: number | undefined;
}

/** Which threads to delete: at least `status` or `idleSince` must be given. */
export type DeleteThreadsQuery = Omit<ThreadsQuery, "limit">;

/** A thread without its states. */
export interface ThreadSummary {
  readonly id: string;
  /**
   * `paused`: the thread waits for an answer. `failed`: a node threw. `running`: the graph hasn't reached its end. A
   * run may be under way, was killed, or stopped at a breakpoint. `completed`: the graph reached its end.
   */
  readonly status: CheckpointStatus;
  /** How many checkpoints the thread has, including those of its subgraphs. */
  readonly checkpoints: number;
  /**
   * The bytes of the thread's checkpoints and pending writes. A database stores only the changes between checkpoints,
   * so its file may be far smaller.
   */
  readonly bytes: number;
  /** Who made the graph's newest checkpoint: `input`, `loop`, `update` or `fork`. */
  readonly stage?: string | undefined;
  /** The time of the last write, in ISO 8601 UTC. */
  readonly writtenAt: string;
  /** The values of the interrupts that the thread waits for. A value that can't be read is left out, and logged. */
  readonly asks: readonly unknown[];
}

/** The result of a deletion of threads. */
export interface DeletedThreads {
  /** How many threads were deleted. */
  readonly threads: number;
  /** How many checkpoints the deleted threads had, including those of their subgraphs. */
  readonly checkpoints: number;
  /** Threads that matched the query but were kept: a program wrote to them meanwhile, or a runner holds their lease. */
  readonly kept: readonly string[];
}

export interface ThreadListOptions {
  readonly storage: StorageAdapter;
  /** A manager over `storage`. */
  readonly manager: CheckpointManager;
  readonly serde: SerializerProtocol;
  readonly logger: Logger;
}

/** Finds threads by their summaries and questions, and deletes some. Reads no states. */
export class ThreadList {
  readonly #options: ThreadListOptions;

  constructor(options: ThreadListOptions) {
    this.#options = options;
  }

  /** Most recently written first. */
  async find(query: ThreadsQuery): Promise<ThreadSummary[]> {
    const { limit } = query;
    let found: FoundThread[] = [];
    for await (const batch of threadBatches(this.#source(), resolved("ThreadsQuery", query, FIND_KEYS))) {
      found = [...found, ...batch].sort((a, b) => (a.writtenAt < b.writtenAt ? 1 : -1)).slice(0, limit);
    }
    const summaries: ThreadSummary[] = [];
    for (const thread of found) summaries.push(await this.#readSummary(thread));
    return summaries;
  }

  /** @param deleted - Called with the prefix of a thread's task ids, once the thread is gone. */
  async delete(query: DeleteThreadsQuery, deleted: (prefix: string) => void): Promise<DeletedThreads> {
    const { storage } = this.#options;
    const resolvedQuery = resolved("DeleteThreadsQuery", query, DELETE_KEYS);
    if (resolvedQuery.status === undefined && resolvedQuery.idleSince === undefined) {
      throw new TypeError(
        "Pass deleteThreads a status or idleSince: without either, it would also delete running threads. Nothing was deleted.",
      );
    }
    const total = { threads: 0, checkpoints: 0 };
    const kept: string[] = [];
    for await (const batch of threadBatches(this.#source(), resolvedQuery)) {
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

  async #readSummary(thread: FoundThread): Promise<ThreadSummary> {
    const { id, status, stage, writtenAt, checkpoints, interrupts } = thread;
    const bytes = await countBytes(this.#source(), thread);
    const { serde } = this.#options;
    const asks: unknown[] = [];
    for (const value of interrupts) asks.push(...questionsIn(await loadedValue(serde, serializedFrom(value))));
    return { id, status, checkpoints, bytes, stage, writtenAt, asks };
  }

  #source() {
    const { storage, manager, logger } = this.#options;
    return {
      storage,
      manager,
      damaged: ({ location, reason }: { readonly location: string; readonly reason: string }) =>
        logger.warn({ location, reason }, `A record of a thread can't be read: ${reason} (${location})`),
    };
  }
}

const DELETED = { prefix: true, status: true, idleSince: true } as const;
const DELETE_KEYS = listKeys<DeleteThreadsQuery>(DELETED);
const FIND_KEYS = listKeys<ThreadsQuery>({ ...DELETED, limit: true });

/** @throws {TypeError | RangeError} A part is misspelled or out of range; the message names it. */
function resolved(what: string, query: ThreadsQuery, keys: readonly (keyof ThreadsQuery)[]): ThreadQuery {
  checkKeys(what, query, keys);
  const { prefix, status, idleSince, limit } = query;
  if (prefix !== undefined) checkText(`${what}.prefix`, prefix);
  checkInteger(`${what}.limit`, limit, 0);
  if (idleSince !== undefined && (!types.isDate(idleSince) || Number.isNaN(idleSince.getTime()))) {
    throw new TypeError(`${what}.idleSince must be a valid Date.`);
  }
  const statuses = typeof status === "string" ? [status] : status;
  if (statuses !== undefined && !Array.isArray(statuses)) {
    throw new TypeError(`${what}.status is one status, or an array of them.`);
  }
  for (const one of statuses ?? []) checkStatus(one);
  return { prefix, status: statuses, idleSince };
}
