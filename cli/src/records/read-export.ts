import type { StoredCheckpoint } from "waymark/adapter";
import { CommandError, ExitCode } from "../exit-code.js";
import { DamagedLineError, readCheckedLines } from "./checked-lines.js";
import { recordFrom } from "./stored-record.js";

/** The format name in the header of an export. */
export const EXPORT_FORMAT = "waymark-export";

/** A record of an export and its line. */
export interface ExportedRecord {
  readonly record: StoredCheckpoint;
  /** The line number, from 1. */
  readonly line: number;
  /** The size of the line. */
  readonly bytes: number;
}

/** The options of {@link readExport}. */
export interface ReadExportOptions {
  /** Names the source in messages: a path, or `standard input`. */
  readonly from: string;
  /** Says how much was done so far, for errors: `Nothing was imported.` */
  readonly standing: () => string;
}

/**
 * Yields the records of an export, one at a time. It checks each record, and the trailer at the end. So it yields
 * records before it knows that the export is complete.
 *
 * @throws {CommandError} A line is damaged, or the trailer is missing; the message names the line.
 */
export async function* readExport(
  chunks: AsyncIterable<Uint8Array>,
  { from, standing }: ReadExportOptions,
): AsyncGenerator<ExportedRecord, void, void> {
  let current = 0;
  try {
    for await (const { value, line, bytes } of readCheckedLines(chunks, EXPORT_FORMAT)) {
      current = line;
      yield { record: recordFrom(value), line, bytes };
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (cause instanceof Error && "syscall" in cause) {
      throw new CommandError(ExitCode.failed, `${from} can't be read: ${reason}. ${standing()}`, { cause });
    }
    const line = cause instanceof DamagedLineError ? cause.line : current;
    throw new CommandError(ExitCode.damaged, `${from}, line ${line}: ${reason}. ${standing()}`, { cause });
  }
}
