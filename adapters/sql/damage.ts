import { type CorruptRecord, isCorrupt, matchRetry } from "../../src/contract/adapter.js";
import {
  brokenSeal,
  type CheckpointDraft,
  type CheckpointSummary,
  findDamage,
  type SealedSummary,
  type StoredCheckpoint,
  summaryOf,
} from "../../src/contract/checkpoint.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { DamagedFinding } from "../../src/contract/findings.js";
import { damagedRow, numberOr0, type SqlRow } from "./rows.js";

/** Returns the checkpoint, which is to be changed. @throws {CheckpointCorruptError} Its row can't be read. */
export function readable<Found extends SealedSummary>(found: Found | CorruptRecord): Found {
  if (!isCorrupt(found)) return found;
  const task = JSON.stringify(found.taskId);
  throw new CheckpointCorruptError(
    `Checkpoint ${found.id ?? "?"} of task ${task} can't be read: ${found.reason} (${found.location}). ` +
      "Nothing was changed, and it was left untouched.",
    { cause: found.cause },
  );
}

/**
 * Answers an append whose id the task already has.
 *
 * @throws {CheckpointCorruptError} The stored checkpoint is damaged.
 * @throws {CheckpointConflictError} The stored checkpoint differs from the draft.
 */
export function sequenceOfStored(found: StoredCheckpoint | CorruptRecord, draft: CheckpointDraft): number {
  const stored = readable(found);
  const damage = findDamage(stored);
  if (damage !== undefined) readable(damagedRow(`sequence ${stored.sequence}`, stored, damage));
  return matchRetry(stored, draft);
}

/** Checks a summary's seal. This is the last place that has the seal, since lists return summaries without it. */
export function checkedSummary(
  found: SealedSummary | CorruptRecord,
  locate: () => string,
): CheckpointSummary | CorruptRecord {
  if (isCorrupt(found)) return found;
  const broken = brokenSeal(found);
  return broken === undefined ? summaryOf(found) : damagedRow(locate(), found, broken);
}

/**
 * The finding of verification for a row; `undefined` if the row is intact. For a summary, the reader has already
 * checked the seal.
 */
export function findingOf(
  found: CheckpointSummary | StoredCheckpoint | CorruptRecord,
  locate: () => string,
): DamagedFinding | undefined {
  if (isCorrupt(found)) return damaged(found);
  const reason = "payload" in found ? findDamage(found) : undefined;
  return reason === undefined
    ? undefined
    : { ...damaged(damagedRow(locate(), found, reason)), createdAt: found.createdAt };
}

function damaged({ corrupt: _corrupt, cause: _cause, ...found }: CorruptRecord): DamagedFinding {
  return { kind: "damaged", ...found };
}

/**
 * Says how a task's row differs from the task's checkpoints. Returns `undefined` if it doesn't differ.
 *
 * @param row - The last sequence, then four values from the row (the count; the newest checkpoint's sequence, time and
 *   status), then the same four from the checkpoints.
 */
export function damageInTaskRow(row: SqlRow): string | undefined {
  const [last, said, actual] = [row[0], row.slice(1, 5), row.slice(5)];
  if (said[0] === null) return actual[0] === 0 ? undefined : "its row, which holds its numbering, is missing";
  const isNumbered = Number.isSafeInteger(last) && numberOr0(last) >= numberOr0(actual[1]);
  if (isNumbered && said.every((value, column) => value === actual[column])) return undefined;
  const told = ([count, ...rest]: readonly unknown[]) => `${String(count)} checkpoints, the newest ${rest.join(", ")}`;
  return `its row says ${told(said)}, the last sequence ${String(last)}; there are ${told(actual)}`;
}

/**
 * The values, without the id, for a task's row that agrees with its checkpoints. @param row - As for
 * {@link damageInTaskRow}.
 */
export function taskRowOf([last, , , , , count, sequence, ...newest]: SqlRow): SqlRow {
  const lastSequence = Math.max(Number.isSafeInteger(last) ? numberOr0(last) : 0, numberOr0(sequence));
  return [lastSequence, count, sequence, ...newest];
}
