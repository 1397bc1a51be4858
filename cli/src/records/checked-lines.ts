import { createHash } from "node:crypto";
import { linesOf } from "./lines-of.js";
import { type CheckedLine, parseLine, renderLine } from "./record-line.js";

const VERSION = 1;

/** Writes records between a header and a trailer for {@link readCheckedLines}. Each line has its checksum. */
export class CheckedLinesWriter {
  readonly #write: (text: string) => Promise<void>;
  readonly #lines = createHash("sha256");
  #records = 0;

  constructor(write: (text: string) => Promise<void>) {
    this.#write = write;
  }

  get records(): number {
    return this.#records;
  }

  /** @param format - The format of the lines: `waymark-export`. */
  async header(format: string, more: object): Promise<void> {
    await this.#line("header", { format, version: VERSION, ...more });
  }

  async record(value: object): Promise<void> {
    this.#records += 1;
    await this.#line("record", value);
  }

  /**
   * Writes the trailer. Its checksum covers those of all lines before, so that a removed, added or moved line is found.
   */
  async trailer(more: object): Promise<void> {
    await this.#line("trailer", { records: this.#records, ...more, lines: this.#lines.copy().digest("hex") });
  }

  async #line(kind: CheckedLine["kind"], value: object): Promise<void> {
    const { sha256, text } = renderLine(kind, value);
    this.#lines.update(sha256);
    await this.#write(text);
  }
}

/** A record's value and its line. */
export interface FoundRecord {
  readonly value: unknown;
  /** The line number, from 1. */
  readonly line: number;
  /** The size of the line. */
  readonly bytes: number;
}

/** A line was changed or damaged. The message is the end of a sentence. */
export class DamagedLineError extends Error {
  /** The line number, from 1. */
  readonly line: number;

  constructor(line: number, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.line = line;
  }
}

/**
 * Yields the records that a {@link CheckedLinesWriter} wrote, one at a time. It checks each line, and the trailer at
 * the end. So it yields records before it knows that all are there.
 *
 * @throws {DamagedLineError} A line is damaged, or the trailer is missing.
 * @throws The unchanged error of the chunks, if reading them failed: the content may be fine.
 */
export async function* readCheckedLines(
  chunks: AsyncIterable<Uint8Array>,
  format: string,
): AsyncGenerator<FoundRecord, void, void> {
  const check = new LinesCheck(format);
  try {
    for await (const { text, bytes } of linesOf(chunks)) {
      const { kind, value } = check.add(text);
      if (kind === "record") yield { value, line: check.line, bytes };
    }
    check.end();
  } catch (cause) {
    throw cause instanceof Error && "syscall" in cause ? cause : new DamagedLineError(check.line + 1, cause);
  }
}

/** Checks that the lines are a header, records, a trailer, and nothing more. Its errors are ends of sentences. */
class LinesCheck {
  line = 0;
  readonly #format: string;
  readonly #lines = createHash("sha256");
  #records = 0;
  #isEnded = false;

  constructor(format: string) {
    this.#format = format;
  }

  add(text: string): CheckedLine {
    if (this.#isEnded) throw new Error("it comes after the trailer, which must be the last line");
    const found = parseLine(text);
    if ((found.kind === "header") !== (this.line === 0)) {
      throw new Error(`${this.line === 0 ? "the header is missing" : "it is a second header"}`);
    }
    if (found.kind === "header") this.#checkHeader(found.value);
    else if (found.kind === "trailer") this.#checkTrailer(found.value);
    else this.#records += 1;
    this.#lines.update(found.sha256);
    this.line += 1;
    return found;
  }

  end(): void {
    if (this.line === 0) throw new Error("it is empty, and the header is missing");
    if (!this.#isEnded) throw new Error("the trailer is missing, so it was cut short here");
  }

  #checkHeader(value: unknown): void {
    const { format, version } = fieldsOf(value);
    if (format !== this.#format) throw new Error(`it is not the header of a ${this.#format}`);
    if (version !== VERSION) {
      throw new Error(`it has the version ${String(version)}, but this program only reads version ${VERSION}`);
    }
  }

  #checkTrailer(value: unknown): void {
    const { records, lines } = fieldsOf(value);
    if (records !== this.#records || lines !== this.#lines.copy().digest("hex")) {
      throw new Error(
        `the trailer doesn't match the ${this.#records} records before it: lines were removed, added or moved`,
      );
    }
    this.#isEnded = true;
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
