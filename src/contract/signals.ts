/**
 * The signals of a task are checkpoints of a companion task, so they are as durable as any checkpoint. Its id is the
 * task's id with this ending, U+001F and a word, which no other task's id should have. Lists leave companions out;
 * removals, copies, exports and forks take them along.
 */
const ENDING = "\u001fsignals";

/** The id of the companion task that holds a task's signals. */
export function signalsOf(taskId: string): string {
  return `${taskId}${ENDING}`;
}

/** Whether a task is the companion of another one. */
export function isSignals(taskId: string): boolean {
  return taskId.endsWith(ENDING);
}

/** A companion's task; the id itself if it isn't a companion's. */
export function ownerOf(taskId: string): string {
  return isSignals(taskId) ? taskId.slice(0, -ENDING.length) : taskId;
}
