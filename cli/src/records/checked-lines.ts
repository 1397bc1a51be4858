import { createHash, hash } from "node:crypto";
import { CommandError, ExitCode } from "../exit-code.js";
import { jsonText } from "../printable.js";

const VERSION = 1;
const LINE = /^\{"sha256":"(?<sha256>[0-9a-f]{64})","(?<kind>header|record|trailer)":(?<json>.*)\}$/s;

/**
 * Writes records between a header and a trailer, for {@link readCheckedLines}. Each line has the checksum of its JSON:
 * `{"sha256":"9f86d0…","record":{"taskId":"build-42",…}}`.
 */
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
   * Writes the trailer. Its checksum covers the checksums of all lines before it, so that a removed, added or moved
   * line is found.
   */
  async trailer(more: object): Promise<void> {
    await this.#line("trailer", { records: this.#records, ...more, lines: this.#lines.copy().digest("hex") });
  }

  async #line(kind: string, value: object): Promise<void> {
    const json = jsonText(value);
    const sha256 = hash("sha256", json, "hex");
    this.#lines.update(sha256);
    await this.#write(`{"sha256":"${sha256}","${kind}":${json}}`);
  }
}

export interface ReadLinesOptions<Item> {
  readonly format: string;
  /** Parses the value of a record. Its error messages complete a sentence. */
  readonly parse: (value: unknown) => Item;
  /** Names the source in messages: a path, or `standard input`. */
  readonly from: string;
  /** Returns how much was done so far, for errors: `Nothing was imported.` */
  readonly outcome: () => string;
}

/**
 * Yields the records that a {@link CheckedLinesWriter} wrote, one at a time, with their line numbers from 1. It checks
 * each line, and the trailer at the end. It therefore yields records before it knows that none is missing.
 *
 * @throws {CommandError} The source can't be read, a line is damaged, or the trailer is missing.
 */
export async function* readCheckedLines<Item>(
  chunks: AsyncIterable<Uint8Array>,
  { format, parse, from, outcome }: ReadLinesOptions<Item>,
): AsyncGenerator<{ readonly item: Item; readonly line: number }, void, void> {
  const lines = createHash("sha256");
  let line = 0;
  let records = 0;
  let isEnded = false;
  try {
    for await (const text of readLines(chunks)) {
      if (isEnded) throw new Error("it comes after the trailer, which must be the last line");
      const { kind, sha256, value } = parseLine(text);
      if ((kind === "header") !== (line === 0)) {
        throw new Error(line === 0 ? "the header is missing" : "it is a second header");
      }
      if (kind === "header") checkHeader(parseFields(value), format);
      const found = kind === "record" ? { item: parse(value), line: line + 1 } : undefined;
      if (found !== undefined) records += 1;
      if (kind === "trailer") {
        checkTrailer(parseFields(value), records, lines.copy().digest("hex"));
        isEnded = true;
      }
      lines.update(sha256);
      line += 1;
      if (found !== undefined) yield found;
    }
    if (line === 0) throw new Error("it is empty, and the header is missing");
    if (!isEnded) throw new Error("the trailer is missing, so it was cut short here");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (!(cause instanceof Error && "syscall" in cause)) {
      throw new CommandError(ExitCode.damaged, `${from}, line ${line + 1}: ${reason}. ${outcome()}`, { cause });
    }
    const exitCode = "code" in cause && cause.code === "ENOENT" ? ExitCode.notFound : ExitCode.failed;
    throw new CommandError(exitCode, `${from} can't be read: ${reason}. ${outcome()}`, { cause });
  }
}

/**
 * Yields the lines of a stream, with only the current line in memory. Editors and mail add a byte order mark and
 * carriage returns, which are dropped. Bytes that aren't UTF-8 are replaced, so that their line fails its checksum.
 */
async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  const take = () => parts.join("").replace(/\r$/, "");
  for await (const chunk of chunks) {
    const [end = "", ...others] = decoder.decode(chunk, { stream: true }).split("\n");
    parts.push(end);
    for (const next of others) {
      yield take();
      parts = [next];
    }
  }
  parts.push(decoder.decode());
  if (take() !== "") yield take();
}

function parseLine(text: string): { readonly kind: string; readonly sha256: string; readonly value: unknown } {
  const { sha256, kind, json } = LINE.exec(text)?.groups ?? {};
  if (sha256 === undefined || kind === undefined || json === undefined)
    throw new Error("it isn't a whole line of an export");
  if (hash("sha256", json, "hex") !== sha256) throw new Error("its checksum doesn't match its content");
  return { kind, sha256, value: JSON.parse(json) };
}

function checkHeader({ format, version }: Readonly<Record<string, unknown>>, expected: string): void {
  if (format !== expected) throw new Error(`it is not the header of a ${expected}`);
  if (version === VERSION) return;
  throw new Error(`it has the version ${String(version)}, but this program only reads version ${VERSION}`);
}

function checkTrailer(found: Readonly<Record<string, unknown>>, records: number, lines: string): void {
  if (found["records"] === records && found["lines"] === lines) return;
  throw new Error(`the trailer doesn't match the ${records} records before it: lines were removed, added or moved`);
}

function parseFields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
