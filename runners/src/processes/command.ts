import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type FileHandle, open, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { type Readable, Writable } from "node:stream";
import { types } from "node:util";
import { WATCHDOG, WATCHDOG_POLL_MS } from "./watchdog.js";

/** A command line and the shell that runs it. */
export interface CommandLine {
  readonly command: string;
  /** Default `sh`. */
  readonly shell?: "sh" | "bash" | undefined;
  /** Whether the command ends and fails at its first failing line. Default false. */
  readonly strict?: boolean | undefined;
  /**
   * Returns the name of one of the command's statements, so that a failure or a timeout can name the one that ran. At
   * the beginning of each statement, the command must write the statement's number and a line break to file descriptor
   * 9.
   */
  readonly nameStatement?: ((index: number) => string | undefined) | undefined;
  /** The folder where the command runs. Default: the current folder. */
  readonly cwd?: string | undefined;
  /** Variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The text that the command reads on stdin. Default: none. */
  readonly input?: string | undefined;
}

export interface WatchOptions {
  /** The time between SIGTERM and SIGKILL for the command's process group, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** A file descriptor that stays open until the whole group has ended, even if this process is killed. */
  readonly holds?: number | undefined;
}

/** How a process ended. Either `exitCode` or `signal` is set; the other one is null. */
export interface ProcessEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** The command could not be started: its folder or its shell is missing, or there are too many processes. */
export class ProcessStartError extends Error {
  override readonly name = "ProcessStartError";
  readonly reason: string;

