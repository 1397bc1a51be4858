import { join } from "node:path";
import { TaskFileAdapter } from "../../../adapters/files/task-file.js";
import type { CheckpointStatus, CheckpointSummary } from "../../checkpoint.js";
import type { Logger } from "../../logger.js";
import { CheckpointManager } from "../../manager.js";
import { createCheckpointId } from "./checkpoint-id.js";
import { type CheckpointExecutionState, CheckpointExecutionStateSchema } from "./schema.js";

/** A session's checkpoints, as the core keeps them. */
export type PrpCheckpoints = CheckpointManager<typeof CheckpointExecutionStateSchema>;

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
    schema: CheckpointExecutionStateSchema,
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
  return checkpoints.save(taskId, withoutUndefined(state), {
    stage: state.stage,
    label,
    status: status ?? statusOf(state.stage),
    error,
    expectedSequence,
  });
}

/** As JSON.stringify has it: the file's readers know absence, and no `undefined`. */
function withoutUndefined(state: CheckpointExecutionState): CheckpointExecutionState {
  const { coderResponse, coderResult, fixAttempt, waymark, ...rest } = state;
  return {
    ...rest,
    ...(coderResponse === undefined ? undefined : { coderResponse }),
    ...(coderResult === undefined ? undefined : { coderResult }),
    ...(fixAttempt === undefined ? undefined : { fixAttempt }),
    ...(waymark === undefined ? undefined : { waymark }),
  };
}

function stageIn(state: unknown): unknown {
  return typeof state === "object" && state !== null && "stage" in state ? state.stage : undefined;
}
