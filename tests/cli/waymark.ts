import { type ChildProcess, execFileSync, type SpawnOptions, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { CheckpointManager, type CheckpointManagerOptions } from "waymark";
import type { StoredCheckpoint } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { run } from "../../cli/src/run.js";
import { tempFolder } from "../support/temp-folder.js";

/** The command as npm links it. */
export const WAYMARK = join(import.meta.dirname, "..", "..", "cli", "bin", "waymark.js");

/** Whether there is `script` of util-linux, which makes a pseudo-terminal. */
export const hasScript = /util-linux/.test(spawnSync("script", ["--version"], { encoding: "utf8" }).stdout ?? "");

/** The folder that commands run in, and their environment. */
export interface Place {
  readonly cwd: string;
  readonly env?: NodeJS.ProcessEnv;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment without the variables for storage and colours. */
export function cleanEnv(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const { WAYMARK_STORAGE: _storage, NO_COLOR: _no, FORCE_COLOR: _force, ...rest } = process.env;
  return { ...rest, ...more };
}

/** Starts `waymark` as a process, as npm links it. */
export function start(place: Place, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
  return spawn(process.execPath, [WAYMARK, ...args], { cwd: place.cwd, env: cleanEnv(place.env), ...options });
}

/** Runs `waymark` as a process to its end, without a terminal: for tests of the process, such as signals. */
export async function waymarkProcess(place: Place, args: readonly string[], input = ""): Promise<Ended> {
  const child = start(place, args, { stdio: ["pipe", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  // A command may end without reading its input.
  child.stdin?.on("error", () => undefined).end(input);
  const [code] = await once(child, "close");
  return { code, stdout, stderr };
}

/** The output of a run with --json. */
export function eventsIn(stdout: string): Record<string, unknown>[] {
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs `waymark` to its end in this process. Runs of one file follow each other.
 *
 * @param columns - The width of a terminal that standard output pretends to be; without it, there is no terminal.
 */
export function waymark(place: Place, args: readonly string[], input = "", columns?: number): Promise<Ended> {
  const ended = last.then(() => runHere(place, args, input, columns));
  last = ended.catch(() => undefined);
  return ended;
}

async function runHere(place: Place, args: readonly string[], input: string, columns?: number): Promise<Ended> {
  const [cwd, env] = [process.cwd(), process.env];
  process.chdir(place.cwd);
  process.env = cleanEnv(place.env);
  const [stdout, stderr] = [new Collected(columns), new Collected()];
  try {
    const code = await run(args, { stdin: Readable.from([Buffer.from(input)]), stdout, stderr });
    return { code, stdout: stdout.text, stderr: stderr.text };
  } finally {
    process.env = env;
    process.chdir(cwd);
  }
}

export class Collected extends Writable {
  text = "";
  readonly isTTY: boolean;
  readonly columns: number | undefined;

  constructor(columns?: number) {
    super();
    this.isTTY = columns !== undefined;
    this.columns = columns;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** Runs a printed line after splitting it like a shell. Returns its stdout. */
export async function inShell(cwd: string, line: string, shell = "sh"): Promise<string> {
  const words = execFileSync(shell, ["-c", `waymark() { printf '%s\\0' "$@"; }; ${line}`], { cwd, encoding: "utf8" });
  const { code, stdout, stderr } = await waymark({ cwd }, words.split("\0").slice(0, -1));
  if (code !== 0) throw new Error(`It exited with ${code}: ${stderr}`);
  return stdout;
}

/** A folder with a storage, named by WAYMARK_STORAGE, and a manager on it. The test closes the manager. */
export async function newPlace(url = "sqlite:checkpoints.db", options: Partial<CheckpointManagerOptions> = {}) {
  const cwd = await tempFolder();
  const place: Place = { cwd, env: { WAYMARK_STORAGE: url } };
  const open = async (its = url, more: Partial<CheckpointManagerOptions> = {}) =>
    new CheckpointManager({ storage: openStorage(its, { relativeTo: cwd }), ...options, ...more });
  const manager = await open();
  const run = (...args: string[]) => waymark(place, args);
  return { cwd, place, manager, run, open };
}

/** Runs a task in a process that is killed in the task's second step, `build`. */
export function killInStep({
  cwd,
  url,
  taskId,
}: {
  readonly cwd: string;
  readonly url: string;
  readonly taskId: string;
}) {
  const [sdk, adapters] = ["src", "adapters"].map(
    (folder) => new URL(`../../dist/${folder}/index.js`, import.meta.url),
  );
  const program = `
    import { CheckpointManager } from "${sdk}";
    import { openStorage } from "${adapters}";
    const manager = new CheckpointManager({ storage: openStorage("${url}") });
    await manager.run("${taskId}", async (run) => {
      await run.step("plan", () => 1);
      await run.step("build", () => process.kill(process.pid, "SIGKILL"));
    });`;
  spawnSync(process.execPath, ["--input-type=module", "-e", program], { cwd });
}

/** Returns the URL of a storage as in messages, with its whole path. */
export function wholeUrl(cwd: string, url: string): string {
  return url.replace(":", `:${cwd}/`);
}

/** Returns all records of a storage in their stored form. */
export async function recordsOf(cwd: string, url: string): Promise<StoredCheckpoint[]> {
  const storage = openStorage(url, { relativeTo: cwd });
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
