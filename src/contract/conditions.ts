import { CheckpointConflictError, StorageError } from "./errors.js";

/** A write's condition, checked in the same atomic step as the write. If it doesn't hold, nothing is stored. */
export interface AppendCondition {
  /** The task's newest checkpoint must have this sequence; 0: the task must have no checkpoint. */
  readonly expectedSequence?: number | undefined;
  /** The writer must hold the task's lease with this token. Only for adapters with `leases`. */
  readonly fencingToken?: number | undefined;
  /** No event of the task may have a higher sequence. Only for adapters with `log`. (case: log.conditions) */
  readonly noEventAfter?: number | undefined;
}

/** A task as the caller of a removal saw it. */
export interface ExpectedTask {
  readonly taskId: string;
  /** The sequence of the task's newest checkpoint. */
  readonly newestSequence: number;
}

/** The state of a task's numbering. */
export interface TaskPosition {
  /** The sequence of the task's newest checkpoint; 0 if it has none. */
  readonly newestSequence: number;
  /** The highest sequence that the task has used, for records as well; 0 if it has used none. */
  readonly lastSequence: number;
  /** The sequence of the task's last event. Default 0: it has none. */
  readonly lastEvent?: number;
}

/**
 * Returns the sequence for an append. Below a checkpoint's sequence, it leaves room for the checkpoint's `records`. For
 * adapters; call it in the same atomic step as the write.
 *
 * @throws {CheckpointConflictError} The condition doesn't hold, or the exact sequence isn't free.
 * @throws {StorageError} The last sequence is the highest safe integer, so there is no next one.
 */
export function nextSequence(
  taskId: string,
  position: TaskPosition,
  condition: AppendCondition = {},
  {
    sequence,
    records = [],
  }: { readonly sequence?: number | undefined; readonly records?: readonly object[] | undefined } = {},
): number {
  requireNewest(taskId, position.newestSequence, condition);
  requireNoEvent(taskId, position.lastEvent ?? 0, condition);
  if (sequence === undefined && position.lastSequence >= Number.MAX_SAFE_INTEGER) {
    throw new StorageError(
      `Task ${JSON.stringify(taskId)} has run out of sequence numbers: its last one, ${position.lastSequence}, is the highest possible. ` +
        "Nothing was stored, and its checkpoints are intact. Check the storage with verify(), and save under another task.",
    );
  }
  if (sequence === undefined) return position.lastSequence + records.length + 1;
  if (sequence - records.length > position.lastSequence) return sequence;
  throw new CheckpointConflictError(
    `Sequence ${sequence} of task ${JSON.stringify(taskId)} is taken: the task has used all sequences up to ${position.lastSequence}. ` +
      "Nothing was stored; take a higher sequence.",
  );
}

/**
 * Refuses a write if the newest checkpoint isn't the expected one. For adapters; call it in the same atomic step.
 *
 * @throws {CheckpointConflictError} The condition doesn't hold.
 */
export function requireNewest(taskId: string, newestSequence: number, condition: AppendCondition = {}): void {
  const { expectedSequence } = condition;
  if (expectedSequence === undefined || expectedSequence === newestSequence) return;
  throw new CheckpointConflictError(
    `The newest checkpoint of task ${JSON.stringify(taskId)} is ${newestSequence || "none"}, not ${expectedSequence || "none"} as expected. ` +
      "Nothing was changed; read the newest checkpoint, then decide.",
  );
}

/**
 * Refuses a write if an event is newer than the last one that the caller has read. For adapters; call it in the same
 * atomic step.
 *
 * @param lastEvent - The sequence of the task's last event; 0 if it has none.
 * @throws {CheckpointConflictError} `noEventAfter` doesn't hold.
 */
export function requireNoEvent(taskId: string, lastEvent: number, { noEventAfter }: AppendCondition = {}): void {
  if (noEventAfter === undefined || lastEvent <= noEventAfter) return;
  throw new CheckpointConflictError(
    `Task ${JSON.stringify(taskId)} has an event, ${lastEvent}, after ${noEventAfter}, the last one that the caller has read. ` +
      "Nothing was changed; read the new events, then decide.",
  );
}

/**
 * Refuses a removal if its tasks have changed since the caller saw them. For adapters; call it in the same atomic step.
 *
 * @param found - The tasks with the prefix `prefix` that have a checkpoint now.
 * @throws {CheckpointConflictError} `found` differs from `expected`.
 */
export function requireUnchangedTasks(
  prefix: string,
  found: Iterable<ExpectedTask>,
  expected: readonly ExpectedTask[] | undefined,
): void {
  if (expected === undefined) return;
  const mapNewest = (tasks: Iterable<ExpectedTask>) =>
    new Map(Array.from(tasks, ({ taskId, newestSequence }) => [taskId, newestSequence]));
  const [before, now] = [mapNewest(expected), mapNewest(found)];
  const different = [...now.keys(), ...before.keys()].find((taskId) => now.get(taskId) !== before.get(taskId));
  if (different === undefined) return;
  throw new CheckpointConflictError(
    `Task ${JSON.stringify(different)} (prefix ${JSON.stringify(prefix)}) has changed since it was listed. ` +
      "Nothing was removed; list the tasks again.",
  );
}
