import pc from "picocolors";
import { CommandError, ExitCode } from "./exit-code.js";

type Colors = ReturnType<typeof pc.createColors>;

export interface OutputOptions {
  /** In messages. */
  readonly name: string;
  /** So many characters are gathered before they are written; 0 writes each line at once. */
  readonly flushAt: number;
  /** Whether text that can't be written is an error. Where it isn't, there is nobody to tell. */
  readonly mustArrive: boolean;
}

/**
 * Standard output or standard error. Text may be gathered and written in larger pieces, as fast as the reader takes it.
 * A reader that has gone (`| head`) is no error: what comes after that is dropped, and `isClosed` says that nobody reads.
 */
export class Output {
  readonly #stream: NodeJS.WriteStream;
  readonly #options: OutputOptions;
  readonly colors: Colors;
  #pending = "";
  #isClosed = false;
  #failure: unknown;

  constructor(stream: NodeJS.WriteStream, options: OutputOptions) {
    this.#stream = stream;
    this.#options = options;
    this.colors = pc.createColors(wantsColor(stream));
    stream.on("error", (error: NodeJS.ErrnoException) => {
      this.#isClosed = true;
      if (error.code !== "EPIPE") this.#failure = error;
    });
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true;
  }

  /** How many columns a table may have. Unlimited where nobody looks at it. */
  get columns(): number {
    return this.isTerminal ? Math.max(this.#stream.columns || 80, 40) : Number.POSITIVE_INFINITY;
  }

  /** Whether whoever read this has gone: a loop that only shows things can stop. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  async line(text = ""): Promise<void> {
    this.#pending += `${text}\n`;
    if (this.#pending.length >= this.#options.flushAt) await this.flush();
  }

  /** @throws {CommandError} It can't be written, and not because nobody reads it. */
  async flush(): Promise<void> {
    const text = this.#pending;
    this.#pending = "";
    if (text !== "" && !this.#isClosed) await new Promise<void>((resolve) => this.#stream.write(text, () => resolve()));
    if (this.#failure === undefined || !this.#options.mustArrive) return;
    const code = this.#failure instanceof Error && "code" in this.#failure ? String(this.#failure.code) : "an error";
    throw new CommandError(
      ExitCode.failed,
      `Could not write to ${this.#options.name}: ${code}. What is stored is intact; free some space or write elsewhere, then run it again.`,
      { cause: this.#failure },
    );
  }
}

/** https://no-color.org and https://force-color.org; otherwise colours are for terminals. */
function wantsColor(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0";
  return stream.isTTY === true && TERM !== "dumb";
}
