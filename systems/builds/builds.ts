import { resolve } from "node:path";
import { types } from "node:util";
import { DatabaseFile } from "../../adapters/sqlite/database-file.js";
import { explain, isReadOnly } from "../../adapters/sqlite/errors.js";
import { DEFAULT_BUSY_TIMEOUT_MS } from "../../adapters/sqlite/opening.js";
import { checkId, checkInteger } from "../../src/contract/arguments.js";
import { isPromiseLike } from "../../src/contract/built-ins.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError, ClosedError } from "../../src/contract/errors.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import type { RetentionPolicy } from "../../src/manager/retention-plan.js";
import { decodeWithSchema } from "../../src/manager/schema.js";
import { AutoSaves } from "./auto-save.js";
import type {
  BuildProgress,
  BuildState,
  Checkpoint,
  NewCheckpoint,
  SavedBuild,
  SavedCheckpoint,
} from "./checkpoint.js";
import { type BuildCheckpointsOptions, checkOptions } from "./options.js";
import type { BuildStore, SaveOutcome } from "./store.js";
import {
  type BuildDraft,
  checkBuildId,
  type Encoding,
  keysWithoutColumn,
  toBuildDraft,
  toStateDraft,
} from "./stored-form.js";
import { BUILD_FORMAT } from "./tables.js";

const DEFAULT_INTERVAL_MS = 30_000;
const DEFAULT_RETENTION: RetentionPolicy = { keepLast: 50 };
const DEFAULT_MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;

/** The result of a search if the database doesn't exist. */
const NOTHING = { item: undefined, damage: [] };

/** The builds of one database. Checks arguments, calls the store, and logs warnings and errors. */
export class Builds {
  readonly #path: string;
  readonly #file: DatabaseFile<BuildStore>;
  readonly #busyTimeoutMs: number;
  readonly #retention: RetentionPolicy;
  readonly #encoding: Encoding;
  readonly #logger: Logger;
  readonly #onCorrupt: BuildCheckpointsOptions["onCorrupt"];
  readonly #autoSaves = new AutoSaves();
  readonly #unstored = new Set<string>();
  #isClosed = false;

