import { StringDecoder } from "node:string_decoder";
import { BoundedCapture } from "./bounded-capture.js";

/** Shows one stream of a command. A chunk may end within a character. */
export interface OutputSink {
  /** @returns A promise if the writer must wait until the terminal has caught up. */
  write(chunk: Buffer): Promise<void> | undefined;
  end(): void;
}

/** A command's output so far, kept within bounds. */
export class CommandOutput {
  readonly stdout: BoundedCapture;
  readonly stderr: BoundedCapture;
  /** The end of stdout, where callers look for an answer. */
  readonly stdoutEnd: BoundedCapture;
  readonly startedMs = performance.now();
  /** The bytes of both streams, whether kept or not. */
  bytes = 0;
  lastAt: Date | undefined;

  /**
   * @param maxBytes - How much of stdout and of stderr is kept.
   * @param endBytes - How much of the end of stdout is kept in addition. Default: 0.
   */
  constructor(maxBytes: number, endBytes = 0) {
    this.stdout = new BoundedCapture(maxBytes);
    this.stderr = new BoundedCapture(maxBytes);
    this.stdoutEnd = new BoundedCapture(endBytes, 0);
  }

  push(stream: "stdout" | "stderr", chunk: Buffer): void {
    this[stream].push(chunk);
    if (stream === "stdout") this.stdoutEnd.push(chunk);
    this.bytes += chunk.length;
    this.lastAt = new Date();
  }
}

/** Returns a sink that passes on whole characters. The last call of `pass` may get an empty text. */
export function textSink(pass: (text: string) => void): OutputSink {
  const decoder = new StringDecoder("utf8");
  return {
    write(chunk) {
      pass(decoder.write(chunk));
      return undefined;
    },
    end: () => pass(decoder.end()),
  };
}
