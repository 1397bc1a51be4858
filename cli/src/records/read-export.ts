import { createHash } from "node:crypto";
import type { StoredCheckpoint } from "waymark/adapter";
import { CommandError, ExitCode } from "../exit-code.js";
import { linesOf } from "./lines-of.js";
import { type ExportLine, parseLine } from "./record-line.js";
import { recordFrom } from "./stored-record.js";

/** A record of an export, and where it stands there. */
export interface ExportedRecord {
  readonly record: StoredCheckpoint;
  /** From 1. */
  readonly line: number;
  /** How many bytes its line has. */
  readonly bytes: number;
}

/** What {@link readExport} needs besides the bytes. */
export interface ReadExportOptions {
  /** Where they come from, for messages: a path, or `standard input`. */
  readonly from: string;
  /** What has been done when an error is met: `Nothing was imported.` */
  readonly standing: () => string;
}

/**
 * The records of an export, one at a time, each checked; and after the last one the trailer, against all that came
 * before. Records are given before it is known that the export is complete.
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
    // Not the content but the reading failed.
    if (cause instanceof Error && "syscall" in cause) {
      throw new CommandError(ExitCode.failed, `${from} can't be read: ${cause.message}. ${standing()}`, { cause });
    }
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(ExitCode.damaged, `${from}, line ${line}: ${reason}. ${standing()}`, { cause });
  }
}

/** Line by line: header, records, trailer, nothing more. Its errors are rests of sentences. */
class ExportCheck {
  line = 0;
  readonly #lines = createHash("sha256");
  #records = 0;
  #isEnded = false;

  /** The record, if the line is one. */
  add(text: string): StoredCheckpoint | undefined {
    if (this.#isEnded) throw new Error("it comes after the trailer, where nothing may stand");
    const parsed = parseLine(text);
    const record = this.line === 0 ? this.#header(parsed) : this.#recordOrTrailer(parsed);
    this.#lines.update(parsed.sha256);
    this.line += 1;
    return record;
  }

  end(): void {
    if (this.line === 0) throw new Error("there is nothing; an export begins with a header");
    if (!this.#isEnded) throw new Error("the trailer is missing, so the export was cut short here");
  }

  #header({ kind, value }: ExportLine): undefined {
    if (kind !== "header") throw new Error("the header is missing, with which an export begins");
    const { format, version } = fieldsOf(value);
    if (format !== "waymark-export") throw new Error("it is no header of an export of Waymark");
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
        `the trailer doesn't fit the ${this.#records} records before it: lines were taken out, put in or moved`,
      );
    }
    this.#isEnded = true;
    return undefined;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