  constructor(reason: string, cause?: unknown) {
    super(`The command could not be started: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** A command that runs in its own process group. If this process dies, a watchdog ends the group. */
export interface Command {
  /** Read this and `stderr` to the end: a full pipe blocks the command. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the command itself has ended. Processes that it started may still run. */
  readonly ended: Promise<ProcessEnd>;
  /** Returns the name of the statement that began last, if the command line has `nameStatement`. */
  lastStatement(): Promise<string | undefined>;
  /**
   * Ends the whole group. If the command has already ended, ends the processes that it left in the group. Resolves when
   * none is left.
   *
   * @returns Whether there was anything to end.
   */
  end(options: { readonly isOver: boolean }): Promise<boolean>;
}

/**
 * Starts a command in its own process group, under a watchdog. The watchdog is a small shell that ends the whole group
 * if this process dies, even by SIGKILL. {@link runCommand} also collects the output and waits for the end. Unix only.
 *
 * The caller must listen to both streams in the same turn of the event loop, and call `end` once the command is no
 * longer needed.
 *
 * @throws {ProcessStartError} The command can't be started, and no part of it runs.
 */
export async function startCommand(line: CommandLine, options: WatchOptions = {}): Promise<Command> {
  const { cwd = process.cwd(), env, shell = "sh", input, nameStatement } = line;
  const { killGraceMs = 5_000, holds } = options;
  const folder = await stat(cwd).catch(refused(`its folder ${cwd} can't be entered`));
  if (!folder.isDirectory()) throw new ProcessStartError(`its working directory ${cwd} is not a folder`);
  const file =
    input === undefined
      ? undefined
      : await unnamedFile("input", "r", input).catch(refused("its input can't be written"));
  const numbers =
    nameStatement &&
    (await unnamedFile("statements", "a+", "").catch(refused("the file for its progress can't be created")));
  const tries = String(Math.ceil(killGraceMs / WATCHDOG_POLL_MS));
  const started: ChildProcess[] = [];
  try {
    const watchdog = spawn("/bin/sh", ["-c", WATCHDOG, "waymark-watchdog", tries], {
      cwd: "/",
      // The watchdog gets its own session, so signals to this process or to the command's group don't reach it.
      detached: true,
      stdio: ["pipe", holds ?? "ignore", "ignore"],
    });
    started.push(watchdog);
    const child = spawn(shell, ["-c", WAIT, "waymark", ...makeArguments(line)], {
      cwd,
      // The command gets its own group, which can be ended as a whole. Ctrl-C in the terminal doesn't reach it.
      detached: true,
      env: { ...process.env, ...env, PATH: pathFrom(cwd) },
      stdio: [file?.fd ?? "ignore", "pipe", "pipe", "pipe", ...atStatementFd(numbers)],
    });
    started.push(child);
    const [watched, ended] = [waitForEnd(watchdog), waitForEnd(child)];
    const [group] = await Promise.all([waitForPid(child), waitForPid(watchdog)]);
    const { stdin: lifeline } = watchdog;
    const { stdout, stderr } = child;
    const go = child.stdio[3];
    if (!lifeline || !stdout || !stderr || !(go instanceof Writable)) throw new Error("it has no pipes");
    for (const pipe of [lifeline, go]) pipe.on("error", () => {}); // `watched` and `ended` show that a reader has ended.
    await file?.close();
    lifeline.write(`${group}\n`);
    // No `await` may stand between here and the first listener: if a process ends unread, Node discards its output.
    go.end("go\n");
    const isGone = watched.then(({ exitCode }) => {
      // A killed watchdog can't end the group when this process dies, so the group is ended now.
      if (exitCode === null) killGroup(group);
    });
    return {
      stdout,
      stderr,
      lastStatement: async () => {
        const index = numbers && (await readLastLine(numbers).finally(() => numbers.close()));
        return index ? nameStatement?.(Number(index)) : undefined;
      },
      ended: Promise.race([ended, isGone.then(() => ({ exitCode: null, signal: null }))]),
      end: async ({ isOver }) => {
        lifeline.end(isOver ? "over\n" : undefined);
        await isGone;
        return (await watched).exitCode !== 0;
      },
    };
  } catch (cause) {
    // Closing the pipes ends the waiting shell, and a watchdog that has no group yet.
    for (const pipe of started.flatMap(({ stdio }) => stdio ?? [])) pipe?.destroy();
    await numbers?.close();
    const isMissing = types.isNativeError(cause) && "code" in cause && cause.code === "ENOENT";
    throw new ProcessStartError(
      isMissing ? `there is no ${shell} in the folders of PATH` : describeCause(cause),
      cause,
    );
  } finally {
    await file?.close();
  }
}

/** The shell waits for a line before it executes the command, so that the watchdog has the group by then. */
const WAIT = 'IFS= read -r line <&3 || exit; exec 3<&-; exec "$@"';

function makeArguments({ shell = "sh", command, strict = false }: CommandLine): string[] {
  return [shell, ...(strict ? ["-e"] : []), "-c", command];
}

/**
 * The descriptor to which a command writes the number of each statement that begins. For their own use, commands have
 * the lower descriptors, up to 8.
 */
export const STATEMENT_FD = 9;

/** Returns the last line of a file of short lines. */
async function readLastLine(file: FileHandle): Promise<string> {
  const { size } = await file.stat();
  const end = Buffer.alloc(Math.min(size, 32));
  await file.read(end, 0, end.length, size - end.length);
  return end.toString("latin1").trimEnd().split("\n").at(-1) ?? "";
}

/** Returns `stdio` entries that put the file at {@link STATEMENT_FD}, after descriptors that are ignored. */
function atStatementFd(file: FileHandle | undefined): ("ignore" | number)[] {
  return file === undefined ? [] : [...Array.from({ length: STATEMENT_FD - 4 }, () => "ignore" as const), file.fd];
}

function waitForEnd(child: ChildProcess): Promise<ProcessEnd> {
  return new Promise((resolve) => {
    child.once("exit", (exitCode, signal) => resolve({ exitCode, signal }));
  });
}

async function waitForPid(child: ChildProcess): Promise<number> {
  if (child.pid !== undefined) return child.pid;
  const [error]: unknown[] = await once(child, "error");
  throw error;
}

function killGroup(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if (!(types.isNativeError(error) && "code" in error && error.code === "ESRCH")) throw error;
  }
}

/** Returns the PATH for a folder. As in npm scripts, the programs in `node_modules/.bin` come first. */
function pathFrom(cwd: string): string {
  const folders: string[] = [];
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    folders.push(join(folder, "node_modules", ".bin"));
    if (folder === dirname(folder)) break;
  }
  return [...folders, process.env["PATH"] ?? "/usr/bin:/bin"].join(delimiter);
}

/**
 * Returns an open file without a name. Input comes from a file because a pipe breaks if the command doesn't read it.
 * Also, a command can't open /dev/stdin if it is one of Node's pipes, which are sockets.
 */
async function unnamedFile(what: string, flags: "r" | "a+", text: string): Promise<FileHandle> {
  const path = join(tmpdir(), `waymark-${what}-${randomUUID()}`);
  try {
    const written = await open(path, "wx", 0o600);
    await written.writeFile(text).finally(() => written.close());
    return await open(path, flags);
  } finally {
    await rm(path, { force: true });
  }
}

function refused(what: string): (cause: unknown) => never {
  return (cause) => {
    throw new ProcessStartError(`${what}: ${describeCause(cause)}`, cause);
  };
}

/** Unlike the kit's function of this name, keeps the path. */
function describeCause(cause: unknown): string {
  return types.isNativeError(cause) ? cause.message : String(cause);
}
