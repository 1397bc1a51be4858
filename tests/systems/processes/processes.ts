import { readdir, readlink, realpath } from "node:fs/promises";
import { HeldProcess, type HeldProcessOptions } from "../../../systems/processes/held-process.js";
import type { OutputSink } from "../../../systems/processes/output-sink.js";
import type { ProcessIdentity } from "../../../systems/processes/process-group.js";
import { findProcess } from "../../../systems/processes/process-table.js";
import { type RunOptions, runCommand } from "../../../systems/processes/run-command.js";
import { deferred } from "../../support/deferred.js";

/** A sink that lets a test wait for what a process writes: its output is the only clock that tests go by. */
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

  /** Resolves with the first group of the pattern, once the output has it. */
  async until(pattern: RegExp): Promise<string> {
    const { promise, resolve } = deferred<RegExpExecArray>();
    this.#waiting.push({ pattern, resolve });
    this.write(Buffer.alloc(0));
    return (await promise)[1] ?? "";
  }
}

export function start(command: string, options: Partial<HeldProcessOptions> = {}): Promise<HeldProcess> {
  return HeldProcess.start({ shell: "bash", command, strict: true, cwd: "/", ...options });
}

/** Lets a command go, with what it writes as it comes. */
export function running(held: HeldProcess, options: Partial<RunOptions> = {}) {
  const [stdout, stderr] = [new WatchedSink(), new WatchedSink()];
  const { signal } = new AbortController();
  const result = runCommand(held, { killGraceMs: 5_000, maxOutputBytes: 1_000, signal, stdout, stderr, ...options });
  return { result, stdout, stderr };
}

/** The identity of the process whose pid a command has written. */
export async function identify(pid: string): Promise<ProcessIdentity> {
  const entry = await findProcess(Number(pid));
  if (entry === undefined) throw new Error(`There is no process ${pid}`);
  return entry;
}

/** Whether a process of that pid is running; one that has ended and was not collected isn't. */
export async function isAlive(pid: string): Promise<boolean> {
  return (await findProcess(Number(pid)))?.zombie === false;
}

/** The processes that run in a folder; only Linux tells. */
export async function processesIn(folder: string): Promise<string[]> {
  if (process.platform !== "linux") return [];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const path = await realpath(folder);
  const folders = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => undefined)));
  return pids.filter((_pid, i) => folders[i] === path);
}
