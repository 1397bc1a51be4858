import { type OutputSink, textSink } from "../processes/command-output.js";

/** Longer lines are split, so that memory stays bounded. */
const MAX_LINE_LENGTH = 64 * 1024;
const MAX_TAIL_LINE_LENGTH = 2_000;

/** Returns a sink that splits one stream of a command into lines as they arrive. */
export function lineSink(tell: (line: string) => void): OutputSink {
  let begun = "";
  const sink = textSink((text) => {
    const lines = `${begun}${text}`.split("\n");
    begun = lines.pop() ?? "";
    for (const line of lines) tell(line.endsWith("\r") ? line.slice(0, -1) : line);
    for (; begun.length > MAX_LINE_LENGTH; begun = begun.slice(MAX_LINE_LENGTH)) tell(begun.slice(0, MAX_LINE_LENGTH));
  });
  return {
    write: sink.write,
    end() {
      sink.end();
      if (begun !== "") tell(begun);
    },
  };
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
