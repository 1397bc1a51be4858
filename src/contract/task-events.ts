import { type CheckpointFailure, type CheckpointSummary, isJsonObject, type JsonObject } from "./checkpoint.js";
import type { StepRecord } from "./run-record.js";
import { NOTE_KEY } from "./transient.js";

/** An event that was sent to a task. */
export interface TaskEvent<Value = unknown> extends NonNullable<StepRecord["event"]> {
  readonly name: string;
  /** What was sent with it; `undefined` if nothing was. To a wait with a schema, the value is decoded. */
  readonly value: Value;
  /** `pending`: no wait has received it yet. `refused`: the schema of a wait refused its value. */
  readonly status: "pending" | "received" | "refused";
  /** Why it was refused. */
  readonly error?: CheckpointFailure;
}

/**
 * The events of a task are checkpoints of a companion task, so they are as durable as any checkpoint. Its id is the
 * task's id with this ending, U+001F and a word, which no other task's id should have. Lists leave companions out;
 * removals, copies, exports and forks take them along.
 */
const ENDING = "\u001fevents";

/** The id of the companion task that holds a task's events. */
export function eventsTaskId(taskId: string): string {
  return `${taskId}${ENDING}`;
}

/** Whether a task is the companion of another one. */
export function isEventsTask(taskId: string): boolean {
  return taskId.endsWith(ENDING);
}

/** A companion's task; the id itself if it isn't a companion's. */
export function ownerTaskId(taskId: string): string {
  return isEventsTask(taskId) ? taskId.slice(0, -ENDING.length) : taskId;
}

/** The metadata of an event's checkpoint. */
export function eventMetadata(by: string | undefined): JsonObject {
  return { [NOTE_KEY]: { event: true, ...(by === undefined ? undefined : { by }) } };
}

/** The sender of an event; `undefined` if none was given. */
export function readSender({ metadata }: Pick<CheckpointSummary, "metadata">): string | undefined {
  const note = metadata?.[NOTE_KEY];
  const by = isJsonObject(note) ? note["by"] : undefined;
  return typeof by === "string" ? by : undefined;
}
