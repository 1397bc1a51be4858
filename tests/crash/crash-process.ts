import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { plain, type Question, type StoreKind } from "./operations.js";
import { parseRecord, type SystemCall } from "./system-calls.js";

/** scripts/crash.mjs bundles the program into fewer files, which start faster. */
const PROGRAM = process.env["WAYMARK_CRASH_PROGRAM"] ?? fileURLToPath(new URL("program.mjs", import.meta.url));

/** Far more than any process needs. One that hasn't ended by then never will, and its answers are missing. */
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
  /** The lines of its history: two for each call that was answered, one for the call that was interrupted. */
  readonly history: readonly string[];
  /** The process's stderr. */
  readonly stderr: string;
  readonly signal: NodeJS.Signals | null;
}

/** What happens instead of the system call. */
export interface Injection {
  readonly call: Pick<SystemCall, "name" | "ordinal" | "thread">;
  readonly fault: "signal=KILL" | `error=${string}`;
}

/** The calls that strace recorded. */
export interface Recording {
  /** Names, and sets of names as strace knows them. */
  readonly calls: readonly string[];
  /** Including the written bytes. */
  readonly data?: boolean;
  readonly injection?: Injection;
  /**
   * The thread whose calls the fault must meet. Each thread counts its own calls, and an injection meets the one that
   * reaches the number first. So that thread first makes its count run ahead, by calls that do nothing.
   */
  readonly thread: SystemCall["thread"];
}

export interface Recorded extends Ended {
  readonly all: readonly SystemCall[];
  /** Only from the moment when the program was loaded. */
  readonly ofStore: readonly SystemCall[];
}

/** Why nothing can be recorded here; `undefined` if it can. */
export const noStrace = whyNoStrace();

/** Makes the calls in a process of its own, on the store in that folder. */
export async function inProcess(kind: StoreKind, folder: string, calls: readonly Question[]): Promise<Ended> {
  return run([process.execPath, PROGRAM, kind, folder], calls, {});
}

/** The same, under strace. */
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

/** The strace command line that records the program after it. */
export function straceCommand(record: string, { calls, data = false, injection }: Omit<Recording, "thread">): string[] {
  const command = ["strace", "-f", "-qq", "-xx", "-s", data ? "16777216" : "0", "-o", record];
  command.push("-e", `trace=${["access", "faccessat", "faccessat2", ...calls].map((name) => `?${name}`).join(",")}`);
  // Makes the process stop only at recorded calls. A signal can't be injected then.
  if (injection?.fault !== "signal=KILL") command.push("--seccomp-bpf");
  if (injection) command.push("-e", `inject=${injection.call.name}:${injection.fault}:when=${injection.call.ordinal}`);
  return command;
}

async function run(
  [command = "", ...args]: readonly string[],
  calls: readonly Question[],
  environment: NodeJS.ProcessEnv,
): Promise<Ended> {
  // A group of its own, so that the traced program ends with strace.
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
  // Until the process has ended, no other process can have its number.
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
