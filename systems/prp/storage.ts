import { join } from "node:path";
import type { input } from "zod";
import { type SetAside, TaskFileAdapter } from "../../adapters/files/task-file.js";
import { CheckpointManager } from "../../src/checkpoint-manager.js";
import type { CheckpointStatus, CheckpointSummary } from "../../src/contract/checkpoint.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { runLockPath } from "../run-lock.js";
import { z } from "../zod.js";
import { createCheckpointId } from "./checkpoint-id.js";
import { type CheckpointExecutionState, CheckpointExecutionStateSchema } from "./schema.js";

/**
 * A state as it is in the file: plain JSON, as the spec's own program writes it. If a state had a value that JSON lacks
 * (an `undefined`), the core would store all of it in its tagged form, which that program can't read.
 */
const StoredStateSchema = z.codec(
  z.custom<input<typeof CheckpointExecutionStateSchema>>(),
  CheckpointExecutionStateSchema,
  {
    decode: (stored) => stored,
    encode: (state): input<typeof CheckpointExecutionStateSchema> => JSON.parse(JSON.stringify(state)),
  },
);

/** The checkpoints of a session, as a manager of the core. */
export type PrpCheckpoints = CheckpointManager<CheckpointExecutionState>;

export interface PrpCheckpointsOptions {
  readonly sessionPath: string;
  /** How many checkpoints are kept per task. Default: all. */
  readonly keepLast?: number | undefined;
  readonly logger?: Logger | undefined;
}

/** The checkpoints of every task of a session, in `{sessionPath}/artifacts/{taskId}/checkpoints.json`. */
export class SessionCheckpoints {
  readonly checkpoints: PrpCheckpoints;
  readonly #storage: TaskFileAdapter;
  readonly #sessionPath: string;
  readonly #keepLast: number | undefined;
  readonly #logger: Logger;

  constructor({ sessionPath, keepLast, logger }: PrpCheckpointsOptions) {
    this.#storage = new TaskFileAdapter({
      path: join(sessionPath, "artifacts"),
      // The spec's own program writes no stage and no status beside the state, so both are taken from the state.
      adopt: ({ state }) => {
        const { success, data } = CheckpointExecutionStateSchema.shape.stage.safeParse(stageIn(state));
        return success ? { stage: data, status: toStatus(data) } : {};
      },
    });
    this.checkpoints = new CheckpointManager({
      storage: this.#storage,
      schema: StoredStateSchema,
      createId: createCheckpointId,
      logger,
    });
    this.#sessionPath = sessionPath;
    this.#keepLast = keepLast;
    this.#logger = safeLogger(logger ?? warningLogger);
  }

  /**
   * Saves a state as the task's newest checkpoint. Then removes the checkpoint that it replaces, and those beyond
   * `keepLast`.
   */
  async append(
    taskId: string,
    label: string,
    state: CheckpointExecutionState,
    { error, status, expectedSequence, replaces, isTransient = false }: AppendOptions = {},
  ): Promise<CheckpointSummary> {
    const { stage } = state;
    const options = { stage, label, status: status ?? toStatus(stage), error, expectedSequence };
    const saved = await this.checkpoints.save(taskId, state, options);
    try {
      // Removes the replaced checkpoint first. Otherwise it would count in `keepLast` and push out another one.
      if (replaces !== undefined) await this.checkpoints.remove(taskId, replaces);
      const keepLast = isTransient ? undefined : this.#keepLast;
      if (keepLast !== undefined) await this.checkpoints.retention.prune(taskId, { keepLast });
    } catch (cause) {
      const what = `Old checkpoints of task ${JSON.stringify(taskId)} can't be removed; the new one is stored`;
      this.#logger.error({ taskId, error: cause }, what);
    }
    return saved;
  }

  /** Returns the path of a task's lock. */
  lockPath(taskId: string): string {
    return runLockPath(this.#sessionPath, taskId);
  }

  /** If the task's file is so damaged that it can't be written, renames it. */
  async setAside(taskId: string): Promise<SetAside | undefined> {
    return this.#storage.setAside(taskId);
  }

  /** Waits for calls in progress. Idempotent. */
  async close(): Promise<void> {
    await this.checkpoints.close();
  }
}

/** Returns the core's status for a checkpoint's stage. */
export function toStatus(stage: CheckpointExecutionState["stage"]): CheckpointStatus {
  if (stage === "complete") return "completed";
  return stage === "failed" ? "failed" : "running";
}

export interface AppendOptions {
  readonly error?: unknown;
  /** Default: the status of the stage. */
  readonly status?: CheckpointStatus | undefined;
  readonly expectedSequence?: number | undefined;
  /** The checkpoint that this one replaces. */
  readonly replaces?: string | undefined;
  /** This checkpoint will be replaced itself, so it pushes out no other. */
  readonly isTransient?: boolean;
}

function stageIn(state: unknown): unknown {
  return typeof state === "object" && state !== null && "stage" in state ? state.stage : undefined;
}
