import { join } from "node:path";
import { z } from "zod";
import { type SetAside, TaskFileAdapter } from "../../adapters/files/task-file.js";
import type { CheckpointStatus, CheckpointSummary } from "../../src/contract/checkpoint.js";
import { type Logger, safeLogger, warningLogger } from "../../src/manager/logger.js";
import { CheckpointManager } from "../../src/manager/manager.js";
import { createCheckpointId } from "./checkpoint-id.js";
import { type CheckpointExecutionState, CheckpointExecutionStateSchema } from "./schema.js";

/**
 * A state as the file has it: plain JSON, as the spec's own program writes it, to any depth. What JSON has no word for
 * (an `undefined`, a -0) would make the core store the whole state in its tagged form, which that program can't read.
 */
const StoredStateSchema = z.codec(
  z.custom<z.input<typeof CheckpointExecutionStateSchema>>(),
  CheckpointExecutionStateSchema,
  {
    decode: (stored) => stored,
    encode: (state): z.input<typeof CheckpointExecutionStateSchema> => JSON.parse(JSON.stringify(state)),
  },
);

/** A session's checkpoints, as the core keeps them. */
export type PrpCheckpoints = CheckpointManager<typeof StoredStateSchema>;

export interface PrpCheckpointsOptions {
  readonly sessionPath: string;
  /** Keep only so many per task. Without it, all are kept. */
  readonly keepLast?: number | undefined;
  readonly logger?: Logger | undefined;
}

/** The checkpoints in `{sessionPath}/artifacts/{taskId}/checkpoints.json`, of every task. */
export class SessionCheckpoints {
  readonly checkpoints: PrpCheckpoints;
  readonly #storage: TaskFileAdapter;
  /** The same, without retention after each save. */
  readonly #unpruned: PrpCheckpoints;
  readonly #keepLast: number | undefined;
  readonly #logger: Logger;

  constructor({ sessionPath, keepLast, logger }: PrpCheckpointsOptions) {
    const storage = new TaskFileAdapter({
      path: join(sessionPath, "artifacts"),
      // The spec's own program writes no stage and no status beside the state.
      adopt: ({ state }) => {
        const { success, data } = CheckpointExecutionStateSchema.shape.stage.safeParse(stageIn(state));
        return success ? { stage: data, status: statusOf(data) } : {};
      },
    });
    this.#storage = storage;
    const options = { storage, schema: StoredStateSchema, createId: createCheckpointId, logger };
    this.checkpoints = new CheckpointManager({
      ...options,
      retention: keepLast === undefined ? undefined : { keepLast },
    });
    this.#unpruned = new CheckpointManager({ ...options, ownsStorage: false });
    this.#keepLast = keepLast;
    this.#logger = safeLogger(logger ?? warningLogger);
  }

  /** Saves a state as the task's newest checkpoint. */
  async append(
    taskId: string,
    label: string,
    state: CheckpointExecutionState,
    { error, status, expectedSequence, replaces = [], isPassing = false }: AppendOptions = {},
  ): Promise<CheckpointSummary> {
    const isPlain = !isPassing && replaces.length === 0;
    const saved = await (isPlain ? this.checkpoints : this.#unpruned).save(taskId, state, {
      stage: state.stage,
      label,
      status: status ?? statusOf(state.stage),
      error,
      expectedSequence,
    });
    if (!isPlain) await this.#tidy(taskId, replaces, isPassing);
    return saved;
  }

  /** Renames the task's file, if it is so damaged that it can't be written. */
  async setAside(taskId: string): Promise<SetAside | undefined> {
    return this.#storage.setAside(taskId);
  }

  /** Waits for the calls under way. Idempotent. */
  async close(): Promise<void> {
    await this.#unpruned.close();
    await this.checkpoints.close();
  }

  /** What is replaced goes first: it must take no other's place. Never rejects: the save is stored. */
  async #tidy(taskId: string, replaced: readonly string[], isPassing: boolean): Promise<void> {
    try {
      for (const id of replaced) await this.#unpruned.remove(taskId, id);
      if (isPassing || this.#keepLast === undefined) return;
      await this.checkpoints.prune(taskId, { keepLast: this.#keepLast });
    } catch (error) {
      this.#logger.error(
        { taskId, error },
        `What is left over beside a new checkpoint of task ${JSON.stringify(taskId)} can't be removed; that one is stored`,
      );
    }
  }
}

/** How a checkpoint's stage counts among the core's statuses. */
export function statusOf(stage: CheckpointExecutionState["stage"]): CheckpointStatus {
  if (stage === "complete") return "completed";
  return stage === "failed" ? "failed" : "running";
}

export interface AppendOptions {
  readonly error?: unknown;
  /** Default: the stage's. */
  readonly status?: CheckpointStatus | undefined;
  readonly expectedSequence?: number | undefined;
  /** Checkpoints whose place it takes: removed once it is stored, before retention counts. */
  readonly replaces?: readonly string[];
  /** It will be replaced itself: it pushes out no other. */
  readonly isPassing?: boolean;
}

function stageIn(state: unknown): unknown {
  return typeof state === "object" && state !== null && "stage" in state ? state.stage : undefined;
}
