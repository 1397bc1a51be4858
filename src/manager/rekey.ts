import { setImmediate as nextTurn } from "node:timers/promises";
import { type MadePayload, openToRenew } from "../codec/payload.js";
import type { Transform } from "../codec/transforms.js";
import { type CorruptRecord, isCorrupt, type StorageAdapter } from "../contract/adapter.js";
import { checkFunction, checkSignal, checkText } from "../contract/arguments.js";
import { brokenSeal, type StoredCheckpoint } from "../contract/checkpoint.js";
import {
  CheckpointCorruptError,
  CheckpointError,
  KeyUnavailableError,
  PayloadTooLargeError,
  UnsupportedOperationError,
} from "../contract/errors.js";
import { checkKeys, keysOf } from "../contract/keys.js";
import { corruptRecord } from "./reader.js";

/** The options of `rekey`. */
export interface RekeyOptions {
  /** Only tasks whose id begins with this. */
  readonly prefix?: string | undefined;
  /** Stops after the checkpoint in progress. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the first checkpoint and after each one. */
  readonly onProgress?: ((progress: Omit<RekeyResult, "refusals">) => void) | undefined;
}

/** The result of a rekey, or its progress. All numbers count checkpoints. */
export interface RekeyResult {
  readonly total: number;
  /** Visited so far. */
  readonly done: number;
  /** Rewritten with the current key and transforms. */
  readonly rewritten: number;
  /** Not visited yet. */
  readonly left: number;
  /** Already had the current key and transforms; unchanged. */
  readonly current: number;
  /** Couldn't be rewritten: no configured key decrypts them, or the storage refused. Unchanged. */
  readonly refused: number;
  /** Can't be read. Unchanged; each was reported as a `corrupt` event. */
  readonly damaged: number;
  /** The first 100 checkpoints that couldn't be rewritten, with the reasons. */
  readonly refusals: readonly {
    readonly taskId: string;
    readonly id: string;
    readonly sequence: number;
    /** Usually a DecryptionFailedError. */
    readonly error: CheckpointError;
  }[];
}

/** The parts of the manager that a rekey uses. */
export interface RekeyHost {
  readonly storage: StorageAdapter;
  readonly transforms: readonly Transform[];
  /** Aborted when the manager closes. */
  readonly closing: AbortSignal;
  readonly onCorrupt: (record: CorruptRecord) => void;
}

const MAX_REFUSALS = 100;

export async function rekeyStorage(host: RekeyHost, options: RekeyOptions): Promise<RekeyResult> {
  checkOptions(options);
  const { storage, transforms, closing } = host;
  const { prefix, signal, onProgress } = options;
  if (transforms.length === 0) {
    throw new TypeError("rekey needs transforms: new CheckpointManager({ transforms: [encrypt(…)], … }).");
  }
  if (storage.replacePayload === undefined) {
    throw new UnsupportedOperationError(
      `The ${storage.name} adapter can't replace payloads, so nothing was rekeyed. New saves use the current key; ` +
        "to rewrite old ones, copy them to a storage that can.",
    );
  }
  const rekey = new Rekey(host, storage.replacePayload.bind(storage), await countCheckpoints(storage, prefix));
  onProgress?.(rekey.progress);
  for await (const task of storage.tasks({ order: "taskId", prefix })) {
    if (signal?.aborted || closing.aborted) return rekey.result;
    if (isCorrupt(task)) {
      rekey.reportDamage(task);
      continue;
    }
    // Checkpoints saved from now on are current already. Visiting them, too, might never end.
    const beforeSequence = task.newest.sequence + 1;
    for await (const record of storage.read({ taskId: task.taskId, order: "oldest", beforeSequence })) {
      if (signal?.aborted || closing.aborted) return rekey.result;
      await rekey.look(record);
      onProgress?.(rekey.progress);
      // Reading and replacing may be synchronous inside; this lets other work run.
      await nextTurn();
    }
  }
  // Checkpoints that were removed during the rekey don't count as left.
  return { ...rekey.result, total: rekey.result.done, left: 0 };
}

type ReplacePayload = NonNullable<StorageAdapter["replacePayload"]>;
type Outcome = "rewritten" | "current" | "refused" | "damaged";

