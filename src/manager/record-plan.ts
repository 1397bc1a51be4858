import type { CheckpointSummary } from "../contract/checkpoint.js";
import type { RecordHeader, RecordKind } from "../contract/log.js";
import { findTurnStart, isReceived, readRunNote } from "../contract/run-note.js";
import { isOfRun, isTransient } from "../contract/transient.js";
import { checkOptions, type OptionChecks, wholeFrom } from "./check-options.js";

/** How long the chunks of steps stay. A chunk stays no longer than the checkpoint that it belongs to. */
export interface ChunkPolicy {
  /**
   * Removes chunks older than this many milliseconds, from 0. The age is counted back like that of the policy's
   * `keepWithinMs`.
   */
  readonly keepWithinMs?: number | undefined;
  /** Removes the oldest chunks until the task's chunks have at most this many bytes; from 0. */
  readonly maxBytes?: number | undefined;
}

/** The part of a record that a plan needs. */
export type PlanRecord = Pick<RecordHeader, "sequence" | "kind" | "createdAt" | "sizeBytes"> & {
  readonly name?: string | undefined;
  readonly recordKey?: string | undefined;
};

/** The records between two sequences that have one of these kinds. */
export interface RecordRange {
  readonly afterSequence: number;
  readonly beforeSequence: number;
  readonly kinds: readonly RecordKind[];
}

/** Records of one checkpoint that follow each other. Without `owner`, they belong to no checkpoint yet. */
interface RecordGroup extends RecordRange {
  readonly owner: string | undefined;
}

/** A task's records, by the checkpoints that they belong to. */
export interface GroupedRecords {
  readonly events: Groups;
  readonly others: Groups;
  /** The chunks that the policy's `chunks` removes. */
  readonly oldChunks: readonly RecordRange[];
  readonly oldChunkBytes: number;
}

/** The kinds that a policy removes. Of a received event, it only removes the value. */
export const REMOVABLE: readonly RecordKind[] = ["step", "chunk", "run", "mark", "event"];
const CHUNKS: readonly RecordKind[] = ["chunk"];
const EVENTS: readonly RecordKind[] = ["event"];
const OTHERS = REMOVABLE.filter((kind) => kind !== "event");

/** What a task's run needs to resume. A policy removes none of it. */
export interface RunNeeds {
  /** The sequences of the run's newest checkpoint, and of the checkpoint at which its open turn started. */
  readonly checkpoints: readonly number[];
  /** The open turn's records are above this sequence. */
  readonly afterSequence: number;
  /** The sequence of the record with the run's input. */
  readonly input: number | undefined;
}

/** @param newestFirst - All checkpoints of the task. */
export function findRunNeeds(newestFirst: readonly CheckpointSummary[]): RunNeeds | undefined {
  const newest = newestFirst.find(isOfRun);
  const note = newest && readRunNote(newest);
  if (newest === undefined || note === undefined) return undefined;
  const { sequence } = newest;
  const isOpen = newestFirst[0]?.status !== "completed";
  const input = note.hasInput ? (note.began ?? sequence) - 1 : undefined;
  if (!isOpen) return { checkpoints: [], afterSequence: Number.POSITIVE_INFINITY, input };
  const checkpoints = [sequence, note.turnStart ?? sequence];
  return { checkpoints, afterSequence: findTurnStart(note, sequence), input };
}

/**
 * Groups records by the checkpoints that they belong to. A record without `recordKey` that has a checkpoint's id as its
 * name belongs to that checkpoint, every other record to the milestone that follows it. Records above the newest
 * milestone belong to no checkpoint, and neither do records that the task's run needs. An event belongs to the
 * milestone that follows its receipt; a pending event belongs to no checkpoint.
 *
 * @param records - The task's records, newest first.
 * @param untilMs - The time from which ages are counted back.
 */
export function groupRecords(
  summaries: readonly CheckpointSummary[],
  records: Iterable<PlanRecord>,
  { keepWithinMs = Number.POSITIVE_INFINITY, maxBytes = Number.POSITIVE_INFINITY }: ChunkPolicy = {},
  untilMs: number,
): GroupedRecords {
  const ids = new Set(summaries.map(({ id }) => id));
  const newestFirst = [...summaries].sort((a, b) => b.sequence - a.sequence);
  const milestones = newestFirst.filter((summary) => !isTransient(summary));
  const run = findRunNeeds(newestFirst);
  const [others, events] = [new Groups(OTHERS), new Groups(EVENTS)];
  const received = milestones.map((summary) => readRunNote(summary)?.received);
  const oldChunks: RecordRange[] = [];
  let [older, chunkBytes, oldChunkBytes] = [0, 0, 0];
  let isAfterOldChunk = false;
  for (const { kind, sequence, name, recordKey, createdAt, sizeBytes } of records) {
    while ((milestones[older]?.sequence ?? 0) > sequence) older += 1;
    if (kind === "event") {
      const by = received.findLastIndex((one, at) => at < older && one && isReceived(one, sequence));
      // An event whose value was removed has no bytes.
      if (sizeBytes > 0) events.add(milestones[by]?.id, sequence, sizeBytes);
      continue;
    }
    const isNamed = recordKey === undefined && name !== undefined && ids.has(name);
    const isNeeded = run !== undefined && (sequence > run.afterSequence || sequence === run.input);
    const owner = isNamed ? name : isNeeded && kind !== "chunk" ? undefined : milestones[older - 1]?.id;
    if (kind === "chunk") {
      chunkBytes += sizeBytes;
      const isOld = untilMs - Date.parse(createdAt) > keepWithinMs || chunkBytes > maxBytes;
      const goes = isOld && owner !== undefined;
      if (goes) {
        oldChunks.push({ ...extend(isAfterOldChunk ? oldChunks.pop() : undefined, sequence), kinds: CHUNKS });
        oldChunkBytes += sizeBytes;
      }
      isAfterOldChunk = goes;
      if (goes) continue;
    }
    others.add(owner, sequence, sizeBytes);
  }
  return { others, events, oldChunks, oldChunkBytes };
}

