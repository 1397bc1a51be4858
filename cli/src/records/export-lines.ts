import type { StorageAdapter } from "waymark";
import type { DamageSink } from "../damage.js";
import { CheckedLinesWriter } from "./checked-lines.js";
import { EXPORT_FORMAT, recordJson } from "./stored-record.js";
import { isLogRecord, wholeItems } from "./whole-records.js";

export interface ExportOptions {
  readonly storage: StorageAdapter;
  readonly damage: DamageSink;
  /** How many damaged records the export has met so far. */
  readonly countDamaged: () => number;
  /** Whether the reader is gone. Then the export stops early. */
  readonly isClosed?: () => boolean;
  /** Called after each record. */
  readonly onRecord?: () => void;
}

/** Writes tasks as lines for `waymark import`: a header, their checkpoints and records, and a trailer. */
export async function writeExport(
  tasks: Iterable<string> | AsyncIterable<string>,
  writeLine: (text: string) => Promise<void>,
  { storage, damage, countDamaged, isClosed = () => false, onRecord }: ExportOptions,
): Promise<Readonly<Record<"records" | "logRecords" | "tasks", number>>> {
  const lines = new CheckedLinesWriter(writeLine);
  let written = 0;
  let logRecords = 0;
  await lines.header(EXPORT_FORMAT, { exportedAt: new Date().toISOString() });
  for await (const taskId of tasks) {
    written += 1;
    for await (const record of wholeItems(storage, { taskId }, damage)) {
      if (isClosed()) break;
      await lines.record(recordJson(record));
      if (isLogRecord(record)) logRecords += 1;
      onRecord?.();
    }
    if (isClosed()) break;
  }
  await lines.trailer({ tasks: written, damaged: countDamaged() });
  return { records: lines.records, logRecords, tasks: written };
}
