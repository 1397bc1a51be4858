import { checkFunction, checkKeys, checkText, listKeys, MAX_TASK_ID_LENGTH } from "../../src/contract/arguments.js";
import { CheckpointNotFoundError } from "../../src/contract/errors.js";
import { isBeingRun, runLockPath } from "../run-lock.js";
import type { OneshotCheckpoint } from "./schema.js";
import { assertFresh, checkMaxAge, DEFAULT_MAX_AGE_MS } from "./staleness.js";
import { FeatureCheckpoints } from "./storage.js";

export interface CheckpointRepositoryOptions {
  /** The folder of the checkpoints. Set it if other programs use the default, `<baseDir>/.sdp/checkpoints`. */
  readonly checkpointDir?: string | undefined;
  /**
   * The maximum age of a checkpoint, in milliseconds since its last update. An older checkpoint is stale. With
   * `Infinity`, none is. Default 7 days.
   */
  readonly maxAgeMs?: number | undefined;
  /** Returns milliseconds since 1970. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
}

export interface LoadOptions {
  /** Default: the `maxAgeMs` of the repository. */
  readonly maxAgeMs?: number | undefined;
  /** Accepts a stale checkpoint. Default false. */
  readonly force?: boolean | undefined;
}

/**
 * Stores the checkpoints of features, one file each: `<baseDir>/.sdp/checkpoints/<feature>.json`, in the schema of the
 * oneshot spec. Every save is atomic and survives a killed process and a power cut. Any number of processes may use one
 * folder. The repository and the spec's own program read each other's files.
 *
 * @example
 * ```ts
 * import { CheckpointRepository } from "waymark/oneshot";
 *
 * const repository = new CheckpointRepository(".");
 * await repository.save({
 *   featureId: "F01",
 *   agentId: "agent-1",
 *   status: "running",
 *   completedWs: ["00-001-01"],
 *   currentWs: "00-001-02",
 *   startTime: new Date(),
 *   lastUpdate: new Date(),
 * });
 * const { completedWs } = await repository.load("F01");
 * await repository.delete("F01");
 * ```
 */
export class CheckpointRepository {
  /** The absolute path. */
  readonly checkpointDir: string;
  readonly #checkpoints: FeatureCheckpoints;
  readonly #maxAgeMs: number;
  readonly #clock: () => number;

  /**
   * @param baseDir - The project's folder. The first save creates missing folders in it. Default: the current folder.
   * @throws {TypeError | RangeError} An option is misspelled or out of range; the message names it.
   */
  constructor(baseDir = ".", options: CheckpointRepositoryOptions = {}) {
    checkText("baseDir", baseDir, 1);
    const keys = listKeys<CheckpointRepositoryOptions>({ checkpointDir: true, maxAgeMs: true, clock: true });
    checkKeys("CheckpointRepositoryOptions", options, keys);
    if (options.checkpointDir !== undefined)
      checkText("CheckpointRepositoryOptions.checkpointDir", options.checkpointDir, 1);
    checkMaxAge("CheckpointRepositoryOptions.maxAgeMs", options.maxAgeMs);
    checkFunction("CheckpointRepositoryOptions.clock", options.clock);
    this.#maxAgeMs = options.maxAgeMs ?? DEFAULT_MAX_AGE_MS;
    this.#clock = options.clock ?? Date.now;
    this.#checkpoints = new FeatureCheckpoints(baseDir, options.checkpointDir);
    this.checkpointDir = this.#checkpoints.folder;
  }

  /**
   * Saves the feature's checkpoint and replaces the one before. The caller sets its times. Resolves once the checkpoint
   * is on disk. If several saves run at once, the last one wins as a whole.
   *
   * @throws {StateInvalidError} The checkpoint doesn't fit the schema; nothing was saved.
   * @throws {CheckpointCorruptError} The existing file can't be read; it was left untouched. `delete` it first.
   * @throws {UnsupportedFormatError} Another program wrote the existing file; it was left untouched. Use another
   *   `checkpointDir`.
   * @throws {StorageError} The disk failed; earlier checkpoints are intact.
   */
  async save(checkpoint: OneshotCheckpoint): Promise<void> {
    if (typeof checkpoint !== "object" || checkpoint === null) throw new TypeError("A checkpoint must be an object.");
    if ("feature_id" in checkpoint) {
      throw new TypeError("A checkpoint's fields are in camel case, such as featureId; only its file has feature_id.");
    }
    checkFeatureId("A checkpoint's featureId", checkpoint.featureId);
    await this.#checkpoints.save(checkpoint);
  }

  /**
   * Returns the feature's checkpoint.
   *
   * @throws {CheckpointNotFoundError} There is no checkpoint.
   * @throws {CheckpointStaleError} Without `force`: the last update is longer ago (or further ahead) than `maxAgeMs`.
   * @throws {CheckpointCorruptError} The file can't be read; the message names it, and it was left untouched.
   * @throws {UnsupportedFormatError} The file is no checkpoint, and nothing shows that Waymark wrote it.
   */
  async load(featureId: string, options: LoadOptions = {}): Promise<OneshotCheckpoint> {
    checkFeatureId("A featureId", featureId);
    checkKeys("LoadOptions", options, listKeys<LoadOptions>({ maxAgeMs: true, force: true }));
    const { maxAgeMs = this.#maxAgeMs, force = false } = options;
    checkMaxAge("LoadOptions.maxAgeMs", maxAgeMs);
    const found = await this.#checkpoints.find(featureId);
    if (found === undefined) {
      throw new CheckpointNotFoundError(
        `Feature ${JSON.stringify(featureId)} has no checkpoint in ${this.checkpointDir}: it was never started, or was ` +
          "completed. list() shows the features that have one.",
        { taskId: featureId },
      );
    }
    if (!force) assertFresh(found.state, maxAgeMs, this.#clock());
    return found.state;
  }

  /**
   * Removes the feature's checkpoint, damaged or not. If there is none, does nothing.
   *
   * @throws {UnsupportedFormatError} Another program wrote the file with that name; it was left untouched.
   */
  async delete(featureId: string): Promise<void> {
    checkFeatureId("A featureId", featureId);
    await this.#checkpoints.remove(featureId);
  }

  /**
   * Returns the features that have a file, by id. If a file is damaged or another program's, only `load` reports it.
   */
  async list(): Promise<string[]> {
    return this.#checkpoints.features();
  }

  /** Whether the feature has a file. If the file is damaged or another program's, only `load` reports it. */
  async exists(featureId: string): Promise<boolean> {
    checkFeatureId("A featureId", featureId);
    return this.#checkpoints.has(featureId);
  }

  /** Whether `runOneshot` is running the feature, on this machine. */
  isBeingRun(featureId: string): boolean {
    checkFeatureId("A featureId", featureId);
    return isBeingRun(runLockPath(this.#checkpoints.lockFolder, featureId));
  }
}

function checkFeatureId(what: string, featureId: string): void {
  checkText(what, featureId, 1, MAX_TASK_ID_LENGTH);
}
