import { createHash } from "node:crypto";
import type { StoredCheckpoint } from "waymark/adapter";
import { CommandError, ExitCode } from "../exit-code.js";
import { linesOf } from "./lines-of.js";
import { type ExportLine, parseLine } from "./record-line.js";
import { recordFrom } from "./stored-record.js";

/** A record of an export, and its line. */
export interface ExportedRecord {
  readonly record: StoredCheckpoint;
  /** From 1. */
  readonly line: number;
  /** The size of the line. */
  readonly bytes: number;
}

/** The options of {@link readExport}. */
export interface ReadExportOptions {
  /** The source, for messages: a path, or `standard input`. */
  readonly from: string;
  /** What was done so far, for errors: `Nothing was imported.` */
  readonly standing: () => string;
}

/**
 * The records of an export, one at a time. It checks each record, and at the end the trailer. So it yields records before
 * it knows that the export is complete.
 *
 * @throws {CommandError} A line is damaged, or the trailer is missing; the message names the line.
 */
export async function* readExport(
  chunks: AsyncIterable<Uint8Array>,
  options: ReadExportOptions,
): AsyncGenerator<ExportedRecord, void, void> {
  const check = new ExportCheck();
  const lines = linesOf(chunks);
  for (;;) {
    const found = await orDamaged(check.line + 1, options, () => lines.next());
    if (found.done) break;
    const { text, bytes } = found.value;
    const record = await orDamaged(check.line + 1, options, async () => check.add(text));
    if (record !== undefined) yield { record, line: check.line, bytes };
  }
  await orDamaged(check.line + 1, options, async () => check.end());
}

async function orDamaged<Result>(
  line: number,
  { from, standing }: ReadExportOptions,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    // Reading failed; the content may be fine.
    if (cause instanceof Error && "syscall" in cause) {
      throw new CommandError(ExitCode.failed, `${from} can't be read: ${cause.message}. ${standing()}`, { cause });
    }
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(ExitCode.damaged, `${from}, line ${line}: ${reason}. ${standing()}`, { cause });
  }
}

/** Checks the lines of an export: header, records, trailer, nothing more. Its errors are ends of sentences. */
class ExportCheck {
  line = 0;
  readonly #lines = createHash("sha256");
  #records = 0;
  #isEnded = false;

  /** The record, if the line has one. */
  add(text: string): StoredCheckpoint | undefined {
    if (this.#isEnded) throw new Error("it comes after the trailer, which must be the last line");
    const parsed = parseLine(text);
    const record = this.line === 0 ? this.#header(parsed) : this.#recordOrTrailer(parsed);
    this.#lines.update(parsed.sha256);
    this.line += 1;
    return record;
  }

  end(): void {
    if (this.line === 0) throw new Error("it is empty; an export begins with a header");
    if (!this.#isEnded) throw new Error("the trailer is missing, so the export was cut short here");
  }

  #header({ kind, value }: ExportLine): undefined {
    if (kind !== "header") throw new Error("the header is missing; an export begins with one");
    const { format, version } = fieldsOf(value);
    if (format !== "waymark-export") throw new Error("it is not the header of a Waymark export");
    if (version !== 1)
      throw new Error(`it is an export of version ${String(version)}, and this program knows version 1`);
  }

  #recordOrTrailer({ kind, value }: ExportLine): StoredCheckpoint | undefined {
    if (kind === "record") {
      const record = recordFrom(value);
      this.#records += 1;
      return record;
    }
    if (kind !== "trailer") throw new Error("it is a second header; import one export at a time");
    const { records, lines } = fieldsOf(value);
    if (records !== this.#records || lines !== this.#lines.copy().digest("hex")) {
      throw new Error(
        `the trailer doesn't match the ${this.#records} records before it: lines were removed, added or moved`,
      );
    }
    this.#isEnded = true;
    return undefined;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
