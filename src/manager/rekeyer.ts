import { setImmediate as nextTurn } from "node:timers/promises";
import { type MadePayload, openToRenew } from "../codec/payload.js";
import { type CorruptRecord, checkKeys, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { type Payload, type StoredCheckpoint, seal } from "../contract/checkpoint.js";
import {
  CheckpointCorruptError,
  CheckpointError,
  KeyUnavailableError,
  PayloadTooLargeError,
  UnsupportedOperationError,
} from "../contract/errors.js";
import { checkFunction, checkSignal, checkText } from "./arguments.js";
import type { ResolvedOptions } from "./options.js";
import { corruptRecord } from "./reader.js";
import type { StateSchema } from "./schema.js";

/** The options of `rekey`. */
export interface RekeyOptions {
  /** Only tasks whose id begins with this. */
  readonly prefix?: string | undefined;
  /** Stops it after the checkpoint under way. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each checkpoint, and before the first. */
  readonly onProgress?: ((progress: RekeyProgress) => void) | undefined;
}

/** How far a rekey has come. */
export interface RekeyProgress {
  /** How many checkpoints there are. */
  readonly total: number;
  /** How many it has looked at: rewritten, current already, damaged, refused, or removed just then. */
  readonly done: number;
  /** How many it has rewritten. */
  readonly rewritten: number;
  /** How many it hasn't looked at yet. */
  readonly left: number;
  /** How many were stored by the current key and transforms already. */
  readonly current: number;
  /** How many it had to leave as they are: no configured key opens them, or the storage doesn't write beside damage. */
  readonly refused: number;
  /** How many can't be read. They were left untouched, and told as `corrupt` events. */
  readonly damaged: number;
}

/** What a rekey has done. */
export interface RekeyResult extends RekeyProgress {
  /** Those that were refused, and why: the first 100. */
  readonly refusals: readonly RekeyRefusal[];
}

/** A checkpoint that was left as it is, intact. */
export interface RekeyRefusal {
  readonly taskId: string;
  readonly id: string;
  readonly sequence: number;
  /** A DecryptionFailedError, as a rule; a CheckpointCorruptError where something beside it is damaged. */
  readonly error: CheckpointError;
}

const MAX_REFUSALS = 100;

/** Rewrites what isn't stored as the manager would store it now. */
export class Rekeyer<Schema extends StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  readonly #onCorrupt: (record: CorruptRecord) => void;
  readonly #stopped = new AbortController();

  constructor(options: ResolvedOptions<Schema>, onCorrupt: (record: CorruptRecord) => void) {
    this.#options = options;
    this.#onCorrupt = onCorrupt;
  }

  /** Stops all that run, each after the checkpoint under way. */
  stop(): void {
    this.#stopped.abort();
  }

  async run(options: RekeyOptions): Promise<RekeyResult> {
    checkKeys("RekeyOptions", options, ["prefix", "signal", "onProgress"]);
    const { prefix, signal, onProgress } = options;
    if (prefix !== undefined) checkText("RekeyOptions.prefix", prefix);
    checkFunction("RekeyOptions.onProgress", onProgress);
    checkSignal("RekeyOptions.signal", signal);
    const { storage, transforms } = this.#options;
    if (transforms.length === 0) {
      throw new TypeError(
        "rekey needs the transforms to store by: new CheckpointManager({ transforms: [encrypt(…)], … }).",
      );
    }
    const replace = storage.replacePayload?.bind(storage);
    if (replace === undefined) {
      throw new UnsupportedOperationError(
        `The ${storage.name} adapter can't replace payloads, so nothing was rekeyed. What is saved from now on has the current key; ` +
          "to rewrite the rest, copy it to a storage that can.",
      );
    }
    const isStopped = () => signal?.aborted === true || this.#stopped.signal.aborted;
    const tally = new Tally(await countCheckpoints(storage, prefix));
    onProgress?.(tally.progress);
    for await (const task of storage.tasks({ order: "taskId", prefix })) {
      if (isStopped()) return tally.result;
      if (isCorrupt(task)) {
        this.#damaged(tally, task);
        continue;
      }
      // What is saved from here on is current already; going after it might never end.
      const beforeSequence = task.newest.sequence + 1;
      for await (const record of storage.read({ taskId: task.taskId, order: "oldest", beforeSequence })) {
        if (isStopped()) return tally.result;
        if (isCorrupt(record)) this.#damaged(tally, record);
        else await this.#rekey(record, replace, tally);
        tally.done += 1;
        onProgress?.(tally.progress);
        // Reading and replacing may both be synchronous at heart: others get their turn.
        await nextTurn();
      }
    }
    // What was removed meanwhile isn't left.
    tally.total = tally.done;
    return tally.result;
  }

  async #rekey(found: StoredCheckpoint, replace: ReplacePayload, tally: Tally): Promise<void> {
    let record = found;
    for (;;) {
      const { taskId, id, payload } = record;
      const renewed = await this.#renewed(record, tally);
      if (renewed === undefined) return;
      if (await this.#replaced(record, tally, () => replace(taskId, id, renewed, payload.sha256))) return;
      // It was removed meanwhile, or rewritten by somebody else.
      const now = await this.#options.storage.get(taskId, id);
      if (now === undefined) return;
      if (isCorrupt(now)) return this.#damaged(tally, now);
      if (now.sequence !== record.sequence) return this.#refuseHidden(record, now, tally);
      record = now;
    }
  }

  /** Where a file was put back from a backup, two checkpoints may have one id, and by it the storage finds the other. */
  async #refuseHidden(record: StoredCheckpoint, found: StoredCheckpoint, tally: Tally): Promise<void> {
    const { taskId, id, sequence } = record;
    const there = this.#options.storage.read({
      taskId,
      order: "oldest",
      afterSequence: sequence - 1,
      beforeSequence: sequence + 1,
    });
    for await (const still of there) {
      if (isCorrupt(still) || still.id !== id) continue;
      const reason =
        `Checkpoint ${id} of task ${JSON.stringify(taskId)} (@${sequence}) has the same id as @${found.sequence}, so it can't be rewritten. ` +
        "It was left untouched; keep the key that opens it, or save its state anew and remove the older one's file.";
      tally.refuse(record, new CheckpointCorruptError(reason));
    }
  }

  /** The payload as it would be stored now; `undefined` where it is so already, or can't be opened, which is tallied. */
  async #renewed(record: StoredCheckpoint, tally: Tally): Promise<Payload | undefined> {
    const { transforms } = this.#options;
    let renew: (() => Promise<MadePayload>) | undefined;
    try {
      if (seal(record) !== record.seal) throw new CheckpointCorruptError("its seal doesn't match its content");
      renew = await openToRenew(record.payload, { transforms, context: record });
    } catch (error) {
      if (error instanceof CheckpointCorruptError) this.#damaged(tally, corruptRecord(record, error.message, error));
      // A key that can't be had now is nothing that is wrong with the record.
      else if (error instanceof CheckpointError && !(error instanceof KeyUnavailableError)) tally.refuse(record, error);
      else throw error;
      return undefined;
    }
    if (renew === undefined) tally.current += 1;
    try {
      return (await renew?.())?.payload;
    } catch (error) {
      // That it can't be made anew is this one's trouble; that the current key can't be had is everybody's.
      if (!(error instanceof PayloadTooLargeError)) throw error;
      tally.refuse(record, error);
      return undefined;
    }
  }

  /** False where the payload was no longer the expected one. */
  async #replaced(record: StoredCheckpoint, tally: Tally, replace: () => Promise<boolean>): Promise<boolean> {
    try {
      const isReplaced = await replace();
      if (isReplaced) tally.rewritten += 1;
      return isReplaced;
    } catch (error) {
      if (!(error instanceof CheckpointCorruptError)) throw error;
      // It was read just now: whoever takes the old key away would lose it.
      tally.refuse(record, error);
      return true;
    }
  }

  #damaged(tally: Tally, record: CorruptRecord): void {
    // A list of tasks may tell the same damage as reading one of them does.
    if (tally.places.has(record.location)) return;
    tally.places.add(record.location);
    this.#onCorrupt(record);
  }
}

