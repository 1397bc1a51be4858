import pc from "picocolors";
import { CommandError, ExitCode } from "./exit-code.js";

type Colors = ReturnType<typeof pc.createColors>;

/** A stream of the process, or a replacement for one. */
export type OutputStream = NodeJS.WritableStream & {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
};

export interface OutputOptions {
  /** The name for messages: `standard output`. */
  readonly name: string;
  /** How many characters to buffer before writing them; 0 writes each line at once. */
  readonly flushAt: number;
  /** Whether a failed write is an error. */
  readonly mustArrive: boolean;
}

/**
 * Standard output or standard error. It may buffer text, and writes as fast as the reader takes it. A reader that is
 * gone (`| head`) isn't an error: later text is dropped, and `isClosed` is true.
 */
export class Output {
  readonly #stream: OutputStream;
  readonly #options: OutputOptions;
  readonly colors: Colors;
  #pending = "";
  #isClosed = false;
  #failure: unknown;

  constructor(stream: OutputStream, options: OutputOptions) {
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

  /** How many columns a table may have. Unlimited if the output is not a terminal. */
  get columns(): number {
    return this.isTerminal ? Math.max(this.#stream.columns || 80, 40) : Number.POSITIVE_INFINITY;
  }

  /** How many rows the terminal has. Unlimited if the output is not a terminal. */
  get rows(): number {
    return this.isTerminal ? this.#stream.rows || 24 : Number.POSITIVE_INFINITY;
  }

  /** Whether the reader is gone. A loop that only prints can then stop. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  async line(text = ""): Promise<void> {
    await this.text(`${text}\n`);
  }

  /** Prints text without ending the line, unlike {@link line}. */
  async text(text: string): Promise<void> {
    this.#pending += text;
    if (this.#pending.length >= this.#options.flushAt) await this.flush();
  }

  /** @throws {CommandError} A write failed, and not because the reader is gone. */
  async flush(): Promise<void> {
    const text = this.#pending;
    this.#pending = "";
    if (text !== "" && !this.#isClosed) await new Promise<void>((resolve) => this.#stream.write(text, () => resolve()));
    if (this.#failure === undefined || !this.#options.mustArrive) return;
    const code = this.#failure instanceof Error && "code" in this.#failure ? String(this.#failure.code) : "an error";
    throw new CommandError(
      ExitCode.failed,
      `Could not write to ${this.#options.name}: ${code}. The storage is intact; free some space or write elsewhere, then run it again.`,
      { cause: this.#failure },
    );
  }
}

/** Follows https://no-color.org and https://force-color.org; otherwise only terminals get colours. */
function wantsColor(stream: OutputStream): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0";
  return stream.isTTY === true && TERM !== "dumb";
}
