import { brokenSeal, type CheckpointSummary, type SealedSummary, toSummary } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { damagedRow, nextDueAtIn, numberOr0, type SqlRow } from "./rows.js";

/** Checks a summary's seal. Lists return summaries without the seal, so it can't be checked later. */
export function checkSummary(
  found: SealedSummary | CorruptRecord,
  locate: () => string,
): CheckpointSummary | CorruptRecord {
  if (isCorrupt(found)) return found;
  const broken = brokenSeal(found);
  return broken === undefined ? toSummary(found) : damagedRow(locate(), found, broken);
}

/**
 * Describes how a task's row differs from the task's checkpoints. Returns `undefined` if it doesn't differ.
 *
 * @param row - First the last sequence. Then five values from the row: the count, the newest checkpoint's sequence,
 *   time and status, and the task's `due_at`. Then the same five values as read from the checkpoints (for a task with
 *   records only, the last record's time and the status ''). Finally the last record's sequence, if `last_sequence`
 *   must include it.
 */
export function damageInTaskRow(row: SqlRow): string | undefined {
  const [last, said, actual] = [row[0], row.slice(1, 5), row.slice(6, 10)];
  const isEmpty = actual[0] === 0 && actual[3] === null;
  if (said[0] === null) return isEmpty ? undefined : "the task's row, which has the numbering, is missing";
  const isNumbered =
    Number.isSafeInteger(last) && numberOr0(last) >= Math.max(numberOr0(actual[1]), numberOr0(row[11]));
  if (isNumbered && said.every((value, column) => value === actual[column])) return damageInDueAt(row);
  const told = ([count, ...rest]: readonly unknown[]) => `${String(count)} checkpoints, the newest ${rest.join(", ")}`;
  return `its row shows ${told(said)}, the last sequence ${String(last)}; there are ${told(actual)}`;
}

function damageInDueAt(row: SqlRow): string | undefined {
  const said = row[5];
  const dueAt = rebuildDueAt(row);
  if (said === dueAt) return undefined;
  const told = (time: unknown) => (time === null ? "it isn't due" : `it is due at ${String(time)}`);
  return `according to its row, ${told(said)}; by its newest checkpoint, ${told(dueAt)}`;
}

/** Returns the newest checkpoint's due time, or the row's if it is earlier, since a record may have set it. */
function rebuildDueAt(row: SqlRow): string | null {
  const said = row[5];
  const dueAt = nextDueAtIn(row.slice(8, 11), said);
  return typeof said === "string" && dueAt !== null && said < dueAt ? said : dueAt;
}

/**
 * Returns the values, without the id, of a task's row that agrees with its checkpoints. @param row - As for
 * {@link damageInTaskRow}.
 */
export function rebuildTaskRow(row: SqlRow): SqlRow {
  const [last] = row;
  const [count, sequence, createdAt, status, , lastRecord] = row.slice(6);
  const known = Number.isSafeInteger(last) ? numberOr0(last) : 0;
  const lastSequence = Math.max(known, numberOr0(sequence), numberOr0(lastRecord));
  return [lastSequence, count, sequence, createdAt, status, rebuildDueAt(row)];
}
