import type { StoredTask } from "../contract/adapter.js";
import { CheckpointNotFoundError } from "../contract/errors.js";
import type { RecordQuery } from "../contract/log.js";
import { hasEnded } from "../contract/transient.js";
import { anySignal } from "../manager/abort-signals.js";
import type { FollowOptions } from "../manager/queries.js";
import type { RecordReader, TaskRecord } from "../manager/records.js";
import { Poller } from "./poller.js";
import type { RunStore } from "./run-store.js";

/** The most records that are read at a time, and about the most bytes. */
const PAGE = { records: 100, bytes: 1024 * 1024 };

/** A record, or what a follower gets instead of records up to a sequence that were removed before it could read them. */
export type FollowedItem =
  | TaskRecord
  | { readonly kind: "removed"; readonly taskId: string; readonly sequence: number };

/** Yields the records of tasks that are there, and then those that come. */
export class Follower {
  readonly #store: RunStore;
  readonly #records: RecordReader;

  constructor(store: RunStore, records: RecordReader) {
    this.#store = store;
    this.#records = records;
  }

  async *follow(
    taskId: string,
    { afterSequence, kinds, signal }: FollowOptions,
  ): AsyncGenerator<FollowedItem, void, void> {
    const store = this.#store;
    const ending = anySignal(store.closing, signal);
    const poller = new Poller(store, taskId, { usesHints: true });
    // Where it begins, nothing is missing.
    let reportsRemoved = afterSequence !== undefined;
    let last = afterSequence ?? 0;
    let before: StoredTask | undefined;
    try {
      for (let idlePolls = 0; ; idlePolls++) {
        ending.throwIfAborted();
        poller.begin();
        const page = await this.#readPage({ taskId, kinds, afterSequence: last });
        // Read after the page, so that it counts what was removed before.
        const task = await store.findTask(taskId);
        if (task === undefined ? last > 0 : isBelow(task, last)) throw goneError(taskId, last);
        const removedUpTo = Math.min(task?.removedUpTo ?? 0, (page[0]?.sequence ?? Number.POSITIVE_INFINITY) - 1);
        if (reportsRemoved && removedUpTo > last) yield { kind: "removed", taskId, sequence: removedUpTo };
        for (const record of page) {
          yield record;
          ending.throwIfAborted();
        }
        reportsRemoved ||= task !== undefined;
        // An empty page has nothing of what was there before it was read.
        last = Math.max(last, removedUpTo, page.at(-1)?.sequence ?? lastSequenceOf(before));
        if (page.length === 0 && hasEnded(before?.newest) && (await this.#hasEndedDurably(taskId))) return;
        if (page.length > 0) idlePolls = -1;
        else if (idlePolls > 0) await poller.pauseForChange(ending, { idlePolls: idlePolls - 1 });
        before = task;
      }
    } finally {
      poller.end();
    }
  }

  /** Reads the next records. An empty page says that there are no more. */
  async #readPage(query: Pick<RecordQuery, "taskId" | "afterSequence" | "kinds">): Promise<readonly TaskRecord[]> {
    const page: TaskRecord[] = [];
    let bytes = 0;
    const how = { order: "oldest", limit: PAGE.records, durableOnly: true } as const;
    for await (const record of this.#records.read({ ...query, ...how })) {
      page.push(record);
      bytes += record.sizeBytes;
      if (bytes >= PAGE.bytes) break;
    }
    return page;
  }

  /** Whether the run's end survives a power cut. */
  async #hasEndedDurably(taskId: string): Promise<boolean> {
    const query = { taskId, order: "newest", kinds: ["checkpoint"], limit: 1, durableOnly: true } as const;
    for await (const newest of this.#records.read(query)) return newest.kind === "checkpoint" && hasEnded(newest);
    return false;
  }
}

function lastSequenceOf(task: StoredTask | undefined): number {
  return Math.max(task?.newest?.sequence ?? 0, task?.last?.sequence ?? 0);
}

/** Whether the task has nothing with this sequence or a later one, though none was removed by a policy. */
function isBelow(task: StoredTask, sequence: number): boolean {
  return Math.max(lastSequenceOf(task), task.removedUpTo ?? 0) < sequence;
}

function goneError(taskId: string, last: number): CheckpointNotFoundError {
  return new CheckpointNotFoundError(
    `The log of task ${JSON.stringify(taskId)} ends before the sequence ${last}: the task was removed, and perhaps begun again. Nothing that ` +
      "it has now was passed on. To follow it from its beginning, call `follow` without `afterSequence`.",
    { taskId },
  );
}
