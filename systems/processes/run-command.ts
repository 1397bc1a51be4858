import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { BoundedCapture } from "./bounded-capture.js";
import type { HeldProcess, ProcessEnd } from "./held-process.js";
import type { OutputSink } from "./output-sink.js";

export interface RunOptions {
  /** After so many milliseconds its whole group is ended. Default: never. */
  readonly timeoutMs?: number | undefined;
  /** How long a group has between SIGTERM and SIGKILL. */
  readonly killGraceMs: number;
  /** Ends the whole group when it aborts. */
  readonly signal: AbortSignal;
  /** At most so many bytes are kept of stdout, and of stderr. */
  readonly maxOutputBytes: number;
  /** Besides, so many bytes are kept of the end of stdout, for who looks for an answer there. Default: 0. */
  readonly endBytes?: number | undefined;
  readonly stdout: OutputSink;
  readonly stderr: OutputSink;
}

export interface CommandResult {
  /** Null where a signal, the timeout or an abort ended it. */
  readonly exitCode: number | null;
  /** What ended it, where a signal did. */
  readonly signal: NodeJS.Signals | null;
  /** Bounded; says what was cut. */
  readonly stdout: string;
  /** The end of stdout, up to `endBytes`. */
  readonly stdoutEnd: string;
  /** Bounded; its last lines, in brackets, say what is worth knowing besides the exit code. */
  readonly stderr: string;
  readonly timedOut: boolean;
  /**
   * It was ended because `signal` aborted, or that came while it was being ended for its timeout: its outcome means
   * nothing.
   */
  readonly aborted: boolean;
}

/**
 * How long output is waited for once its process has ended. All it wrote is in the pipe already; what comes later
 * comes from something it left behind, which may hold the pipe open for ever.
 */
const DRAIN_MS = 1_000;

/**
 * Lets a held process go, passes its output on while it runs, and resolves when it has ended. What it leaves behind in
 * its group (a server started with `&`) is ended with it: otherwise nobody would know of it, and the next run of the
 * same command would meet it.
 *
 * @throws {ProcessStuckError} Its group can't be ended.
 */
export async function runCommand(held: HeldProcess, options: RunOptions): Promise<CommandResult> {
  const stdout = new Pump(held.stdout, options.stdout, options.maxOutputBytes, options.endBytes);
  const stderr = new Pump(held.stderr, options.stderr, options.maxOutputBytes);
  try {
    const end = await endOf(held, options);
    const notes = [...notesOn(end, options), ...(await drain(held, [stdout, stderr], options.killGraceMs))];
    const lines = notes.map((note) => `[waymark: ${note}]\n`).join("");
    if (lines !== "") void options.stderr.write(Buffer.from(lines));
    return {
      exitCode: end.timedOut || end.aborted ? null : end.exitCode,
      signal: end.signal,
      stdout: stdout.text(),
      stdoutEnd: stdout.end(),
      stderr: withLastLines(stderr.text(), lines),
      timedOut: end.timedOut,
      // Who asks for an end while a timeout is under way doesn't want what the timeout would lead to.
      aborted: end.aborted || (end.timedOut && options.signal.aborted),
    };
  } finally {
    options.stdout.end();
    options.stderr.end();
  }
}

interface CommandEnd extends ProcessEnd {
  readonly timedOut: boolean;
  readonly aborted: boolean;
}

/** Lets it go, and waits until it has ended: by itself, or by us. */
async function endOf(held: HeldProcess, { timeoutMs, killGraceMs, signal }: RunOptions): Promise<CommandEnd> {
  let timedOut = false;
  let aborted = false;
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      // A group that can't be ended never reports its end either.
      held.end(killGraceMs).catch(reject);
    };
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => {
            timedOut = true;
            stop();
          }, timeoutMs);
    const abort = () => {
      // It is being ended already.
      if (timedOut) return;
      aborted = true;
      stop();
    };
    void held.ended.then((end) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      resolve({ ...end, timedOut, aborted });
    });
    signal.addEventListener("abort", abort, { once: true });
    held.release();
    if (signal.aborted) abort();
  });
}

function notesOn(end: CommandEnd, options: RunOptions): string[] {
  if (end.timedOut) return [`timed out after ${options.timeoutMs} ms; its process group was ended`];
  return end.signal === null || end.aborted ? [] : [`ended by ${end.signal}`];
}

/** Waits for the rest of the output, and ends what was left behind. Returns what there is to say about it. */
async function drain(held: HeldProcess, pumps: readonly Pump[], killGraceMs: number): Promise<string[]> {
  const notes: string[] = [];
  for (const pump of pumps) pump.hurry();
  const closed = Promise.all(pumps.map((pump) => pump.closed));
  await settlesWithin(closed, DRAIN_MS);
  if (await held.endRest(killGraceMs)) {
    notes.push("it left processes behind in its group, which were ended");
    await settlesWithin(closed, DRAIN_MS);
  }
  const stopped = pumps.map((pump) => pump.stop());
  if (stopped.includes(true)) notes.push("a process outside its group holds its output open; the rest is not kept");
  await closed;
  return notes;
}

/** One stream of a process, on its way to the terminal and to the checkpoint. */
class Pump {
  /** Resolves when nothing more comes. */
  readonly closed: Promise<void>;
  readonly #stream: Readable;
  readonly #capture: BoundedCapture;
  readonly #end: BoundedCapture | undefined;
  #hurried = false;
  #readError: Error | undefined;

  constructor(stream: Readable, sink: OutputSink, maxBytes: number, endBytes = 0) {
    this.#stream = stream;
    this.#capture = new BoundedCapture(maxBytes);
    this.#end = endBytes === 0 ? undefined : new BoundedCapture(endBytes, 0);
    this.closed = new Promise((resolve) => {
      stream.once("close", resolve);
    });
    stream.on("error", (error) => {
      this.#readError = error;
    });
    stream.on("data", (chunk: Buffer) => {
      this.#capture.push(chunk);
      this.#end?.push(chunk);
      const caughtUp = sink.write(chunk);
      if (caughtUp === undefined || this.#hurried) return;
      stream.pause();
      void caughtUp.then(() => stream.resume());
    });
  }

  /** From now on nothing waits for the terminal: what is left is no more than a pipe holds. */
  hurry(): void {
    this.#hurried = true;
    this.#stream.resume();
  }

  /** @returns Whether it was still open. */
  stop(): boolean {
    if (this.#stream.destroyed) return false;
    this.#stream.destroy();
    return true;
  }

  text(): string {
    const text = this.#capture.text();
    if (this.#readError === undefined) return text;
    return withLastLines(text, `[waymark: its output can't be read to the end: ${this.#readError.message}]\n`);
  }

  end(): string {
    return this.#end?.text() ?? "";
  }
}

async function settlesWithin(promise: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  await Promise.race([promise, delay(ms, undefined, { signal: timer.signal })]);
  timer.abort();
}

function withLastLines(text: string, lines: string): string {
  return text === "" || text.endsWith("\n") || lines === "" ? `${text}${lines}` : `${text}\n${lines}`;
}
