import { type CheckpointSummary, isJsonObject, type JsonObject } from "./checkpoint.js";
import { RunCancelledError } from "./errors.js";

/** The key in a checkpoint's metadata that is reserved for Waymark. */
export const NOTE_KEY = "waymark";

/**
 * Whether a checkpoint is transient, such as an auto-save, which the next auto-save replaces. All other checkpoints are
 * milestones, which a caller asked for. A completed or failed checkpoint is always a milestone, since its status and
 * error must stay.
 */
export function isTransient({ metadata, status }: Pick<CheckpointSummary, "metadata" | "status">): boolean {
  return status !== "completed" && status !== "failed" && noteIn(metadata)?.["transient"] === true;
}

/** Returns the id of the checkpoint that a transient checkpoint replaced; `undefined` if there was none. */
export function replacedBy({ metadata }: Pick<CheckpointSummary, "metadata">): string | undefined {
  const id = noteIn(metadata)?.["replaces"];
  return typeof id === "string" ? id : undefined;
}

/** Whether a run saved the checkpoint. */
export function isOfRun({ metadata }: Pick<CheckpointSummary, "metadata">): boolean {
  return isJsonObject(noteIn(metadata)?.["run"]);
}

/** Where a child run began: in a turn of its parent run and, if it began inside a step, in that step. */
export interface ParentPlace {
  readonly taskId: string;
  readonly turn: number;
  /** The step's title: `upload 2`. */
  readonly step?: string;
}

/** Reads where in another run the checkpoint's run began; `undefined` if it is no child run. */
export function readParent({ metadata }: Pick<CheckpointSummary, "metadata">): ParentPlace | undefined {
  const parent = noteIn(metadata)?.["parent"];
  if (!isJsonObject(parent)) return undefined;
  const { taskId, turn, step } = parent;
  if (typeof taskId !== "string" || typeof turn !== "number") return undefined;
  return { taskId, turn, ...(typeof step === "string" && { step }) };
}

/** Whether the checkpoint's run began within another run, which continues it. */
export function isChild(checkpoint: Pick<CheckpointSummary, "metadata">): boolean {
  return readParent(checkpoint) !== undefined;
}

/** Whether the task has ended. A retry or another save continues it. */
export function hasEnded({ status }: Pick<CheckpointSummary, "status">): boolean {
  return status === "completed" || status === "failed";
}

/**
 * Whether `manager.cancel` has recorded the checkpoint as failed. Its error has no stack, unlike a RunCancelledError
 * that a run threw because its child run was cancelled.
 */
export function isCancelled({ status, error }: Pick<CheckpointSummary, "status" | "error">): boolean {
  return status === "failed" && error?.code === RunCancelledError.code && error.stack === undefined;
}

/** Makes the metadata of a transient checkpoint. @param replaces - The id of the checkpoint that it replaces. */
export function transientMetadata(replaces: string | undefined): JsonObject {
  return { [NOTE_KEY]: { transient: true, ...(replaces === undefined ? undefined : { replaces }) } };
}

/** The waits of a run. */
export interface RunWaits {
  /** The latest time at which the run continues, in ISO 8601 UTC. {@link NEVER}: only an event continues it. */
  readonly dueAt: string;
  /** The names of the events that the run waits for. */
  readonly waitsFor: readonly string[];
}

/** The time of a wait that only an event ends. */
export const NEVER = "9999-12-31T23:59:59.999Z";

/**
 * Returns when a worker may continue a task, judged by the task's newest checkpoint, in ISO 8601 UTC; `undefined` if no
 * worker may. An adapter stores this time in the task's row, to find the tasks that are due.
 *
 * The time is the field `dueAt`, with two exceptions. A completed or failed task isn't due. A running task has been due
 * since its checkpoint was saved; a live worker's lease keeps other workers away.
 */
export function findDueTime({
  status,
  createdAt,
  dueAt,
}: Pick<CheckpointSummary, "status" | "createdAt" | "dueAt">): string | undefined {
  if (dueAt === undefined || status === "completed" || status === "failed") return undefined;
  return status === "running" ? createdAt : dueAt;
}

/** Reads the waits of a run from its newest checkpoint; `undefined` if the run waits for nothing. */
export function readWaits({ metadata, dueAt }: Pick<CheckpointSummary, "metadata" | "dueAt">): RunWaits | undefined {
  const { waitsFor, until = dueAt } = noteIn(metadata) ?? {};
  if (typeof until !== "string" || !Array.isArray(waitsFor)) return undefined;
  return { dueAt: until, waitsFor: waitsFor.filter((name) => typeof name === "string") };
}

/** Returns the user's own metadata, without Waymark's note. */
export function withoutNote(metadata: JsonObject | undefined): JsonObject | undefined {
  if (metadata === undefined || !(NOTE_KEY in metadata)) return metadata;
  const { [NOTE_KEY]: _note, ...own } = metadata;
  return Object.keys(own).length === 0 ? undefined : own;
}

/** Returns Waymark's note in a checkpoint's metadata. */
export function noteIn(metadata: JsonObject | undefined): JsonObject | undefined {
  const note = metadata?.[NOTE_KEY];
  return isJsonObject(note) ? note : undefined;
}
