import type { CheckpointSummary } from "waymark";
import { toSummary } from "waymark/adapter";
import { type HeldLease, isChild, type RunRecord } from "waymark/kit";
import { parseThread, type Thread } from "waymark/langgraph/records";
import { findCheckpoint, readLatest, requireTask } from "../checkpoints.js";
import { isKeyMissing } from "../key-advice.js";
import { findTask } from "../langgraph/find-tasks.js";
import { type DescribedCheckpoint, describeCheckpoint, readState } from "../langgraph/thread-state.js";
import { type LapsedLease, LeaseReader, type RunTask, type StartingTask } from "../leases.js";
import { type PlainJson, plainJson } from "../plain-json.js";
import { readRun } from "../run-steps.js";
import type { QuerySession } from "../store.js";
import {
  canRetry,
  isPutBack,
  type PendingWait,
  pendingWaits,
  readEvents,
  type ShownEvent,
  standText,
} from "../waits.js";

export interface CheckpointQuery {
  /** A word on the command line that names the task. */
  readonly task: string;
  /** An id or its beginning, `@7` or `@latest`. Default: the newest readable checkpoint. */
  readonly id?: string | undefined;
}

/** A checkpoint with its state as plain JSON. */
export interface ShownState {
  readonly checkpoint: CheckpointSummary;
  readonly state: PlainJson;
}

/** A checkpoint with its state, its run and its runner. */
export interface CheckpointDetails extends DescribedCheckpoint {
  /** The LangGraph thread of the checkpoint. */
  readonly thread: Thread | undefined;
  readonly state: PlainJson | undefined;
  /** Set if the configuration can't open the state: the error that says why. */
  readonly keyMissing?: Error;
  readonly run: RunRecord | undefined;
  /** What the task's run waits for. Empty if an older checkpoint was requested. */
  readonly waits: readonly PendingWait[];
  /** Whether workers take the task after `waymark retry`. */
  readonly canRetry: boolean;
  /** The last events of the task. */
  readonly events: readonly ShownEvent[];
  /** The lease that is held now. */
  readonly lease: HeldLease | undefined;
  /** The last lease of a running checkpoint, if it ended without being released. */
  readonly lapsed: LapsedLease | undefined;
  /** The task's status. `undefined` if an older checkpoint was requested, or the task is a thread. */
  readonly taskStatus: ShownTaskStatus | undefined;
}

/** A task's status, as lists of tasks show it. */
export interface ShownTaskStatus {
  readonly status: RunTask["status"];
  /** Why no process runs the task, if the other details don't show it. */
  readonly why: string | undefined;
}

/** @throws {CheckpointError} The configuration can't open the state. */
export function readShownState(session: QuerySession, query: CheckpointQuery): Promise<ShownState> {
  return readOne(session, query, async (checkpoint) => plainJson(await readState(session, checkpoint)));
}

/**
 * Reads a checkpoint's details. If no checkpoint is named and the task has none yet but is being run, returns that
 * task.
 */
export async function readDetails(
  session: QuerySession,
  query: CheckpointQuery,
): Promise<CheckpointDetails | StartingTask> {
  const leases = new LeaseReader(session);
  const starting = query.id === undefined ? await leases.startingNamed(query.task) : undefined;
  if (starting !== undefined) return starting;
  const { checkpoint: stored, state } = await readOne(session, query, (checkpoint) => openState(session, checkpoint));
  const described = await describeCheckpoint(session, stored);
  const { taskId, sequence } = stored;
  const found = await findTask(session.storage, taskId);
  const isShown = found?.newest.id === stored.id;
  const task = await leases.described(isShown ? found : { taskId, count: sequence, newest: stored });
  const run = await readRun(session, stored);
  const isNewest = query.id === undefined || query.id === "@latest";
  const thread = parseThread(taskId, stored.metadata);
  const waits = isNewest ? await pendingWaits(session, stored, run) : [];
  return {
    ...described,
    ...state,
    thread,
    run,
    waits,
    canRetry: isNewest && canRetry(stored) && !isChild(stored),
    events: await readEvents(session, taskId),
    lease: task.lease,
    lapsed: task.lapsed,
    taskStatus: isNewest && thread === undefined ? describeTaskStatus(task, waits, Date.now()) : undefined,
  };
}

function describeTaskStatus(task: RunTask, pending: readonly PendingWait[], nowMs: number): ShownTaskStatus {
  const { newest, lease, lapsed, waits, status } = task;
  const isSaid = lease !== undefined || lapsed !== undefined || isPutBack(newest);
  const isWait = status === "waiting" && pending.length > 0;
  const why = standText(newest, nowMs, waits) ?? (status === "interrupted" ? "no runner known" : undefined);
  return { status, why: isSaid || isWait ? undefined : why };
}

async function openState(
  session: QuerySession,
  checkpoint: CheckpointSummary,
): Promise<Pick<CheckpointDetails, "state" | "keyMissing">> {
  try {
    return { state: plainJson(await readState(session, checkpoint)) };
  } catch (error) {
    if (!isKeyMissing(error)) throw error;
    return { state: undefined, keyMissing: error };
  }
}

async function readOne<State>(
  session: QuerySession,
  { task, id }: CheckpointQuery,
  read: (checkpoint: CheckpointSummary) => Promise<State>,
): Promise<{ readonly checkpoint: CheckpointSummary; readonly state: State }> {
  const taskId = await requireTask(session, task);
  if (id === undefined || id === "@latest") return readLatest(session, taskId, read);
  const checkpoint = toSummary(await findCheckpoint(session, taskId, id));
  return { checkpoint, state: await read(checkpoint) };
}
