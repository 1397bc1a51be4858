import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { onAbort } from "waymark/kit";
import { type Command, type CommandLine, type ProcessEnd, startCommand, type WatchOptions } from "./command.js";
import { CommandOutput, type OutputSink } from "./command-output.js";

export interface RunOptions extends WatchOptions {
  /** The time after which the whole process group is ended, in milliseconds. Default: never. */
  readonly timeoutMs?: number | undefined;
  /** Ends the whole process group when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Keeps the output within bounds. Default: 64 KiB of each stream. */
  readonly output?: CommandOutput | undefined;
  /** Shows the output while the command runs. Default: it isn't shown. */
  readonly stdout?: OutputSink | undefined;
  readonly stderr?: OutputSink | undefined;
}

export interface CommandResult {
  /** Null if a signal, the timeout or an abort ended the command. */
  readonly exitCode: number | null;
  /** The signal that ended the command, if any. */
  readonly signal: NodeJS.Signals | null;
  /** Bounded. The text says how much was cut. */
  readonly stdout: string;
  /** See {@link CommandOutput}. */
  readonly stdoutEnd: string;
  readonly stderr: string;
  readonly timedOut: boolean;
  /**
   * True if `signal` aborted before the command had ended, or while its timeout was ending it. The outcome then means
   * nothing.
   */
  readonly aborted: boolean;
}

const DEFAULT_OUTPUT_BYTES = 64 * 1024;

/**
 * How long the output may stay open after the command's group is gone: only a process that left the group still holds
 * it.
 */
const DRAIN_WAITS = 20;
const DRAIN_WAIT_MS = 50;

/**
 * Runs a command in its own process group, and passes its output on while it runs. Resolves when the whole group has
 * ended. Unix only.
 *
 * If this process dies, even by SIGKILL, a watchdog ends the group: by SIGTERM, and after `killGraceMs` by SIGKILL.
 * So no process of the command is left behind, unless it left its group (`setsid`).
 *
 * When the command ends, the processes that it left in its group (a server started with `&`) are also ended. They would
 * disturb the next run of the command.
 *
 * `stderr` may end with lines that Waymark adds in brackets, with facts that the exit code doesn't show.
 *
 * @example
 * ```ts
 * import { runCommand } from "waymark-runners/processes";
 *
 * const { exitCode, stdout } = await runCommand({ command: "npm test" }, { timeoutMs: 600_000 });
 * ```
 *
 * @returns The result, even if the command failed: see its exit code.
 * @throws {ProcessStartError} The command can't be started, and no part of it runs.
 */
export async function runCommand(line: CommandLine, options: RunOptions = {}): Promise<CommandResult> {
  const { output = new CommandOutput(DEFAULT_OUTPUT_BYTES), timeoutMs, signal } = options;
  try {
    const command = await startCommand(line, options);
    const stdout = new Pump(command.stdout, options.stdout, (chunk) => output.push("stdout", chunk));
    const stderr = new Pump(command.stderr, options.stderr, (chunk) => output.push("stderr", chunk));
    const { end, endedBy } = await waitForEnd(command, options);
    for (const pump of [stdout, stderr]) pump.hurry();
    const hasLeft = await command.end({ isOver: true });
    const held = await Promise.all([stdout.close(), stderr.close()]);

    const last = await command.lastStatement();
    if (endedBy === "timeout") {
      const running = last === undefined ? "" : `, while this was running: ${last}`;
      stderr.note(`timed out after ${timeoutMs} ms; its process group was killed${running}`);
    }
    if (endedBy === undefined && end.exitCode !== 0 && last !== undefined) {
      stderr.note(`${end.exitCode === null ? "no exit code" : `exit code ${end.exitCode}`}; this failed: ${last}`);
    }
    if (endedBy === undefined && end.signal !== null) stderr.note(`ended by ${end.signal}`);
    if (endedBy === undefined && hasLeft) stderr.note("it left processes behind in its group, which were ended");
    if (held.includes(true)) stderr.note("a process outside its group holds its output open; the rest is not kept");
    return {
      exitCode: endedBy === undefined ? end.exitCode : null,
      signal: end.signal,
      stdout: output.stdout.text(),
      stdoutEnd: output.stdoutEnd.text(),
      stderr: output.stderr.text(),
      timedOut: endedBy === "timeout",
      aborted: endedBy === "abort" || (endedBy === "timeout" && signal?.aborted === true),
    };
  } finally {
    options.stdout?.end();
    options.stderr?.end();
  }
}

interface CommandEnd {
  readonly end: ProcessEnd;
  /** Why the caller's options ended the command. */
  readonly endedBy: "timeout" | "abort" | undefined;
}

/** Waits until the command has ended by itself, by timeout or by abort. */
async function waitForEnd(command: Command, { timeoutMs, signal }: RunOptions): Promise<CommandEnd> {
  let endedBy: CommandEnd["endedBy"];
  const stop = (why: "timeout" | "abort") => {
    endedBy ??= why;
    void command.end({ isOver: false });
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop("timeout"), timeoutMs);
  const unfollow = signal && onAbort(signal, () => stop("abort"));
  const end = await command.ended;
  clearTimeout(timer);
  unfollow?.();
  return { end, endedBy };
}

/** Passes one stream of a command to the terminal and to the kept output. */
class Pump {
  readonly #stream: Readable;
  readonly #sink: OutputSink | undefined;
  readonly #keep: (chunk: Buffer) => void;
  readonly #closed: Promise<void>;
  #isHurried = false;
  #lastByte = NEWLINE;

  constructor(stream: Readable, sink: OutputSink | undefined, keep: (chunk: Buffer) => void) {
    this.#stream = stream;
    this.#sink = sink;
    this.#keep = keep;
    this.#closed = new Promise((resolve) => {
      stream.once("close", resolve);
    });
    stream.on("error", ({ message }) => this.note(`its output can't be read to the end: ${message}`));
    stream.on("data", (chunk: Buffer) => {
      const caughtUp = this.#push(chunk);
      if (caughtUp === undefined || this.#isHurried) return;
      stream.pause();
      void caughtUp.then(() => stream.resume());
    });
  }

  /** Stops waiting for the terminal, because the rest is no more than a pipe holds. */
  hurry(): void {
    this.#isHurried = true;
    this.#stream.resume();
  }

  /** Waits for the rest of the stream. Returns whether a process still held it open. */
  async close(): Promise<boolean> {
    // Waits briefly several times. If this process was held up, data that arrived long ago is read between the waits.
    for (let waits = 0; waits < DRAIN_WAITS && !this.#stream.closed; waits++) {
      await Promise.race([this.#closed, delay(DRAIN_WAIT_MS)]);
    }
    const isOpen = !this.#stream.closed;
    this.#stream.destroy();
    return isOpen;
  }

  /** Adds a line from Waymark itself. */
  note(text: string): void {
    void this.#push(Buffer.from(`${this.#lastByte === NEWLINE ? "" : "\n"}[waymark: ${text}]\n`));
  }

  #push(chunk: Buffer): Promise<void> | undefined {
    this.#lastByte = chunk.at(-1) ?? NEWLINE;
    this.#keep(chunk);
    return this.#sink?.write(chunk);
  }
}

const NEWLINE = 10;
