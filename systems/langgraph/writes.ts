import type { CheckpointManager } from "../../src/checkpoint-manager.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { isRecord, type TaskLog } from "../../src/contract/log.js";
import type { MarkedWritesRecord } from "./records.js";

/** A part of a task's log that has all writes on top of a checkpoint. */
export interface WritesRange {
  readonly afterSequence: number;
  readonly beforeSequence?: number | undefined;
}

/**
 * Reads the writes on top of a checkpoint, in the order in which they were stored. Damaged ones are left out; the
 * manager reports them.
 */
export async function readWrites(
  manager: Pick<CheckpointManager, "records">,
  taskId: string,
  id: string,
  range: WritesRange,
): Promise<MarkedWritesRecord[]> {
  const writes: MarkedWritesRecord[] = [];
  try {
    for await (const record of manager.records(taskId, { ...range, name: id, kinds: ["step"] })) {
      // Only `putWrites` stores records under a checkpoint's id, and the seal has been checked.
      if ("value" in record) writes.push(record.value as MarkedWritesRecord);
    }
  } catch (error) {
    // Nothing of the task is intact.
    if (!(error instanceof CheckpointCorruptError)) throw error;
  }
  return writes;
}

const FIRST_PAGE = 16;

/**
 * Finds the writes of many checkpoints of a task, newest first. It reads each header of the log once, from the end, as
 * far as needed.
 */
export class WritesIndex {
  readonly #log: TaskLog;
  readonly #taskId: string;
  readonly #ranges = new Map<string, Required<WritesRange>>();
  /** Everything from here on was read; `undefined` if nothing was. */
  #reached: number | undefined;
  #pageSize = FIRST_PAGE;
  #isDamaged = false;

  constructor(log: TaskLog, taskId: string) {
    this.#log = log;
    this.#taskId = taskId;
  }

  /**
   * @param afterSequence - Where the checkpoint's writes begin.
   * @returns `undefined` if the checkpoint has no writes.
   */
  async find(id: string, afterSequence: number): Promise<WritesRange | undefined> {
    while (this.#reached === undefined || this.#reached > afterSequence + 1) await this.#readPage();
    // A damaged header may be that of any checkpoint's writes.
    return this.#isDamaged ? { afterSequence } : this.#ranges.get(id);
  }

  async #readPage(): Promise<void> {
    const limit = this.#pageSize;
    const query = { taskId: this.#taskId, order: "newest", kinds: ["step"], headersOnly: true } as const;
    let count = 0;
    for await (const item of this.#log.read({ ...query, limit, beforeSequence: this.#reached })) {
      if (isCorrupt(item)) this.#isDamaged = true;
      if (isCorrupt(item) || !isRecord(item)) continue;
      const { name = "", sequence } = item;
      const beforeSequence = this.#ranges.get(name)?.beforeSequence ?? sequence + 1;
      this.#ranges.set(name, { afterSequence: sequence - 1, beforeSequence });
      this.#reached = sequence;
      count += 1;
    }
    if (count < limit) this.#reached = 0;
    this.#pageSize *= 2;
  }
}
