import { brokenSeal, type CheckpointSummary, type SealedSummary, toSummary } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { damagedRow, nextDueAtIn, numberOr0, type SqlRow } from "./rows.js";

/** Checks a summary's seal. This is the last place that has the seal, since lists return summaries without it. */
export function checkSummary(
  found: SealedSummary | CorruptRecord,
  locate: () => string,
): CheckpointSummary | CorruptRecord {
  if (isCorrupt(found)) return found;
  const broken = brokenSeal(found);
  return broken === undefined ? toSummary(found) : damagedRow(locate(), found, broken);
}

/**
 * Says how a task's row differs from the task's checkpoints. Returns `undefined` if it doesn't differ.
 *
 * @param row - The last sequence; then from the row: the count, the newest checkpoint's sequence, time and status, and
 *   the time when the task is due; then from the checkpoints: the same four values, and the newest one's `due_at`. A
 *   task that has records only has the last one's time, and the status ''. Last, the sequence of the last record, if the
 *   row must count it.
 */
export function damageInTaskRow(row: SqlRow): string | undefined {
  const [last, said, actual] = [row[0], row.slice(1, 5), row.slice(6, 10)];
  const isEmpty = actual[0] === 0 && actual[3] === null;
  if (said[0] === null) return isEmpty ? undefined : "its row, which holds its numbering, is missing";
  const isNumbered =
    Number.isSafeInteger(last) && numberOr0(last) >= Math.max(numberOr0(actual[1]), numberOr0(row[11]));
  if (isNumbered && said.every((value, column) => value === actual[column])) return damageInDueAt(row);
  const told = ([count, ...rest]: readonly unknown[]) => `${String(count)} checkpoints, the newest ${rest.join(", ")}`;
  return `its row says ${told(said)}, the last sequence ${String(last)}; there are ${told(actual)}`;
}

function damageInDueAt(row: SqlRow): string | undefined {
  const said = row[5];
  const dueAt = rebuildDueAt(row);
  if (said === dueAt) return undefined;
  const told = (time: unknown) => (time === null ? "it isn't due" : `it is due at ${String(time)}`);
  return `its row says that ${told(said)}; by its newest checkpoint, ${told(dueAt)}`;
}

/** The time of the newest checkpoint, or the row's if that is earlier: a record may have set it. */
function rebuildDueAt(row: SqlRow): string | null {
  const said = row[5];
  const dueAt = nextDueAtIn(row.slice(8, 11), said);
  return typeof said === "string" && dueAt !== null && said < dueAt ? said : dueAt;
}

/**
 * The values, without the id, for a task's row that agrees with its checkpoints. @param row - As for
 * {@link damageInTaskRow}.
 */
export function rebuildTaskRow(row: SqlRow): SqlRow {
  const [last] = row;
  const [count, sequence, createdAt, status, , lastRecord] = row.slice(6);
  const known = Number.isSafeInteger(last) ? numberOr0(last) : 0;
  const lastSequence = Math.max(known, numberOr0(sequence), numberOr0(lastRecord));
  return [lastSequence, count, sequence, createdAt, status, rebuildDueAt(row)];
}
