import { join, resolve } from "node:path";
import type { SetAside } from "../../adapters/files/set-aside.js";
import { CHECKPOINT_STATUSES, type Checkpoint, type CheckpointSummary } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { type Logger, warningLogger } from "../../src/manager/logger.js";
import { CheckpointManager } from "../../src/manager/manager.js";
import { FeatureFileAdapter } from "./feature-file-adapter.js";
import { type OneshotCheckpoint, OneshotCheckpointSchema } from "./schema.js";

/** What is corrupt is thrown here, so it needn't be told twice; that others can write the folder is told. */
const LOGGER: Logger = {
  ...warningLogger,
  warn(details, message) {
    if (!("corrupt" in details)) warningLogger.warn(details, message);
  },
  error() {},
};

/** Who saves without regard to what is there, and who only on top of what it has read. */
export interface SaveCondition {
  readonly expectedSequence?: number | undefined;
}

/** The features' checkpoints below a base folder, as the core keeps them. */
export class FeatureCheckpoints {
  /** `<base>/.sdp/checkpoints`, absolute. */
  readonly folder: string;
  readonly #storage: FeatureFileAdapter;
  readonly #manager: CheckpointManager<typeof OneshotCheckpointSchema>;

  constructor(baseDir: string, options: { readonly clock?: (() => number) | undefined } = {}) {
    this.folder = join(resolve(baseDir), ".sdp", "checkpoints");
    this.#storage = new FeatureFileAdapter({ path: this.folder });
    this.#manager = new CheckpointManager({
      storage: this.#storage,
      schema: OneshotCheckpointSchema,
      clock: options.clock,
      logger: LOGGER,
    });
  }

  /** @throws {CheckpointCorruptError} It can't be read; the message names the file. */
  async find(featureId: string): Promise<Checkpoint<OneshotCheckpoint> | undefined> {
    let reason = "";
    const forget = this.#manager.on("corrupt", (record) => {
      if (record.taskId === featureId) reason = record.reason;
    });
    try {
      return await this.#manager.latest(featureId);
    } catch (cause) {
      if (!(cause instanceof CheckpointCorruptError)) throw cause;
      throw new CheckpointCorruptError(
        `The checkpoint of feature ${JSON.stringify(featureId)} can't be read: ${this.#storage.pathOf(featureId)}: ` +
          `${reason}. It was left untouched. Mend it (if you edited it, take its waymark.record away), or restart, which sets it aside.`,
        { cause },
      );
    } finally {
      forget();
    }
  }

  async save(checkpoint: OneshotCheckpoint, condition: SaveCondition = {}): Promise<CheckpointSummary> {
    // Of a status that is none, the schema has more to say than the core.
    const status = CHECKPOINT_STATUSES.find((known) => known === checkpoint.status);
    return this.#manager.save(checkpoint.featureId, checkpoint, { status, ...condition });
  }

  /** Renames the file, if it can't be read. */
  async setAside(featureId: string): Promise<SetAside | undefined> {
    return this.#storage.setAside(featureId);
  }

  /** Removes the file, be it damaged or not, with all that locks have left behind of it. */
  async remove(featureId: string, condition: SaveCondition = {}): Promise<void> {
    await this.#storage.remove(featureId, "all", condition);
  }

  async has(featureId: string): Promise<boolean> {
    return this.#manager.has(featureId);
  }

  async features(): Promise<string[]> {
    return this.#storage.features();
  }
}
