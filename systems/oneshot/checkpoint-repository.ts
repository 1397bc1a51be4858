import { checkFunction, checkText, MAX_TASK_ID_LENGTH } from "../../src/contract/arguments.js";
import { CheckpointNotFoundError } from "../../src/contract/errors.js";
import { checkKeys } from "../../src/contract/keys.js";
import { isBeingRun, runLockPath } from "../run-lock.js";
import type { OneshotCheckpoint } from "./schema.js";
import { assertFresh, checkMaxAge, DEFAULT_MAX_AGE_MS } from "./staleness.js";
import { FeatureCheckpoints } from "./storage.js";

export interface CheckpointRepositoryOptions {
  /** Where the checkpoints are, if other programs use `<baseDir>/.sdp/checkpoints`, the default. */
  readonly checkpointDir?: string | undefined;
  /** The age from which on a checkpoint is stale, in milliseconds since its last update; `Infinity` for never. Default 7 days. */
  readonly maxAgeMs?: number | undefined;
  /** Milliseconds since 1970. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
}

export interface LoadOptions {
  /** Default: the repository's. */
  readonly maxAgeMs?: number | undefined;
  /** Accepts a stale checkpoint. Default false. */
  readonly force?: boolean | undefined;
}

/**
 * The checkpoints of features, one file each: `<baseDir>/.sdp/checkpoints/<feature>.json`, in the schema of the oneshot
 * spec. Every save is atomic and survives a killed process and a power cut; any number of processes may use one folder.
 * It reads the files of the spec's own program, and that program reads its files.
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
  /** Absolute. */
  readonly checkpointDir: string;
  readonly #checkpoints: FeatureCheckpoints;
  readonly #maxAgeMs: number;
  readonly #clock: () => number;

  /**
   * @param baseDir - The project's folder. The first save makes what is missing in it. Default: the current folder.
   * @throws {TypeError | RangeError} An option is misspelled or out of range; the message names it.
   */
  constructor(baseDir = ".", options: CheckpointRepositoryOptions = {}) {
    checkText("baseDir", baseDir, 1);
    checkKeys("CheckpointRepositoryOptions", options, ["checkpointDir", "maxAgeMs", "clock"]);
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
   * Saves the feature's checkpoint in place of the one before. The caller sets its times. Resolves once it is on disk. Of
   * several saves at once, the last one wins as a whole.
   *
   * @throws {StateInvalidError} It doesn't fit the schema; nothing was saved.
   * @throws {CheckpointCorruptError} The file that is there can't be read; it was left untouched. `delete` it first.
   * @throws {UnsupportedFormatError} Another program wrote the file that is there; it was left untouched. Use another
   *   `checkpointDir`.
   * @throws {StorageError} The disk failed; earlier checkpoints are intact.
   */
  async save(checkpoint: OneshotCheckpoint): Promise<void> {
    if (typeof checkpoint !== "object" || checkpoint === null) throw new TypeError("A checkpoint must be an object.");
    if ("feature_id" in checkpoint) {
      throw new TypeError(
        "A checkpoint has featureId, and only its file has feature_id. The other fields follow the same rule.",
      );
    }
    checkFeatureId("A checkpoint's featureId", checkpoint.featureId);
    await this.#checkpoints.save(checkpoint);
  }

  /**
   * The feature's checkpoint.
   *
   * @throws {CheckpointNotFoundError} There is none.
   * @throws {CheckpointStaleError} Its last update is longer ago (or further ahead) than `maxAgeMs`, without `force`.
   * @throws {CheckpointCorruptError} The file can't be read; the message names it, and it was left untouched.
   * @throws {UnsupportedFormatError} Another program wrote it: it is JSON without `feature_id`.
   */
  async load(featureId: string, options: LoadOptions = {}): Promise<OneshotCheckpoint> {
    checkFeatureId("A featureId", featureId);
    checkKeys("LoadOptions", options, ["maxAgeMs", "force"]);
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
   * Removes the feature's checkpoint, damaged or not. If there is none, that is no error.
   *
   * @throws {UnsupportedFormatError} Another program wrote the file of that name; it was left untouched.
   */
  async delete(featureId: string): Promise<void> {
    checkFeatureId("A featureId", featureId);
    await this.#checkpoints.remove(featureId);
  }

  /** The features that have a file, by id. It may be damaged, or another program's: `load` says so. */
  async list(): Promise<string[]> {
    return this.#checkpoints.features();
  }

  /** Whether the feature has a file. It may be damaged, or another program's: `load` says so. */
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