/**
 * Returns the ranges of the records that belong to these checkpoints. Records in between that stay aren't in any range.
 */
export function rangesOwnedBy(owners: ReadonlySet<string>, { events, others }: GroupedRecords): RecordRange[] {
  return [...others.ownedBy(owners), ...events.ownedBy(owners)];
}

/** @internal Returns the bytes of a checkpoint's records. */
export function bytesOwnedBy(owner: string, { events, others }: GroupedRecords): number {
  return events.countBytes(owner) + others.countBytes(owner);
}

/** Records of the same kinds, by the checkpoints that they belong to. */
class Groups {
  readonly #kinds: readonly RecordKind[];
  readonly #newestFirst: RecordGroup[] = [];
  readonly #bytes = new Map<string, number>();

  constructor(kinds: readonly RecordKind[]) {
    this.#kinds = kinds;
  }

  /** @param sequence - Must be below all sequences that were added before. */
  add(owner: string | undefined, sequence: number, sizeBytes: number): void {
    const groups = this.#newestFirst;
    const isOfSameOwner = groups.length > 0 && groups.at(-1)?.owner === owner;
    groups.push({ ...extend(isOfSameOwner ? groups.pop() : undefined, sequence), kinds: this.#kinds, owner });
    if (owner !== undefined) this.#bytes.set(owner, this.countBytes(owner) + sizeBytes);
  }

  countBytes(owner: string): number {
    return this.#bytes.get(owner) ?? 0;
  }

  ownedBy(owners: ReadonlySet<string>): RecordRange[] {
    const ranges: RecordRange[] = [];
    let isAdjacent = false;
    for (const { owner, afterSequence, beforeSequence, kinds } of this.#newestFirst) {
      const isOwned = owner !== undefined && owners.has(owner);
      if (isOwned) {
        const newer = isAdjacent ? ranges.pop() : undefined;
        ranges.push({ afterSequence, beforeSequence: newer?.beforeSequence ?? beforeSequence, kinds });
      }
      isAdjacent = isOwned;
    }
    return ranges;
  }
}

/** @internal Returns the records that are in one of the ranges. */
export function selectInRanges<Record extends PlanRecord>(
  records: readonly Record[],
  ranges: readonly RecordRange[],
): Record[] {
  return records.filter((record) => ranges.some((range) => isInRange(record, range)));
}

/** @internal Whether a range has the form that {@link groupRecords} makes. (A plan may come from a file.) */
export function isRecordRange({ afterSequence, beforeSequence, kinds }: RecordRange): boolean {
  const isBounded = Number.isSafeInteger(afterSequence) && Number.isSafeInteger(beforeSequence);
  return isBounded && Array.isArray(kinds) && kinds.every((kind) => REMOVABLE.includes(kind));
}

function isInRange({ sequence, kind }: PlanRecord, { afterSequence, beforeSequence, kinds }: RecordRange): boolean {
  return sequence > afterSequence && sequence < beforeSequence && kinds.includes(kind);
}

/**
 * Returns the bounds of the range, extended by an older record. Without a range, returns bounds for only that record.
 */
function extend(range: RecordRange | undefined, sequence: number): Omit<RecordRange, "kinds"> {
  return { afterSequence: sequence - 1, beforeSequence: range?.beforeSequence ?? sequence + 1 };
}

const CHUNK_CHECKS: OptionChecks<ChunkPolicy> = { keepWithinMs: wholeFrom(0), maxBytes: wholeFrom(0) };

/** @throws {TypeError | RangeError} The policy for chunks is empty, or a part is unknown or out of range. */
export function checkChunkPolicy(what: string, policy: ChunkPolicy): void {
  checkOptions(what, policy, CHUNK_CHECKS);
  if (Object.values(policy).some((part) => part !== undefined)) return;
  throw new TypeError(`${what} must have keepWithinMs or maxBytes.`);
}
