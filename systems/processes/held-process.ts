import { constants, type ReadStream } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { execa } from "execa";
import { nanoid } from "nanoid";
import { openInput } from "./input-file.js";
import { endGroup, GROUP_VARIABLE, type GroupIdentity, isGroupGoneWithin, signalGroup } from "./process-group.js";
import { findProcess } from "./process-table.js";

/** A command line and the shell that understands it. */
export interface ShellCommand {
  readonly shell: "sh" | "bash";
  readonly command: string;
  /** The first command that fails ends it, and fails it; under bash in the middle of a pipe too. */
  readonly strict: boolean;
}

export interface HeldProcessOptions extends ShellCommand {
  readonly cwd: string;
  /** What it reads on stdin. Default: nothing. */
  readonly input?: string | undefined;
}

/** How a process ended: one of the two is set. */
export interface ProcessEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process could not be started: its folder or its shell is missing, the disk is full, there are too many processes. */
export class ProcessStartError extends Error {
  override readonly name = "ProcessStartError";
  readonly reason: string;

  constructor(reason: string, cause?: unknown) {
    super(`The command could not be started: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** What has just closed its output is about to end by itself, and nothing that was left behind. */
const LAST_BREATH_MS = 100;

/** Waits for one line on descriptor 3, and becomes the command; if whoever holds the other end dies, it just ends. */
const HOLD = 'IFS= read -r go <&3 || exit 125; exec 3<&-; exec "$@"';

/**
 * A command in a process group of its own, started but held: it does nothing until `release`. So its identity can be
 * written to a checkpoint first, and there is no moment in which it works unknown to the next run. If this process
 * dies before `release`, the command never starts.
 */
export class HeldProcess {
  readonly identity: GroupIdentity;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the group's leader has ended; what it started may still run. */
  readonly ended: Promise<ProcessEnd>;
  readonly #decide: (go: boolean) => void;

  private constructor(
    parts: Pick<HeldProcess, "identity" | "stdout" | "stderr" | "ended">,
    decide: (go: boolean) => void,
  ) {
    this.identity = parts.identity;
    this.stdout = parts.stdout;
    this.stderr = parts.stderr;
    this.ended = parts.ended;
    this.#decide = decide;
  }

  /** @throws {ProcessStartError} It can't be started. */
  static async start(options: HeldProcessOptions): Promise<HeldProcess> {
    await checkFolder(options.cwd);
    await checkShell(options.shell);
    const token = nanoid();
    const decision = new Decision();
    const input = options.input === undefined ? undefined : await openInput(options.input).catch(refuseInput);
    try {
      const subprocess = spawn(options, token, input, decision);
      const { pid } = subprocess;
      if (pid === undefined) {
        decision.make(false);
        const { originalMessage } = await subprocess;
        throw new ProcessStartError(originalMessage ?? "unknown reason");
      }
      const ended = new Promise<ProcessEnd>((resolve) => {
        subprocess.once("exit", (exitCode, signal) => {
          forgetGroup(pid);
          resolve({ exitCode, signal });
        });
      });
      endWithThisProcess(pid);
      const { stdout, stderr } = subprocess;
      // It is held, so it is there to be looked at.
      const entry = await findProcess(pid).catch(async (cause: unknown) => {
        decision.make(false);
        await ended;
        stdout.destroy();
        stderr.destroy();
        throw new ProcessStartError(`it can't be found among the processes: ${reasonOf(cause)}`, cause);
      });
      const startTime = entry?.startTime ?? "unknown";
      const identity = { pid, group: pid, startTime, token };
      return new HeldProcess({ identity, stdout, stderr, ended }, (go) => decision.make(go));
    } finally {
      input?.destroy();
    }
  }

  /** Lets it go. Call it once what has to know of it knows. */
  release(): void {
    this.#decide(true);
  }

  /** Gives it up before it has done anything. Resolves when it is gone. */
  async abandon(): Promise<void> {
    this.#decide(false);
    await this.ended;
    this.stdout.destroy();
    this.stderr.destroy();
  }

  /** Ends its whole group, and resolves when it is gone. */
  async end(graceMs: number): Promise<void> {
    await endGroup(this.identity.group, graceMs);
  }

  /**
   * Ends what the process has left behind in its group. Call it once the process has ended.
   *
   * @returns Whether there was anything to end.
   */
  async endRest(graceMs: number): Promise<boolean> {
    const { group } = this.identity;
    if (await isGroupGoneWithin(group, LAST_BREATH_MS)) return false;
    await endGroup(group, graceMs);
    return true;
  }
}

/** Go or not: said once, heard by the held process. */
class Decision {
  readonly #made: Promise<boolean>;
  #make: (go: boolean) => void = () => {};

  constructor() {
    this.#made = new Promise((resolve) => {
      this.#make = resolve;
    });
  }

  make(go: boolean): void {
    this.#make(go);
  }

  /** One line, or none: then the reader finds the end of its input. */
  async *line(): AsyncGenerator<string, void, void> {
    if (await this.#made) yield "go\n";
  }
}

function spawn(options: HeldProcessOptions, token: string, input: ReadStream | undefined, decision: Decision) {
  try {
    return execa("/bin/sh", ["-c", HOLD, "waymark", ...argumentsOf(options)], {
      cwd: options.cwd,
      // A group of its own, which can be ended as a whole. Ctrl-C in the terminal doesn't reach it.
      detached: true,
      // Spares the command's author "npx": as in npm's scripts, what the project has installed is found.
      preferLocal: true,
      localDir: options.cwd,
      env: { [GROUP_VARIABLE]: token },
      stdio: [input ?? "ignore", "pipe", "pipe", decision.line()],
      buffer: false,
      encoding: "buffer",
      reject: false,
    });
  } catch (cause) {
    // What can't be an argument at all (a NUL in it) is thrown, and not reported as the other failures are.
    throw new ProcessStartError(reasonOf(cause), cause);
  }
}

async function checkFolder(path: string): Promise<void> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new ProcessStartError(`its folder ${path} can't be entered: ${reasonOf(cause)}`, cause);
  });
  if (!found.isDirectory()) throw new ProcessStartError(`${path}, where it is to run, is not a folder`);
}

/** Without this, the holding shell would report a missing one as the command's own exit code 127. */
async function checkShell(shell: ShellCommand["shell"]): Promise<void> {
  const folders = (process.env["PATH"] ?? "/usr/bin:/bin").split(delimiter);
  for (const folder of folders) {
    const isThere = await access(join(folder, shell), constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return;
  }
  throw new ProcessStartError(`there is no ${shell} in the folders of PATH`);
}

function refuseInput(cause: unknown): never {
  throw new ProcessStartError(`its input can't be written: ${reasonOf(cause)}`, cause);
}

function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function argumentsOf({ shell, command, strict }: ShellCommand): string[] {
  if (!strict) return [shell, "-c", command];
  return shell === "bash" ? ["bash", "-e", "-o", "pipefail", "-c", command] : ["sh", "-e", "-c", command];
}

const liveGroups = new Set<number>();

/** A program that just exits (process.exit, an uncaught exception) takes its commands with it. */
function endWithThisProcess(group: number): void {
  if (liveGroups.size === 0) process.on("exit", endLiveGroups);
  liveGroups.add(group);
}

function forgetGroup(group: number): void {
  liveGroups.delete(group);
  if (liveGroups.size === 0) process.off("exit", endLiveGroups);
}

function endLiveGroups(): void {
  for (const group of liveGroups) signalGroup(group, "SIGTERM");
}