class Rekey {
  readonly #host: RekeyHost;
  readonly #replacePayload: ReplacePayload;
  readonly #refusals: RekeyResult["refusals"][number][] = [];
  /** The places of damage: a list of tasks and the task itself may report the same record. */
  readonly #damagedPlaces = new Set<string>();
  readonly #counts = { done: 0, rewritten: 0, current: 0, refused: 0, damaged: 0 };
  readonly #total: number;

  constructor(host: RekeyHost, replacePayload: ReplacePayload, total: number) {
    this.#host = host;
    this.#replacePayload = replacePayload;
    this.#total = total;
  }

  get progress(): Omit<RekeyResult, "refusals"> {
    // Saves during the rekey add to the total.
    const total = Math.max(this.#total, this.#counts.done);
    return { ...this.#counts, total, left: total - this.#counts.done };
  }

  get result(): RekeyResult {
    return { ...this.progress, refusals: [...this.#refusals] };
  }

  async look(record: StoredCheckpoint | CorruptRecord): Promise<void> {
    let now: StoredCheckpoint | CorruptRecord | undefined = record;
    // If another process rewrites the record between reading and replacing, try it again.
    while (now !== undefined && !isCorrupt(now) && now.sequence === record.sequence) {
      const outcome = await this.#rewrite(now);
      if (outcome !== undefined && outcome !== "damaged") this.#counts[outcome] += 1;
      if (outcome !== undefined) break;
      now = await this.#host.storage.get(now.taskId, now.id);
    }
    if (now !== undefined && isCorrupt(now)) this.reportDamage(now);
    this.#counts.done += 1;
  }

  reportDamage(record: CorruptRecord): void {
    if (this.#damagedPlaces.has(record.location)) return;
    this.#damagedPlaces.add(record.location);
    this.#counts.damaged += 1;
    this.#host.onCorrupt(record);
  }

  /** Rewrites the record if needed. `undefined` if it no longer has the payload that was read. */
  async #rewrite(record: StoredCheckpoint): Promise<Outcome | undefined> {
    let renew: (() => Promise<MadePayload>) | undefined;
    try {
      const broken = brokenSeal(record);
      if (broken !== undefined) throw new CheckpointCorruptError(broken);
      renew = await openToRenew(record.payload, { transforms: this.#host.transforms, context: record });
    } catch (error) {
      if (error instanceof CheckpointCorruptError) {
        this.reportDamage(corruptRecord(record, error.reason, error));
        return "damaged";
      }
      // A key that can't be fetched isn't the record's fault: stop the rekey.
      if (error instanceof CheckpointError && !(error instanceof KeyUnavailableError))
        return this.#refuse(record, error);
      throw error;
    }
    if (renew === undefined) return "current";
    try {
      const { payload } = await renew();
      const isReplaced = await this.#replacePayload(record.taskId, record.id, payload, record.payload.sha256);
      return isReplaced ? "rewritten" : undefined;
    } catch (error) {
      // These errors concern this record alone. Any other, such as a missing current key, concerns all.
      if (error instanceof PayloadTooLargeError || error instanceof CheckpointCorruptError)
        return this.#refuse(record, error);
      throw error;
    }
  }

  #refuse({ taskId, id, sequence }: StoredCheckpoint, error: CheckpointError): "refused" {
    if (this.#refusals.length < MAX_REFUSALS) this.#refusals.push({ taskId, id, sequence, error });
    return "refused";
  }
}

async function countCheckpoints(storage: StorageAdapter, prefix: string | undefined): Promise<number> {
  let count = 0;
  for await (const task of storage.tasks({ order: "taskId", prefix })) if (!isCorrupt(task)) count += task.count;
  return count;
}

function checkOptions(options: RekeyOptions): void {
  checkKeys("RekeyOptions", options, keysOf<RekeyOptions>({ prefix: true, signal: true, onProgress: true }));
  if (options.prefix !== undefined) checkText("RekeyOptions.prefix", options.prefix);
  checkFunction("RekeyOptions.onProgress", options.onProgress);
  checkSignal("RekeyOptions.signal", options.signal);
}
