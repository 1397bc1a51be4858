import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { execa } from "execa";
import type { CommandLine } from "../../../runners/src/processes/command.js";
import { CommandOutput, type OutputSink } from "../../../runners/src/processes/command-output.js";
import { type RunOptions, runCommand } from "../../../runners/src/processes/run-command.js";
import { deferred } from "../../support/deferred.js";
import { tempFolder } from "../../support/temp-folder.js";

/** A sink that lets a test wait for a process's output, which is the only clock of these tests. */
export class WatchedSink implements OutputSink {
  #text = "";
  #waiting: { readonly pattern: RegExp; readonly resolve: (match: RegExpExecArray) => void }[] = [];

  write(chunk: Buffer): undefined {
    this.#text += chunk.toString("utf8");
    this.#waiting = this.#waiting.filter(({ pattern, resolve }) => {
      const match = pattern.exec(this.#text);
      if (match !== null) resolve(match);
      return match === null;
    });
  }

  end(): void {}

  /** Resolves with the pattern's first group, once the output matches. */
  async until(pattern: RegExp): Promise<string> {
    const { promise, resolve } = deferred<RegExpExecArray>();
    this.#waiting.push({ pattern, resolve });
    this.write(Buffer.alloc(0));
    return (await promise)[1] ?? "";
  }
}

/** Runs a command, and returns its output while it runs. */
export function run(command: string, options: Partial<CommandLine & RunOptions & { maxOutputBytes: number }> = {}) {
  const [stdout, stderr] = [new WatchedSink(), new WatchedSink()];
  const line: CommandLine = { shell: "bash", command, strict: true, cwd: "/", ...options };
  const output = new CommandOutput(options.maxOutputBytes ?? 1_000, options.maxOutputBytes === 0 ? 9 : 0);
  const { signal } = new AbortController();
  const result = runCommand(line, { killGraceMs: 5_000, signal, output, stdout, stderr, ...options });
  return { result, stdout, stderr };
}

/** A named pipe. Processes that hold it open for writing are alive, so a test waits for their end by reading it. */
export class LifeLine {
  readonly path: string;
  /** Resolves when every process that held it has ended, once the first has opened it. */
  readonly closed: Promise<void>;

  private constructor(path: string) {
    this.path = path;
    this.closed = execa("cat", [path]).then(() => {});
  }

  static async create(): Promise<LifeLine> {
    const path = join(await tempFolder(), "alive");
    await promisify(execFile)("mkfifo", [path]);
    return new LifeLine(path);
  }
}

/** Whether a process with this pid is running. A zombie doesn't count. */
export function isAlive(pid: string): boolean {
  try {
    process.kill(Number(pid), 0);
    return process.platform !== "linux" || !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
