import { resolve } from "node:path";
import { checkText } from "../../src/contract/arguments.js";
import type { Checkpoint, CheckpointFailure, CheckpointStatus } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError, StateInvalidError, UnsupportedFormatError } from "../../src/contract/errors.js";
import { isBeingRun } from "../run-lock.js";
import type { CheckpointExecutionState, PrpStage, WorkProgress } from "./schema.js";
import { SessionCheckpoints } from "./storage.js";

/** The position of one of a session's tasks, from the task's newest checkpoint. */
export interface PrpTaskStatus {
  readonly taskId: string;
  /** The PRP's file; empty if the PRP was passed as an object. */
  readonly prpPath: string;
  readonly stage: PrpStage;
  readonly status: CheckpointStatus;
  /** The checkpoint's label: `Gate 2 passed`, `The coder so far: 12,345 bytes in 3 minutes`. */
  readonly label: string;
  readonly checkpointId: string;
  /** When the checkpoint was saved. */
  readonly savedAt: Date;
  /** How many checkpoints the task has. */
  readonly checkpoints: number;
  /**
   * Whether the execution is still alive, if the status says that one is under way. `died`: the execution ended in the
   * middle, and executing the PRP again continues it. Absent for other statuses, and for checkpoints of other programs.
   * Only executions on this machine are detected.
   */
  readonly runner?: "alive" | "died";
  /** How often the coder was asked to fix a failed gate. */
  readonly fixAttempts: number;
  /** Why the task failed or paused. */
  readonly error?: CheckpointFailure;
  /** The progress of a coder or gate that was running, or was ended early. */
  readonly progress?: WorkProgress;
}

/** An unreadable part of a session. */
export interface DamagedCheckpoint {
  /** The place of the damage. */
  readonly location: string;
  readonly reason: string;
  /** Absent if the task isn't known. */
  readonly taskId?: string;
}

/** The position of a session's tasks. */
export interface PrpSessionStatus {
  /** The most recent first. */
  readonly tasks: readonly PrpTaskStatus[];
  /** The checkpoints that can't be read. If an older checkpoint of the task can be read, the task is in `tasks` too. */
  readonly damaged: readonly DamagedCheckpoint[];
}

/**
 * Returns the position of each of a session's tasks. Changes nothing, and may be called while tasks are executed.
 *
 * @param sessionPath - The session's folder. If it doesn't exist, there are no tasks.
 * @throws {StorageError} A folder or a file can't be read.
 *
 * @example
 * ```ts
 * import { prpStatus } from "waymark/prp";
 *
 * const { tasks, damaged } = await prpStatus("plan/001_session");
 * for (const { taskId, status, label, runner } of tasks) {
 *   console.log(taskId, runner === "died" ? "died" : status, label);
 * }
 * ```
 */
export async function prpStatus(sessionPath: string): Promise<PrpSessionStatus> {
  checkText("sessionPath", sessionPath, 1);
  const session = new SessionCheckpoints({ sessionPath, logger: SILENT });
  const { checkpoints } = session;
  const damaged = new Map<string, DamagedCheckpoint>();
  checkpoints.on("corrupt", (record) => damaged.set(formatKey(record), toDamaged(record)));
  try {
    const tasks: PrpTaskStatus[] = [];
    for (const { taskId, count } of await checkpoints.tasks({ order: "recent" })) {
      try {
        const status = await statusOfTask(session, taskId, count);
        if (status !== undefined) tasks.push(status);
      } catch (error) {
        // Damage was already reported. A state that the schema refuses isn't damage, but can't be shown either.
        if (error instanceof StateInvalidError || error instanceof UnsupportedFormatError) {
          damaged.set(`task ${taskId}`, { taskId, location: resolve(sessionPath), reason: error.message });
        } else if (!(error instanceof CheckpointCorruptError)) throw error;
      }
    }
    return { tasks, damaged: [...damaged.values()] };
  } finally {
    await session.close();
  }
}

/** Nothing is logged, since the result contains everything. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** Returns `undefined` if the task was removed meanwhile. */
async function statusOfTask(
  session: SessionCheckpoints,
  taskId: string,
  count: number,
): Promise<PrpTaskStatus | undefined> {
  for (;;) {
    const newest = await session.checkpoints.latest(taskId);
    if (newest === undefined) return undefined;
    if (newest.status !== "running" || newest.state.waymark === undefined) return taskStatus(newest, count);
    const runner = isBeingRun(session.lockPath(taskId)) ? "alive" : "died";
    // The execution may have ended normally since its checkpoint was read. Then there is a newer checkpoint.
    if (runner === "died" && (await session.checkpoints.latest(taskId))?.id !== newest.id) continue;
    return { ...taskStatus(newest, count), runner };
  }
}

function taskStatus(newest: Checkpoint<CheckpointExecutionState>, checkpoints: number): PrpTaskStatus {
  const { taskId, id, label = "", status, state, createdAt, error } = newest;
  const { prpPath, stage, fixAttempt = 0, waymark } = state;
  return {
    taskId,
    prpPath,
    stage,
    status,
    label,
    checkpointId: id,
    savedAt: new Date(createdAt),
    checkpoints,
    fixAttempts: fixAttempt,
    ...(error === undefined ? undefined : { error }),
    ...(waymark?.progress === undefined ? undefined : { progress: waymark.progress }),
  };
}

function toDamaged({ location, reason, taskId }: CorruptRecord): DamagedCheckpoint {
  return { location, reason, ...(taskId === undefined ? undefined : { taskId }) };
}

/** A key for a damaged record. Listing and reading both report it, but the result must show it once. */
function formatKey({ location, id, sequence }: CorruptRecord): string {
  return JSON.stringify([location, id, sequence]);
}
