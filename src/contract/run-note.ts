import { type CheckpointSummary, isJsonObject, type JsonObject } from "./checkpoint.js";
import { NOTE_KEY, noteIn, type RunWaits } from "./transient.js";

/** The events that a run has received or refused, or that it can't receive any more. A type: it is stored as a JsonObject. */
export type ReceivedEvents = {
  /** No event up to this sequence is pending. */
  readonly upTo: number;
  /** Of names with events above `upTo`: the name, its own `upTo`, and the sequences received above that. */
  readonly names?: readonly (readonly [name: string, upTo: number, ...above: number[]])[];
};

/** Where a run stands at one of its checkpoints, which has this in its metadata. */
export interface RunNote {
  /** The id of the run's first checkpoint. A restart, a fork or a rewind begins another generation. */
  readonly generation: string;
  /** The attempt that saved the checkpoint, from 1; 0 if none has begun. */
  readonly attempt: number;
  readonly turn: number;
  readonly version?: string | number;
  /** The W3C trace context of the attempt, if a subscriber of `waymark:run` gave one. */
  readonly traceparent?: string;
  /** The sequence of the generation's first checkpoint; missing in that checkpoint itself. */
  readonly began?: number;
  /** The record directly before the generation's first checkpoint holds the run's input. */
  readonly hasInput?: true;
  /** The sequence of the checkpoint at which the turn started; missing in that checkpoint itself. */
  readonly turnStart?: number;
  /** How many of the records directly before that checkpoint belong to the turn, in a fork or a rewind. */
  readonly carried?: number;
  /** The turn has a milestone of `run.save`. So this checkpoint's state may differ from the one that the turn started with. */
  readonly hasSaved?: true;
  /** The run has ended with this checkpoint. */
  readonly isOver?: true;
  readonly received?: ReceivedEvents;
}

/** What a run's checkpoint records beside its {@link RunNote}. */
export interface RunMarks {
  /** Given for a transient checkpoint, with the id of the checkpoint that it replaces. */
  readonly transient?: { readonly replaces: string | undefined } | undefined;
  /** Given for a run that waits. */
  readonly waits?: RunWaits | undefined;
  /** Whether the run began within another one. Its time of waiting isn't the checkpoint's `dueAt`. */
  readonly isChild?: boolean | undefined;
}

/** The metadata of a run's checkpoint. */
export function runMetadata(run: RunNote, { transient, waits, isChild }: RunMarks = {}): JsonObject {
  const note: JsonObject = {
    ...(isChild && { child: true }),
    ...(transient && { transient: true }),
    ...(transient?.replaces !== undefined && { replaces: transient.replaces }),
    ...(waits && { waitsFor: waits.waitsFor, ...(isChild && { until: waits.dueAt }) }),
    run: { ...run },
  };
  return { [NOTE_KEY]: note };
}

/** Where the run stands at this checkpoint; `undefined` if no run saved it. */
export function readRunNote({ metadata }: Pick<CheckpointSummary, "metadata">): RunNote | undefined {
  const run: unknown = noteIn(metadata)?.["run"];
  return isRunNote(run) ? run : undefined;
}

function isRunNote(run: unknown): run is RunNote {
  if (!isJsonObject(run)) return false;
  return typeof run["generation"] === "string" && typeof run["attempt"] === "number" && typeof run["turn"] === "number";
}

/** The sequence after which the records of a checkpoint's turn begin. */
export function findTurnStart({ turnStart, carried = 0 }: RunNote, sequence: number): number {
  return (turnStart ?? sequence) - carried - 1;
}

/** The note without what belongs to its turn. */
export function leaveTurn({ turnStart, carried, hasSaved, isOver, ...note }: RunNote): RunNote {
  return note;
}

/** The event cursor of a run that has received nothing. */
export const NOTHING_RECEIVED: ReceivedEvents = { upTo: 0 };

/** Whether the run has received the event, or can't receive it any more. */
export function isReceived({ upTo, names = [] }: ReceivedEvents, sequence: number, name: string): boolean {
  if (sequence <= upTo) return true;
  const [, cursor = 0, ...above] = names.find(([known]) => known === name) ?? [name];
  return sequence <= cursor || above.some((one) => one === sequence);
}

interface NameCursor {
  readonly upTo: number;
  readonly above: readonly number[];
}

/**
 * Adds received events.
 *
 * @param settled - The events to add, in ascending order.
 * @param pending - The first sequence of the events up to `readTo` that are still pending, by their names.
 * @param readTo - All events up to this sequence are known.
 */
export function addReceived(
  received: ReceivedEvents,
  settled: Iterable<{ readonly sequence: number; readonly name: string }>,
  pending: ReadonlyMap<string, number>,
  readTo: number,
): ReceivedEvents {
  const names = new Map<string, NameCursor>(
    (received.names ?? []).map(([name, upTo, ...above]) => [name, { upTo, above }]),
  );
  for (const { sequence, name } of settled) {
    const { upTo, above }: NameCursor = names.get(name) ?? { upTo: received.upTo, above: [] };
    names.set(name, { upTo, above: [...above, sequence] });
  }
  const first = Math.min(...pending.values());
  const upTo = Math.max(received.upTo, Math.min(first - 1, readTo));
  const kept = Array.from(names, ([name, cursor]): readonly [string, number, ...number[]] => {
    const before = (pending.get(name) ?? Number.POSITIVE_INFINITY) - 1;
    const passed = cursor.above.filter((sequence) => sequence <= before);
    const above = cursor.above.filter((sequence) => sequence > before).sort((a, b) => a - b);
    return [name, Math.max(cursor.upTo, ...passed), ...above];
  }).filter(([, ...sequences]) => sequences.some((sequence) => sequence > upTo));
  return { upTo, ...(kept.length > 0 && { names: kept }) };
}
