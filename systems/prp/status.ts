import { resolve } from "node:path";
import type { CorruptRecord } from "../../src/contract/adapter.js";
import { checkText } from "../../src/contract/arguments.js";
import type { Checkpoint, CheckpointFailure, CheckpointStatus } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, StateInvalidError, UnsupportedFormatError } from "../../src/contract/errors.js";
import { isBeingRun } from "../run-lock.js";
import type { CheckpointExecutionState, PrpStage, WorkProgress } from "./schema.js";
import { SessionCheckpoints } from "./storage.js";

/** Where a task of a session stands, by its newest checkpoint. */
export interface PrpTaskStatus {
  readonly taskId: string;
  /** The PRP's file; empty if the PRP came as an object. */
  readonly prpPath: string;
  readonly stage: PrpStage;
  readonly status: CheckpointStatus;
  /** The checkpoint's label: `Gate 2 passed`, `The coder so far: 12 KB in 3 min`. */
  readonly label: string;
  readonly checkpointId: string;
  /** When the checkpoint was saved. */
  readonly savedAt: Date;
  /** How many checkpoints the task has. */
  readonly checkpoints: number;
  /**
   * Whether the execution that is under way by its status is still alive. With `died` it ended in the middle, and
   * executing the PRP again goes on. Absent with another status, and for another program's checkpoints. Only this
   * machine's executions are seen.
   */
  readonly runner?: "alive" | "died";
  /** How often the coder was asked to fix what a gate had found. */
  readonly fixAttempts: number;
  /** Why it failed, or paused. */
  readonly error?: CheckpointFailure;
  /** How far the coder or the gate had come that was running, or was ended before its time. */
  readonly progress?: WorkProgress;
}

/** A part of a session that can't be read. */
export interface DamagedCheckpoint {
  /** Where it is. */
  readonly location: string;
  readonly reason: string;
  /** Absent if that isn't known. */
  readonly taskId?: string;
}

/** Where a session stands. */
export interface PrpSessionStatus {
  /** The most recent first. */
  readonly tasks: readonly PrpTaskStatus[];
  /** The checkpoints that can't be read. The task is in `tasks` too if an older checkpoint of it can be read. */
  readonly damaged: readonly DamagedCheckpoint[];
}

/**
 * Where each task of a session stands. Changes nothing; may be called while tasks are executed.
 *
 * @param sessionPath - The session's folder. It need not exist: then there are no tasks.
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
  checkpoints.on("corrupt", (record) => damaged.set(keyOf(record), damagedOf(record)));
  try {
    const tasks: PrpTaskStatus[] = [];
    for (const { taskId, count } of await checkpoints.tasks({ order: "recent" })) {
      try {
        const status = await statusOfTask(session, taskId, count);
        if (status !== undefined) tasks.push(status);
      } catch (error) {
        // Damage has been reported already. A state that the schema refuses isn't damage, but it can't be shown either.
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

/** Everything is in the result. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** `undefined` if the task was removed in the meantime. */
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
    // It may have ended well since its checkpoint was read: then there is another one.
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

function damagedOf({ location, reason, taskId }: CorruptRecord): DamagedCheckpoint {
  return { location, reason, ...(taskId === undefined ? undefined : { taskId }) };
}

/** The same record is reported when tasks are listed and when one is read. */
function keyOf({ location, id, sequence }: CorruptRecord): string {
  return JSON.stringify([location, id, sequence]);
}
