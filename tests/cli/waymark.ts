import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { CheckpointManager, type CheckpointManagerOptions } from "waymark";
import type { StoredCheckpoint } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../support/temp-folder.js";

/** The command as npm links it. */
export const WAYMARK = join(import.meta.dirname, "..", "..", "cli", "bin", "waymark.js");

/** The folder that commands run in, and what they are told by the environment. */
export interface Place {
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment without what would decide about storage and colours. */
export function cleanEnv(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const { WAYMARK_STORAGE: _storage, NO_COLOR: _no, FORCE_COLOR: _force, ...rest } = process.env;
  return { ...rest, ...more };
}

/** Starts `waymark` as a process of its own. */
export function start(place: Place, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
  return spawn(process.execPath, [WAYMARK, ...args], { cwd: place.cwd, env: cleanEnv(place.env), ...options });
}

/** Runs `waymark` to its end, with no terminal anywhere. */
export async function waymark(place: Place, args: readonly string[], input = ""): Promise<Ended> {
  const child = start(place, args, { stdio: ["pipe", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  // A command that ends without reading has no use for it.
  child.stdin?.on("error", () => undefined).end(input);
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
}

/** A folder with a storage in it, named by the variable, and a manager on it until it is closed. */
export async function newPlace(url = "sqlite:checkpoints.db", options: Partial<CheckpointManagerOptions> = {}) {
  const cwd = await tempFolder();
  const place: Place = { cwd, env: { WAYMARK_STORAGE: url } };
  const open = async (its = url) =>
    new CheckpointManager({ storage: await openStorage(its, { relativeTo: cwd }), ...options });
  const manager = await open();
  const run = (...args: string[]) => waymark(place, args);
  return { cwd, place, manager, run, open };
}

/** All that a storage holds, as it holds it. */
export async function recordsOf(cwd: string, url: string): Promise<StoredCheckpoint[]> {
  const storage = await openStorage(url, { relativeTo: cwd });
  const records: StoredCheckpoint[] = [];
  for await (const task of storage.tasks({ order: "taskId" })) {
    if ("corrupt" in task) throw new Error(task.reason);
    for await (const record of storage.read({ taskId: task.taskId, order: "oldest" })) {
      if ("corrupt" in record) throw new Error(record.reason);
      records.push(record);
    }
  }
  await storage.close();
  return records;
}
