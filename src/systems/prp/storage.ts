import { join } from "node:path";
import { z } from "zod";
import { TaskFileAdapter } from "../../../adapters/files/task-file.js";
import type { CheckpointStatus, CheckpointSummary } from "../../checkpoint.js";
import type { Logger } from "../../logger.js";
import { CheckpointManager } from "../../manager.js";
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

/** Opens `{sessionPath}/artifacts/{taskId}/checkpoints.json`, for every task. */
export function openPrpCheckpoints({ sessionPath, keepLast, logger }: PrpCheckpointsOptions): PrpCheckpoints {
  return new CheckpointManager({
    storage: new TaskFileAdapter({
      path: join(sessionPath, "artifacts"),
      // The spec's own program writes no stage and no status beside the state.
      adopt: ({ state }) => {
        const { success, data } = CheckpointExecutionStateSchema.shape.stage.safeParse(stageIn(state));
        return success ? { stage: data, status: statusOf(data) } : {};
      },
    }),
    schema: StoredStateSchema,
    createId: createCheckpointId,
    retention: keepLast === undefined ? undefined : { keepLast },
    logger,
  });
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
}

/** Saves a state as the task's newest checkpoint. */
export async function appendState(
  checkpoints: PrpCheckpoints,
  taskId: string,
  label: string,
  state: CheckpointExecutionState,
  { error, status, expectedSequence }: AppendOptions = {},
): Promise<CheckpointSummary> {
  return checkpoints.save(taskId, state, {
    stage: state.stage,
    label,
    status: status ?? statusOf(state.stage),
    error,
    expectedSequence,
  });
}

function stageIn(state: unknown): unknown {
  return typeof state === "object" && state !== null && "stage" in state ? state.stage : undefined;
}
