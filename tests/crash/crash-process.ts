import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { plain, type Question, type StoreKind } from "./operations.js";
import { parseRecord, type SystemCall } from "./system-calls.js";

/** The path of the program. scripts/crash.mjs bundles it into fewer files, which start faster. */
const PROGRAM = process.env["WAYMARK_CRASH_PROGRAM"] ?? fileURLToPath(new URL("program.mjs", import.meta.url));

/** Far more time than any process needs. A process that takes longer hangs, and its answers are missing. */
export const HANGING_MS = 120_000;

/** The result or error of a call in another process. */
export interface Answer {
  readonly value?: unknown;
  readonly code?: string;
  readonly message?: string;
  readonly retryable?: boolean;
}

export interface Ended {
  readonly answers: readonly Answer[];
  /** The lines of the history: two for each answered call, one for the interrupted call. */
  readonly history: readonly string[];
  /** The process's stderr. */
  readonly stderr: string;
  readonly signal: NodeJS.Signals | null;
}

/** A fault that replaces a system call. */
export interface Injection {
  readonly call: Pick<SystemCall, "name" | "ordinal" | "thread">;
  readonly fault: "signal=KILL" | `error=${string}`;
}

/** The calls that strace recorded. */
export interface Recording {
  /** Names of calls, or of strace's sets of calls. */
  readonly calls: readonly string[];
  /** Whether to record the written bytes. */
  readonly data?: boolean;
  readonly injection?: Injection;
  /**
   * The thread whose calls the fault must meet. strace counts the calls of each thread, and the injection meets the
   * thread that reaches the number first. To be first, this thread raises its count with calls that do nothing.
   */
  readonly thread: SystemCall["thread"];
}

export interface Recorded extends Ended {
  readonly all: readonly SystemCall[];
  /** Only the calls after the program was loaded. */
  readonly ofStore: readonly SystemCall[];
}

/** The reason why strace can't be used here; `undefined` if it can. */
export const noStrace = whyNoStrace();

/** Makes the calls in a new process, on the store in the folder. */
export async function inProcess(kind: StoreKind, folder: string, calls: readonly Question[]): Promise<Ended> {
  return run([process.execPath, PROGRAM, kind, folder], calls, {});
}

/** Makes the calls in a new process under strace. */
export async function recorded(
  kind: StoreKind,
  folder: string,
  calls: readonly Question[],
  recording: Recording,
): Promise<Recorded> {
  const record = `${folder}.strace`;
  const command = straceCommand(record, recording);
  const environment = { UV_THREADPOOL_SIZE: "1", RUN_AHEAD: recording.thread };
  const ended = await run([...command, process.execPath, PROGRAM, kind, folder], calls, environment);
  const parsed = parseRecord(await readFile(record, "utf8"));
  await rm(record);
  return { ...ended, ...parsed };
}

/** Returns the beginning of a strace command line, to be followed by the program. */
export function straceCommand(record: string, { calls, data = false, injection }: Omit<Recording, "thread">): string[] {
  const command = ["strace", "-f", "-qq", "-xx", "-s", data ? "16777216" : "0", "-o", record];
  command.push("-e", `trace=${["access", "faccessat", "faccessat2", ...calls].map((name) => `?${name}`).join(",")}`);
  // With this option, the process stops only at recorded calls, but no signals can be injected.
  if (injection?.fault !== "signal=KILL") command.push("--seccomp-bpf");
  if (injection) command.push("-e", `inject=${injection.call.name}:${injection.fault}:when=${injection.call.ordinal}`);
  return command;
}

async function run(
  [command = "", ...args]: readonly string[],
  calls: readonly Question[],
  environment: NodeJS.ProcessEnv,
): Promise<Ended> {
  // strace gets its own process group, so that the traced program ends with it.
  const child = spawn(command, args, {
    stdio: ["pipe", "pipe", "pipe", "pipe"],
    detached: true,
    env: { ...process.env, ...environment },
  });
  const ended = once(child, "close");
  const isHanging = setTimeout(() => killGroup(child), HANGING_MS);
  // The process may have been killed before it read its calls.
  child.stdin.on("error", () => undefined).end(JSON.stringify(plain(calls)));
  const outputs = [child.stdout, child.stderr, child.stdio[3] as Readable].map((output) => text(output));
  const [stdout = "", stderr = "", history = ""] = await Promise.all([...outputs, ended.then(() => "")]).finally(() =>
    clearTimeout(isHanging),
  );
  const answers = stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Answer]));
  return { answers, history: history.split("\n"), stderr, signal: child.signalCode };
}

/** Kills a process that leads a group, with the whole group. */
export function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  // As long as the process hasn't ended, no other process can have its id.
  if (exitCode === null && signalCode === null && pid !== undefined) process.kill(-pid, "SIGKILL");
}

function whyNoStrace(): string | undefined {
  if (process.platform !== "linux") return `strace is for Linux, and this is ${process.platform}`;
  try {
    const inject = ["-e", "inject=getcwd:error=EIO:when=65535", "-e", "trace=getcwd"];
    execFileSync("strace", ["-f", "-qq", "-o", "/dev/null", ...inject, "true"], { stdio: "pipe" });
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    return `strace is not installed, or may not be used here (${reason})`;
  }
}
