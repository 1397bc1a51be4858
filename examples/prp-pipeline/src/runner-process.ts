import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { RUNNER, type RunFolder } from "./run-folder.js";

/** A run that has ended. Either `exitCode` or `signal` is set. */
export interface Run {
  readonly pid: number;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Everything that the run, its coder and its gates wrote to stderr. */
  readonly stderr: string;
}

/** A process of `node dist/run.js <folder>`, which executes or resumes the PRP. */
export class RunnerProcess {
  /** The stdout of the run, its coder and its gates. Read it at once. */
  readonly lines: AsyncIterable<string>;
  readonly ended: Promise<Run>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, stdout: Readable, ended: Promise<Run>) {
    this.#child = child;
    this.lines = createInterface({ input: stdout });
    this.ended = ended;
  }

  static async start(folder: RunFolder): Promise<RunnerProcess> {
    const startedAtMs = Date.now();
    const child = spawn(process.execPath, [RUNNER, folder.path], {
      stdio: ["ignore", "pipe", "pipe"],
      // In its own process group, the run gets only the one signal that we pass on. Otherwise, it would also get the
      // terminal's Ctrl-C, and a second signal makes it stop at once.
      detached: true,
    });
    const { pid } = child;
    if (pid === undefined) {
      const [error]: unknown[] = await once(child, "error");
      throw error;
    }
    const exited = once(child, "exit").then(() => Date.now());
    const ended = Promise.all([exited, text(child.stderr)]).then(([endedAtMs, stderr]) => {
      return { pid, startedAtMs, endedAtMs, exitCode: child.exitCode, signal: child.signalCode, stderr };
    });
    return new RunnerProcess(child, child.stdout, ended);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}