  constructor(options: BuildCheckpointsOptions) {
    checkOptions(options);
    const { busyTimeoutMs = DEFAULT_BUSY_TIMEOUT_MS, retention = DEFAULT_RETENTION } = options;
    this.#path = resolve(options.path);
    this.#file = new DatabaseFile({
      ...BUILD_FORMAT,
      path: this.#path,
      syncs: "by-commit",
      lockWaitMs: busyTimeoutMs,
      driver: options.driver,
    });
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#retention = structuredClone(retention);
    this.#encoding = {
      taskSchema: options.taskSchema,
      maxPayloadBytes: options.maxPayloadBytes ?? DEFAULT_MAX_PAYLOAD_BYTES,
    };
    this.#logger = safeLogger(options.logger ?? warningLogger);
    this.#onCorrupt = options.onCorrupt;
  }

  save(checkpoint: NewCheckpoint): SavedCheckpoint {
    this.#assertOpen();
    if (typeof checkpoint !== "object" || checkpoint === null) {
      throw new TypeError("saveCheckpoint takes a checkpoint, or a build's id and its progress.");
    }
    const { id, buildId } = checkpoint;
    checkId("A checkpoint's id", id);
    checkBuildId(buildId);
    const draft = toBuildDraft(buildId, id, checkpoint, this.#encoding);
    this.#warnOfUnstored(checkpoint);
    return this.#saved(
      draft,
      this.#write((store) => store.save(draft, this.#retention)),
    );
  }

  saveProgress(buildId: string, progress: BuildProgress): SavedCheckpoint {
    this.#assertOpen();
    checkBuildId(buildId);
    const draft = toBuildDraft(buildId, undefined, progress, this.#encoding);
    this.#warnOfUnstored(progress);
    return this.#saved(
      draft,
      this.#write((store) => store.save(draft, this.#retention)),
    );
  }

  latest(buildId: string): Checkpoint | null {
    this.#assertOpen();
    checkBuildId(buildId);
    const { item: found, damage } = this.#read((store) => store.latest(buildId)) ?? NOTHING;
    this.#report(damage);
    if (found === undefined && damage.length > 0) throw this.#nothingIntact(buildId, damage);
    if (found === undefined) return null;
    return {
      ...found,
      tasks: this.#decoded(found.tasks, `Checkpoint ${found.id} of build ${JSON.stringify(buildId)}`),
    };
  }

  startAutoSave(
    buildId: string,
    getState: () => BuildProgress | undefined,
    intervalMs = DEFAULT_INTERVAL_MS,
  ): () => void {
    this.#assertOpen();
    checkBuildId(buildId);
    if (typeof getState !== "function") throw new TypeError("startAutoSave needs a function that returns the state.");
    if (types.isAsyncFunction(getState)) {
      throw new TypeError("startAutoSave needs a function that returns the state itself: this one is async.");
    }
    return this.#autoSaves.start(() => this.#autoSave(buildId, getState), intervalMs);
  }

  cleanup(buildId: string, keepLast?: number): number {
    this.#assertOpen();
    checkBuildId(buildId);
    const policy = this.#policy(keepLast);
    return this.#change((store) => store.prune(buildId, policy)) ?? 0;
  }

  cleanupAll(keepLast?: number): number {
    this.#assertOpen();
    const policy = this.#policy(keepLast);
    let removed = 0;
    const failures: unknown[] = [];
    for (const buildId of this.#read((store) => store.buildIds()) ?? []) {
      try {
        removed += this.#change((store) => store.prune(buildId, policy)) ?? 0;
      } catch (error) {
        // A damaged build must not stop the clean-up of the others.
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
    return removed;
  }

  removeBuild(buildId: string): boolean {
    this.#assertOpen();
    checkBuildId(buildId);
    return this.#change((store) => store.removeBuild(buildId)) ?? false;
  }

  saveState(state: BuildState): void {
    this.#assertOpen();
    const draft = toStateDraft(state, this.#encoding);
    this.#write((store) => store.saveState(draft));
  }

  state(buildId: string): BuildState | null {
    this.#assertOpen();
    checkBuildId(buildId);
    const found = this.#read((store) => store.state(buildId));
    if (found === undefined) return null;
    return { ...found, tasks: this.#decoded(found.tasks, `The state of build ${JSON.stringify(buildId)}`) };
  }

  savedBuilds(): SavedBuild[] {
    this.#assertOpen();
    const { item = [], damage } = this.#read((store) => store.savedBuilds()) ?? NOTHING;
    this.#report(damage);
    return item;
  }

  close(): void {
    this.#isClosed = true;
    this.#autoSaves.stopAll();
    void this.#file.close();
  }

  #autoSave(buildId: string, getState: () => BuildProgress | undefined): void {
    try {
      const progress = getState();
      if (progress === undefined) return;
      const draft = toBuildDraft(buildId, undefined, progress, this.#encoding);
      this.#warnOfUnstored(progress);
      const outcome = this.#write((store) => store.saveIfChanged(draft, this.#retention));
      if (outcome !== undefined) this.#saved(draft, outcome);
    } catch (error) {
      this.#logger.error({ buildId, error }, `Auto-save of build ${JSON.stringify(buildId)} failed; it is tried again`);
    }
  }

  /**
   * Warns once per key that it isn't stored. Programs often pass their whole task list, so more warnings would be
   * noise.
   */
  #warnOfUnstored(progress: object): void {
    const keys = keysWithoutColumn(progress).filter((key) => !this.#unstored.has(key));
    if (keys.length === 0) return;
    for (const key of keys) this.#unstored.add(key);
    this.#logger.warn({ keys }, `Checkpoint fields without a column aren't stored: ${keys.join(", ")}`);
  }

  /** Returns the stored checkpoint. Logs an error if old checkpoints could not be removed. */
  #saved({ buildId }: BuildDraft, { saved, retentionError }: SaveOutcome): SavedCheckpoint {
    if (retentionError !== undefined) {
      this.#logger.error(
        { buildId, error: retentionError },
        `Old checkpoints of build ${JSON.stringify(buildId)} could not be removed; checkpoint ${saved.id} is stored`,
      );
    }
    return saved;
  }

  #report(damage: readonly CorruptRecord[]): void {
    for (const record of damage) {
      const { location, reason, cause } = record;
      if (this.#onCorrupt === undefined) {
        this.#logger.warn({ record, error: cause }, `${location} was skipped and left untouched: ${reason}`);
      } else {
        this.#tell(this.#onCorrupt, record);
      }
    }
  }

  #tell(listener: (record: CorruptRecord) => unknown, record: CorruptRecord): void {
    const failed = (error: unknown) => this.#logger.error({ error, record }, "onCorrupt threw");
    try {
      // If the listener is async, nothing else handles a rejection of its promise.
      const returned = listener(record);
      if (isPromiseLike(returned)) returned.then(undefined, failed);
    } catch (error) {
      failed(error);
    }
  }

  #nothingIntact(buildId: string, damage: readonly CorruptRecord[]): CheckpointCorruptError {
    return new CheckpointCorruptError(
      `Build ${JSON.stringify(buildId)} has checkpoints in ${this.#path}, and none of the ${damage.length} can be read: ` +
        `${damage[0]?.reason} (${damage[0]?.location}). They were left untouched. Restore a backup, or start the build over.`,
      { cause: damage[0]?.cause },
    );
  }

  #decoded(tasks: readonly unknown[], what: string): unknown[] {
    const { taskSchema } = this.#encoding;
    if (taskSchema === undefined) return [...tasks];
    return tasks.map((task, i) =>
      decodeWithSchema(taskSchema, task, `${what} can't be loaded, tasks[${i}] is invalid`),
    );
  }

  #policy(keepLast: number | undefined): RetentionPolicy {
    checkInteger("keepLast", keepLast, 1);
    return keepLast === undefined ? this.#retention : { keepLast };
  }

  /** Returns the result of `work`, or `undefined` if there is no database. */
  #read<Result>(work: (store: BuildStore) => Result): Result | undefined {
    return this.#call(() => this.#ifPresent(work));
  }

  #change<Result>(work: (store: BuildStore) => Result): Result | undefined {
    return this.#call(() => this.#file.change((store) => store && work(store)));
  }

  #write<Result>(work: (store: BuildStore) => Result): Result {
    return this.#call(() => this.#file.change((store) => work(store ?? this.#file.orNew())));
  }

  #ifPresent<Result>(work: (store: BuildStore) => Result): Result | undefined {
    const store = this.#file.existing();
    return store && work(store);
  }

  #call<Result>(work: () => Result): Result {
    // Checked again: a getter in the caller's state may have closed the database.
    this.#assertOpen();
    try {
      return work();
    } catch (error) {
      // If the connection has become read-only, it is closed, and the next call opens the database again.
      if (isReadOnly(error)) void this.#file.close();
      throw explain(error, this.#path, this.#busyTimeoutMs);
    }
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new ClosedError("The store of build checkpoints");
  }
}
