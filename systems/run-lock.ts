import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { closeSync, constants, openSync, readSync, rmSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { describeCause } from "../adapters/files/failure.js";
import { makeFolders } from "../adapters/files/file-io.js";
import { isError, readCode, StorageError } from "../src/contract/errors.js";

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
const POLL_MS = 20;
/** Children of a killed run hold its pipe until they call `exec`, which takes some milliseconds. */
const MAX_WAITS = 10;

/** The absolute path of a task's lock. */
export function runLockPath(folder: string, taskId: string): string {
  return resolve(folder, `.running-${hash("sha256", taskId, "hex").slice(0, 32)}`);
}

/**
 * Whether a task is being run, by this process or by another process of this machine.
 *
 * @throws {StorageError} The lock can't be read.
 */
export function isBeingRun(path: string): boolean {
  try {
    // Opening for writing without waiting fails unless a process has the pipe open for reading.
    closeSync(openSync(path, O_WRONLY | O_NONBLOCK));
    return true;
  } catch (error) {
    if (readCode(error) === "ENOENT" || readCode(error) === "ENXIO") return false;
    throw failed(path, error);
  }
}

/**
 * Like {@link isBeingRun}, but a run that was just killed doesn't count: if its children still hold its pipe, this
 * waits for them.
 */
export async function isStillBeingRun(path: string): Promise<boolean> {
  for (let waits = 0; isBeingRun(path); waits++) {
    if (waits === MAX_WAITS) return true;
    await delay(POLL_MS);
  }
  return false;
}

/**
 * A task's lock: a named pipe that its run holds open for reading. However the process dies, the kernel closes the
 * pipe. So the lock never goes stale, and the next run takes over at once. The watchdogs of the run's commands hold the
 * pipe open for writing, so the next run sees when nothing of a killed run is left.
 *
 * If two runs take the lock at the same moment, both get it. Their first checkpoints decide between them, because only
 * one can be saved on top of the newest checkpoint. So read the newest checkpoint before you take the lock. The lock
 * works only on Unix, and only among the runs of one machine.
 */
export class RunLock {
  readonly #path: string;
  readonly #reader: number;
  #writer: number | undefined;

  private constructor(path: string, reader: number) {
    this.#path = path;
    this.#reader = reader;
  }

  /**
   * @returns The lock; `undefined` if the task is being run.
   * @throws {StorageError} The lock can't be made.
   */
  static async take(path: string): Promise<RunLock | undefined> {
    let failure: unknown;
    for (let waits = 0; waits <= MAX_WAITS; waits++) {
      if (waits > 0) await delay(POLL_MS);
      try {
        failure = undefined;
        await makeFolders(dirname(path));
        await promisify(execFile)("/bin/sh", ["-c", MAKE_PIPE, "waymark", path]);
        if (isBeingRun(path)) continue;
        const reader = openedPipe(path);
        if (reader !== undefined) return new RunLock(path, reader);
        // The pipe was removed in between, which doesn't count as a wait.
        waits -= 1;
      } catch (error) {
        // The holder may have removed the pipe in between.
        failure = error;
      }
    }
    if (failure === undefined) return undefined;
    throw failure instanceof StorageError ? failure : failed(path, failure);
  }

  /** A file descriptor for the watchdogs of the run's commands. */
  get watched(): number | undefined {
    return this.#writer;
  }

  /**
   * Claims the task for this run, and waits until nothing of a killed run is left. Call this once the run's first
   * checkpoint is saved, before the run starts a command.
   *
   * @param onWait - Called if there is something to wait for.
   */
  async claim(onWait: () => void): Promise<void> {
    try {
      if (this.#isWatched()) onWait();
      while (this.#isWatched()) await delay(POLL_MS);
      this.#writer = openSync(this.#path, O_WRONLY | O_NONBLOCK);
    } catch (error) {
      throw failed(this.#path, error);
    }
  }

  release(): void {
    if (this.#writer !== undefined) {
      try {
        // The pipe is removed before it is closed, so that the next run makes a new one. A pipe that was not claimed
        // may also belong to another run, so it stays.
        rmSync(this.#path, { force: true });
      } catch {
        // The pipe stays. No process holds it open, so the next run takes it.
      }
      closeSync(this.#writer);
    }
    closeSync(this.#reader);
  }

  /** Whether a process holds the pipe open for writing. If so, a read finds nothing yet; otherwise it finds the end. */
  #isWatched(): boolean {
    try {
      return readSync(this.#reader, Buffer.alloc(1)) > 0;
    } catch (error) {
      if (readCode(error) === "EAGAIN") return true;
      throw error;
    }
  }
}

/** Opens the pipe for reading; `undefined` if there is none. */
function openedPipe(path: string): number | undefined {
  try {
    return openSync(path, O_RDONLY | O_NONBLOCK);
  } catch (error) {
    if (readCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Makes the pipe in the shell, because Node has no call for it. Another run may make the pipe at the same moment. */
const MAKE_PIPE = 'PATH="$PATH:/usr/bin:/bin"; [ -p "$1" ] || mkfifo -m 600 "$1" || [ -p "$1" ]';

function failed(path: string, cause: unknown): StorageError {
  return new StorageError(
    `The lock ${path} can't be used: ${mkfifoReason(cause) ?? describeCause(cause)}. Nothing was run, ` +
      "and no checkpoint was touched. It must be in a folder that you can write, on a disk that supports named pipes.",
    { cause },
  );
}

/**
 * The message of the shell or `mkfifo`, without the path: `Read-only file system`. Node's own message contains the
 * whole script.
 */
function mkfifoReason(cause: unknown): string | undefined {
  if (!(isError(cause) && "stderr" in cause && typeof cause.stderr === "string")) return undefined;
  return cause.stderr.trim().replace(/^mkfifo: .*: /s, "");
}
