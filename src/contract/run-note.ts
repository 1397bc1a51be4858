import { type CheckpointSummary, isJsonObject, type JsonObject } from "./checkpoint.js";
import { NOTE_KEY, noteIn, type ParentPlace, type RunWaits } from "./transient.js";

/**
 * The events that a run has received or refused, as ascending ranges of sequences. The first range begins at 0. A task
 * with k pending events has at most k + 1 ranges.
 */
export type ReceivedEvents = readonly (readonly [first: number, last: number])[];

/** Where a run stands at one of its checkpoints. Stored in the checkpoint's metadata. */
export interface RunNote {
  /** The id of the run's first checkpoint. A restart, a fork or a rewind begins another generation. */
  readonly generation: string;
  /** The attempt that saved the checkpoint, from 1; 0 if none has begun. */
  readonly attempt: number;
  readonly turn: number;
  readonly version?: string | number;
  /** The W3C trace context of the attempt, if a subscriber of `waymark:run` set one. */
  readonly traceparent?: string;
  /** The sequence of the generation's first checkpoint; missing in that checkpoint itself. */
  readonly began?: number;
  /** The record directly before the generation's first checkpoint holds the run's input. */
  readonly hasInput?: true;
  /** The sequence of the checkpoint at which the turn started; missing in that checkpoint itself. */
  readonly turnStart?: number;
  /** In a fork or a rewind: how many of the records directly before the `turnStart` checkpoint belong to the turn. */
  readonly carried?: number;
  /** The turn has a milestone of `run.save`, so this checkpoint's state may differ from the turn's first state. */
  readonly hasSaved?: true;
  /** The run has ended with this checkpoint. */
  readonly isOver?: true;
  readonly received?: ReceivedEvents;
  /** In a fork: the checkpoint of another task from which it began. */
  readonly forkedFrom?: Origin;
}

/** The checkpoint from which a fork began. */
export type Origin = Readonly<Record<"taskId" | "id", string>>;

/** What a run's checkpoint records besides its {@link RunNote}. */
export interface RunMarks {
  /** Set for a transient checkpoint, with the id of the checkpoint that it replaces. */
  readonly transient?: { readonly replaces: string | undefined } | undefined;
  /** Set for a run that waits. */
  readonly waits?: RunWaits | undefined;
  /** Set if the run began within another run. The end of a child run's wait isn't stored as the checkpoint's `dueAt`. */
  readonly parent?: ParentPlace | undefined;
}

/** Makes the metadata of a run's checkpoint. */
export function runMetadata(run: RunNote, { transient, waits, parent }: RunMarks = {}): JsonObject {
  const note: JsonObject = {
    ...(parent && { parent: { ...parent } }),
    ...(transient && { transient: true }),
    ...(transient?.replaces !== undefined && { replaces: transient.replaces }),
    ...(waits && { waitsFor: waits.waitsFor, ...(parent && { until: waits.dueAt }) }),
    run: { ...run },
  };
  return { [NOTE_KEY]: note };
}

/** Reads where the run stands at this checkpoint; `undefined` if no run saved it. */
export function readRunNote({ metadata }: Pick<CheckpointSummary, "metadata">): RunNote | undefined {
  const run: unknown = noteIn(metadata)?.["run"];
  return isRunNote(run) ? run : undefined;
}

/**
 * Reads from which checkpoint a fork began; `undefined` if the task is no fork. All checkpoints of a fork's run name
 * it, but without a run only the first one does.
 */
export function readOrigin(checkpoint: Pick<CheckpointSummary, "metadata">): Origin | undefined {
  const origin: unknown = checkpoint.metadata?.["forkedFrom"] ?? readRunNote(checkpoint)?.forkedFrom;
  if (!isJsonObject(origin)) return undefined;
  const { taskId, id } = origin;
  return typeof taskId === "string" && typeof id === "string" ? { taskId, id } : undefined;
}

function isRunNote(run: unknown): run is RunNote {
  if (!isJsonObject(run)) return false;
  return typeof run["generation"] === "string" && typeof run["attempt"] === "number" && typeof run["turn"] === "number";
}

/** Returns the sequence after which the records of a checkpoint's turn begin. */
export function findTurnStart({ turnStart, carried = 0 }: RunNote, sequence: number): number {
  return (turnStart ?? sequence) - carried - 1;
}

/** Returns the note without the fields that belong to its turn. */
export function leaveTurn({ turnStart, carried, hasSaved, isOver, ...note }: RunNote): RunNote {
  return note;
}

export const NOTHING_RECEIVED: ReceivedEvents = [];

/** Whether the run has received or refused the event. */
export function isReceived(received: ReceivedEvents, sequence: number): boolean {
  return received.some(([first, last]) => sequence >= first && sequence <= last);
}

/**
 * Adds received events.
 *
 * @param mayPend - Whether an event between these two sequences may be pending.
 */
export function addReceived(
  received: ReceivedEvents,
  sequences: readonly number[],
  mayPend: (after: number, before: number) => boolean,
): ReceivedEvents {
  const added = sequences.map((sequence) => [sequence, sequence] as const);
  const ranges: (readonly [number, number])[] = [];
  let [from, to] = [0, 0];
  for (const [first, last] of [...received, ...added].sort(([a], [b]) => a - b)) {
    if (first > to && mayPend(to, first)) {
      ranges.push([from, to]);
      from = first;
    }
    to = Math.max(to, last);
  }
  return [...ranges, [from, to]];
}
