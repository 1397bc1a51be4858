import type { CorruptRecord } from "../../src/contract/adapter.js";
import type { Checkpoint, CheckpointFailure, CheckpointStatus } from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError, StateInvalidError, UnsupportedFormatError } from "../../src/contract/errors.js";
import { checkText } from "../../src/manager/arguments.js";
import { isUnderWay } from "../processes/runner.js";
import type { CheckpointExecutionState, PrpStage, WorkProgress } from "./schema.js";
import { type PrpCheckpoints, SessionCheckpoints } from "./storage.js";

/** Where a task of a session stands, by its newest checkpoint. */
export interface PrpTaskStatus {
  readonly taskId: string;
  /** The PRP's file; empty where the PRP came as an object. */
  readonly prpPath: string;
  readonly stage: PrpStage;
  readonly status: CheckpointStatus;
  /** What the checkpoint says of itself: `Gate 2 passed`, `The coder so far: 12 KB in 3 min`. */
  readonly label: string;
  readonly checkpointId: string;
  /** When the checkpoint was saved. */
  readonly savedAt: Date;
  /** How many checkpoints the task has. */
  readonly checkpoints: number;
  /**
   * Who executes the task. Absent where nobody does: its status is not `running`, or another program wrote it. With
   * `isAlive: false` it died in the middle (executing the PRP again goes on); it is looked for on this machine alone.
   */
  readonly runner?: { readonly pid: number; readonly isAlive: boolean };
  /** How often the coder was asked to fix what a gate had found. */
  readonly fixAttempts: number;
  /** Why it failed, or paused. */
  readonly error?: CheckpointFailure;
  /** How far the coder or the gate had come that was running then, or was ended before its time. */
  readonly progress?: WorkProgress;
}

/** Something of a session that can't be read. */
export interface DamagedCheckpoint {
  /** Where it is. */
  readonly location: string;
  readonly reason: string;
  /** Where that can be told. */
  readonly taskId?: string;
}

/** Where a session stands. */
export interface PrpSessionStatus {
  /** The most recent one first. */
  readonly tasks: readonly PrpTaskStatus[];
  /** What can't be read. A task stands in `tasks` all the same if an older checkpoint of it can. */
  readonly damaged: readonly DamagedCheckpoint[];
}

/**
 * Where each task of a session stands. Changes nothing, and may be called while the session's tasks are executed.
 *
 * @param sessionPath - The session's folder. Without any checkpoint in it there are no tasks.
 * @throws {StorageError} A folder or a file can't be read.
 *
 * @example
 * ```ts
 * import { prpStatus } from "waymark/prp";
 *
 * const { tasks, damaged } = await prpStatus("plan/001_session");
 * for (const { taskId, status, label, runner } of tasks) {
 *   console.log(taskId, runner?.isAlive === false ? "died" : status, label);
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
        const status = await statusOfTask(checkpoints, taskId, count);
        if (status !== undefined) tasks.push(status);
      } catch (error) {
        // What is damaged has been reported as such; what the schema refuses is no damage, but can't be shown either.
        if (error instanceof StateInvalidError || error instanceof UnsupportedFormatError) {
          damaged.set(`task ${taskId}`, { taskId, location: sessionPath, reason: error.message });
        } else if (!(error instanceof CheckpointCorruptError)) throw error;
      }
    }
    return { tasks, damaged: [...damaged.values()] };
  } finally {
    await session.close();
  }
}

/** All there is to say is in what is returned. */
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** `undefined` where the task was removed in the meantime. */
async function statusOfTask(
  checkpoints: PrpCheckpoints,
  taskId: string,
  count: number,
): Promise<PrpTaskStatus | undefined> {
  for (;;) {
    const newest = await checkpoints.latest(taskId);
    if (newest === undefined) return undefined;
    const runner = newest.status === "running" ? newest.state.waymark?.runner : undefined;
    if (runner === undefined) return taskStatus(newest, count);
    const isAlive = await isUnderWay(runner);
    // It may have ended well since its checkpoint was read: then it has left another one.
    if (!isAlive && (await checkpoints.latest(taskId))?.id !== newest.id) continue;
    return { ...taskStatus(newest, count), runner: { pid: runner.pid, isAlive } };
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

/** The same record is met when tasks are listed, and when one is read. */
function keyOf({ location, id, sequence }: CorruptRecord): string {
  return JSON.stringify([location, id, sequence]);
}