type ReplacePayload = NonNullable<StorageAdapter["replacePayload"]>;

/** What one rekey has done so far. */
class Tally {
  readonly #refusals: RekeyRefusal[] = [];
  /** Where damage was met, each place once. */
  readonly places = new Set<string>();
  total: number;
  done = 0;
  rewritten = 0;
  current = 0;
  #refused = 0;

  constructor(total: number) {
    this.total = total;
  }

  refuse({ taskId, id, sequence }: StoredCheckpoint, error: CheckpointError): void {
    this.#refused += 1;
    if (this.#refusals.length < MAX_REFUSALS) this.#refusals.push({ taskId, id, sequence, error });
  }

  get progress(): RekeyProgress {
    const { done, rewritten, current, places } = this;
    // What is saved meanwhile is met too.
    const total = Math.max(this.total, done);
    const refused = this.#refused;
    return { total, done, rewritten, current, left: total - done, refused, damaged: places.size };
  }

  get result(): RekeyResult {
    return { ...this.progress, refusals: [...this.#refusals] };
  }
}

async function countCheckpoints(storage: StorageAdapter, prefix: string | undefined): Promise<number> {
  let count = 0;
  for await (const task of storage.tasks({ order: "taskId", prefix })) if (!isCorrupt(task)) count += task.count;
  return count;
}
