import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { type Command, type CommandLine, type ProcessEnd, startCommand, type WatchOptions } from "./command.js";
import { CommandOutput, type OutputSink } from "./command-output.js";

export interface RunOptions extends WatchOptions {
  /** After how many milliseconds the whole process group is ended. Default: never. */
  readonly timeoutMs?: number | undefined;
  /** Ends the whole process group when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Keeps the output, within bounds. Default: 64 KiB of each stream. */
  readonly output?: CommandOutput | undefined;
  /** Where the output is shown while the command runs. Default: nowhere. */
  readonly stdout?: OutputSink | undefined;
  readonly stderr?: OutputSink | undefined;
}

export interface CommandResult {
  /** Null if a signal, the timeout or an abort ended it. */
  readonly exitCode: number | null;
  /** The signal that ended it, if one did. */
  readonly signal: NodeJS.Signals | null;
  /** Bounded; says what was cut. */
  readonly stdout: string;
  /** See {@link CommandOutput}. */
  readonly stdoutEnd: string;
  readonly stderr: string;
  readonly timedOut: boolean;
  /** `signal` aborted before it had ended, or while it was ended for its timeout: its outcome means nothing. */
  readonly aborted: boolean;
}

const DEFAULT_OUTPUT_BYTES = 64 * 1024;

/** How long its output may stay open once its group is gone. Only a process that has left the group holds it then. */
const DRAIN_WAITS = 20;
const DRAIN_WAIT_MS = 50;

/**
 * Runs a command in a process group of its own, passes its output on while it runs, and resolves when nothing of the
 * group is left. Unix only.
 *
 * If this process dies, by SIGKILL too, a watchdog ends the group: SIGTERM, and after `killGraceMs` SIGKILL. So nothing of
 * the command goes on as an orphan, unless it left its group (`setsid`).
 *
 * Processes that the command leaves in its group (a server started with `&`) are ended with it, or the next run of the
 * command would meet them.
 *
 * The last lines of `stderr`, in brackets, say what is worth knowing besides the exit code.
 *
 * @example
 * ```ts
 * import { runCommand } from "waymark-runners/processes";
 *
 * const { exitCode, stdout } = await runCommand({ command: "npm test" }, { timeoutMs: 600_000 });
 * ```
 *
 * @returns Also if the command failed: its exit code tells.
 * @throws {ProcessStartError} The command can't be started, and nothing of it runs.
 */
export async function runCommand(line: CommandLine, options: RunOptions = {}): Promise<CommandResult> {
  const { output = new CommandOutput(DEFAULT_OUTPUT_BYTES), timeoutMs, signal } = options;
  try {
    const command = await startCommand(line, options);
    const stdout = new Pump(command.stdout, options.stdout, (chunk) => output.push("stdout", chunk));
    const stderr = new Pump(command.stderr, options.stderr, (chunk) => output.push("stderr", chunk));
    const { end, endedBy } = await endOf(command, options);
    for (const pump of [stdout, stderr]) pump.hurry();
    const hasLeft = await command.end({ isOver: true });
    const held = await Promise.all([stdout.close(), stderr.close()]);

    const last = await command.lastStatement();
    if (endedBy === "timeout") {
      const running = last === undefined ? "" : `, while this was running: ${last}`;
      stderr.note(`timed out after ${timeoutMs} ms; its process group was ended${running}`);
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
  /** The reason why we ended it. */
  readonly endedBy: "timeout" | "abort" | undefined;
}

/** Waits until the command has ended: by itself, or because we ended it. */
async function endOf(command: Command, { timeoutMs, signal }: RunOptions): Promise<CommandEnd> {
  let endedBy: CommandEnd["endedBy"];
  const stop = (why: "timeout" | "abort") => {
    endedBy ??= why;
    void command.end({ isOver: false });
  };
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop("timeout"), timeoutMs);
  const abort = () => stop("abort");
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  const end = await command.ended;
  clearTimeout(timer);
  signal?.removeEventListener("abort", abort);
  return { end, endedBy };
}

/** One stream of a command, on its way to the terminal and to what is kept. */
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

  /** From now on nothing waits for the terminal: the rest is no more than a pipe holds. */
  hurry(): void {
    this.#isHurried = true;
    this.#stream.resume();
  }

  /** Waits for the rest of the stream. Returns whether somebody still held it open. */
  async close(): Promise<boolean> {
    // Several short waits: if this process was held up itself, it reads between them what has come long ago.
    for (let waits = 0; waits < DRAIN_WAITS && !this.#stream.closed; waits++) {
      await Promise.race([this.#closed, delay(DRAIN_WAIT_MS)]);
    }
    const isOpen = !this.#stream.closed;
    this.#stream.destroy();
    return isOpen;
  }

  /** Adds a line of ours. */
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
