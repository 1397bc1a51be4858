import type { CheckpointSummary } from "../contract/checkpoint.js";
import type { RecordHeader, RecordKind } from "../contract/log.js";
import { findTurnStart, readRunNote } from "../contract/run-note.js";
import { isOfRun, isTransient } from "../contract/transient.js";
import { checkOptions, type OptionChecks, wholeFrom } from "./check-options.js";

/** How long the chunks of steps stay. A chunk goes at the latest with the checkpoint that it belongs to. */
export interface ChunkPolicy {
  /** Removes chunks older than this many milliseconds, from 0; counted back as by `keepWithinMs`. */
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
  /** Newest first. */
  readonly groups: readonly RecordGroup[];
  /** The bytes of each checkpoint's records, by its id. */
  readonly bytes: ReadonlyMap<string, number>;
  /** The chunks that go by the policy's `chunks`. */
  readonly oldChunks: readonly RecordRange[];
  readonly oldChunkBytes: number;
}

/** The kinds that a policy removes. Events stay: which of them are pending isn't known here. */
export const REMOVABLE: readonly RecordKind[] = ["step", "chunk", "run", "mark"];
const CHUNKS: readonly RecordKind[] = ["chunk"];

/** What a task's run needs to go on. A policy removes nothing of it. */
export interface RunNeeds {
  /** The sequences of checkpoints: the newest one of the run, and the one at which its open turn started. */
  readonly checkpoints: readonly number[];
  /** The records above this sequence are those of the open turn. */
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
 * name belongs to that checkpoint, every other one to the milestone that follows it. Records above the newest milestone
 * belong to none, and neither do those that the task's run needs.
 *
 * @param records - Of the task, newest first. Events are ignored.
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
  const groups: RecordGroup[] = [];
  const bytes = new Map<string, number>();
  const oldChunks: RecordRange[] = [];
  let [older, chunkBytes, oldChunkBytes] = [0, 0, 0];
  let isAfterOldChunk = false;
  for (const { kind, sequence, name, recordKey, createdAt, sizeBytes } of records) {
    if (kind === "event") continue;
    while ((milestones[older]?.sequence ?? 0) > sequence) older += 1;
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
    const isOfSameOwner = groups.length > 0 && groups.at(-1)?.owner === owner;
    groups.push({ ...extend(isOfSameOwner ? groups.pop() : undefined, sequence), kinds: REMOVABLE, owner });
    if (owner !== undefined) bytes.set(owner, (bytes.get(owner) ?? 0) + sizeBytes);
  }
  return { groups, bytes, oldChunks, oldChunkBytes };
}

/** The ranges of the records that belong to these checkpoints. Records between them that stay aren't in any range. */
export function rangesOwnedBy(owners: ReadonlySet<string>, { groups }: GroupedRecords): RecordRange[] {
  const ranges: RecordRange[] = [];
  let isAdjacent = false;
  for (const { owner, afterSequence, beforeSequence, kinds } of groups) {
    const isOwned = owner !== undefined && owners.has(owner);
    if (isOwned) {
      const newer = isAdjacent ? ranges.pop() : undefined;
      ranges.push({ afterSequence, beforeSequence: newer?.beforeSequence ?? beforeSequence, kinds });
    }
    isAdjacent = isOwned;
  }
  return ranges;
}

/** The records that are in one of the ranges. */
export function selectInRanges<Record extends PlanRecord>(
  records: readonly Record[],
  ranges: readonly RecordRange[],
): Record[] {
  return records.filter((record) => ranges.some((range) => isInRange(record, range)));
}

/** Whether a range of a plan, which may come from a file, is one that {@link groupRecords} makes. */
export function isRecordRange({ afterSequence, beforeSequence, kinds }: RecordRange): boolean {
  const isBounded = Number.isSafeInteger(afterSequence) && Number.isSafeInteger(beforeSequence);
  return isBounded && Array.isArray(kinds) && kinds.every((kind) => REMOVABLE.includes(kind));
}

function isInRange({ sequence, kind }: PlanRecord, { afterSequence, beforeSequence, kinds }: RecordRange): boolean {
  return sequence > afterSequence && sequence < beforeSequence && kinds.includes(kind);
}

/** The bounds of a range, extended by an older record, or of that record alone. */
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
