import type { StoredTask } from "../contract/adapter.js";
import { CheckpointNotFoundError } from "../contract/errors.js";
import type { RecordQuery } from "../contract/log.js";
import { hasEnded } from "../contract/transient.js";
import { anySignal } from "../manager/abort-signals.js";
import { checkFollowOptions, type FollowOptions } from "../manager/queries.js";
import type { RecordReader, TaskRecord } from "../manager/records.js";
import { Poller } from "./poller.js";
import type { RunStore } from "./run-store.js";

/** A page ends at this many records, or after the record with which it reaches this many bytes. */
const PAGE = { records: 100, bytes: 1024 * 1024 };

/**
 * A record, or a notice that a policy has removed some of the records after `sequence` (the last one that was yielded)
 * up to `upToSequence`. The removed records may be of any kind.
 */
export type FollowedItem =
  | TaskRecord
  | {
      readonly kind: "removed";
      readonly taskId: string;
      readonly sequence: number;
      readonly upToSequence: number;
    };

/** Yields the stored records of a task, and then each new one. */
export class Follower {
  readonly #store: RunStore;
  readonly #records: RecordReader;

  constructor(store: RunStore, records: RecordReader) {
    this.#store = store;
    this.#records = records;
  }

  follow(taskId: string, options: FollowOptions): AsyncGenerator<FollowedItem, void, void> {
    const left = new AbortController();
    const items = this.#items(taskId, options, left.signal);
    const end = items.return.bind(items);
    // Without the abort, the generator would end only at the next item, which may never come.
    items.return = (value) => {
      left.abort();
      return end(value);
    };
    return items;
  }

  async *#items(taskId: string, options: FollowOptions, left: AbortSignal): AsyncGenerator<FollowedItem, void, void> {
    const store = this.#store;
    checkFollowOptions(taskId, options);
    const { afterSequence, kinds, signal } = options;
    const ending = anySignal(left, store.closing, signal);
    const poller = new Poller(store, taskId);
    let last = afterSequence ?? 0;
    /** Removals up to this sequence have been reported, or happened before this call. */
    let toldUpTo = afterSequence;
    let before: StoredTask | undefined;
    try {
      for (let idlePolls = 0; ; idlePolls++) {
        ending.throwIfAborted();
        poller.begin();
        const page = await this.#readPage({ taskId, kinds, afterSequence: last });
        // Read after the page, so that removals before it are noticed.
        const { task, isDamaged } = await store.findTask(taskId);
        if (!isDamaged && (task?.lastSequence ?? 0) < last) throw goneError(taskId, last);
        const upToSequence = task?.removedUpTo ?? 0;
        toldUpTo ??= task && upToSequence;
        if (toldUpTo !== undefined && upToSequence > Math.max(toldUpTo, last)) {
          toldUpTo = upToSequence;
          yield { kind: "removed", taskId, sequence: last, upToSequence };
        }
        for (const record of page) {
          yield record;
          ending.throwIfAborted();
        }
        // If the page is empty, no record is left up to the last sequence known before it was read.
        last = Math.max(last, page.at(-1)?.sequence ?? before?.lastSequence ?? 0);
        if (page.length > 0) idlePolls = -1;
        else if (before?.newest && hasEnded(before.newest) && (await store.isDurable(before.newest))) return;
        // A status change may have no record.
        else if (idlePolls > 0 && describeTask(task) === describeTask(before))
          idlePolls = await this.#untilChanged(taskId, before, poller, ending, idlePolls);
        before = task;
      }
    } catch (error) {
      if (!left.aborted) throw error;
    } finally {
      poller.end();
    }
  }

  /**
   * Pauses until the task has probably changed. If no change is reported, polls only the task, which is cheaper than
   * reading a page.
   *
   * @param known - The task as it was before the last page was read. That page was empty.
   * @returns How many polls have found nothing.
   */
  async #untilChanged(
    taskId: string,
    known: StoredTask | undefined,
    poller: Poller,
    ending: AbortSignal,
    idlePolls: number,
  ): Promise<number> {
    for (let idle = idlePolls; ; idle++) {
      const isTold = await poller.pauseForChange(ending, { idlePolls: idle - 1 });
      ending.throwIfAborted();
      if (isTold || (known?.newest && hasEnded(known.newest))) return idle;
      poller.begin();
      const { task, isDamaged } = await this.#store.findTask(taskId);
      if (isDamaged || describeTask(task) !== describeTask(known)) return idle;
    }
  }

  /** Reads the next records. An empty page means that there are no more. */
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
}

/** Makes a text that differs after each change of the task's log. */
function describeTask(task: StoredTask | undefined): string {
  const { newest, lastSequence, removedUpTo } = task ?? {};
  return [newest?.id, newest?.status, lastSequence, removedUpTo].join(" ");
}

function goneError(taskId: string, last: number): CheckpointNotFoundError {
  return new CheckpointNotFoundError(
    `The log of task ${JSON.stringify(taskId)} ends before sequence ${last}: the task was removed, and perhaps begun again. ` +
      "To follow it from its beginning, call `follow` without `afterSequence`.",
    { taskId },
  );
}
