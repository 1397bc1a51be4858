import { StringDecoder } from "node:string_decoder";
import type { OutputSink } from "../processes/command-output.js";

/** Longer lines come in pieces, so that memory stays bounded. */
const MAX_LINE_LENGTH = 64 * 1024;
const MAX_TAIL_LINE_LENGTH = 2_000;

/** Splits one stream of a command into lines as they arrive. */
export class OutputLines implements OutputSink {
  readonly #decoder = new StringDecoder("utf8");
  readonly #tell: (line: string) => void;
  #begun = "";

  constructor(tell: (line: string) => void) {
    this.#tell = tell;
  }

  write(chunk: Buffer): undefined {
    this.#push(this.#decoder.write(chunk));
  }

  end(): void {
    this.#push(this.#decoder.end());
    if (this.#begun !== "") this.#tell(this.#begun);
    this.#begun = "";
  }

  #push(text: string): void {
    const lines = `${this.#begun}${text}`.split("\n");
    this.#begun = lines.pop() ?? "";
    for (const line of lines) this.#tell(line.endsWith("\r") ? line.slice(0, -1) : line);
    while (this.#begun.length > MAX_LINE_LENGTH) {
      this.#tell(this.#begun.slice(0, MAX_LINE_LENGTH));
      this.#begun = this.#begun.slice(MAX_LINE_LENGTH);
    }
  }
}

/** The last lines of a command's output, stdout and stderr together. */
export class OutputTail {
  readonly #maxLines: number;
  #lines: string[] = [];

  constructor(maxLines: number) {
    this.#maxLines = maxLines;
  }

  push(line: string): void {
    this.#lines.push(line.length > MAX_TAIL_LINE_LENGTH ? `${line.slice(0, MAX_TAIL_LINE_LENGTH)}…` : line);
    if (this.#lines.length > 2 * this.#maxLines) this.#lines = this.lines();
  }

  lines(): string[] {
    return this.#maxLines === 0 ? [] : this.#lines.slice(-this.#maxLines);
  }
}
