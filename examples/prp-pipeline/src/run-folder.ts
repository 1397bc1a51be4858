import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The paths in one run's folder. */
export interface RunFolder {
  readonly path: string;
  /** The copy of the PRP, whose boxes the coder ticks. */
  readonly prp: string;
  /** The copy of the project that the coder works on. */
  readonly project: string;
  /** Whether the copy of the project is a git repository. */
  readonly hasGit: boolean;
  /** The session's folder. Its checkpoints are in artifacts/<task>/checkpoints.json. */
  readonly session: string;
  /** The path of the checkpoints' file. */
  readonly checkpoints: string;
  /** The coder's own record of its calls, one JSON line each. */
  readonly coderLog: string;
}

const EXAMPLE = fileURLToPath(new URL("..", import.meta.url));
const RUNS = join(EXAMPLE, ".run");
const RUNS_KEPT = 5;

export const PRP = join(EXAMPLE, "PRP.md");
/** The PRP's id, which is also the task of its checkpoints. */
export const TASK_ID = "P1.M1.T2.S1";
export const CODER = fileURLToPath(new URL("coder.js", import.meta.url));
export const RUNNER = fileURLToPath(new URL("run.js", import.meta.url));

export function runFolderAt(path: string): RunFolder {
  const session = join(path, "session");
  const project = join(path, "hours");
  return {
    path,
    prp: join(path, "PRP.md"),
    project,
    hasGit: existsSync(join(project, ".git")),
    session,
    checkpoints: join(session, "artifacts", TASK_ID, "checkpoints.json"),
    coderLog: join(path, "coder.log"),
  };
}

/**
 * Creates a new folder with a fresh copy of the project and of the PRP. Each run has its own folder, so that the
 * repository's files are never edited, earlier runs don't interfere, and the last few runs can be inspected.
 */
export async function createRunFolder(): Promise<RunFolder> {
  await mkdir(RUNS, { recursive: true });
  const numbers = (await readdir(RUNS)).map(Number).filter(Number.isInteger);
  for (const old of numbers.sort((a, b) => b - a).slice(RUNS_KEPT - 1)) {
    await rm(join(RUNS, String(old)), { recursive: true, force: true });
  }
  const folder = runFolderAt(await makeNumbered(Math.max(0, ...numbers) + 1));
  await cp(PRP, folder.prp);
  await cp(join(EXAMPLE, "project"), folder.project, {
    recursive: true,
    // The output of manual builds isn't copied.
    filter: (source) => !["dist", "node_modules"].includes(basename(source)),
  });
  // A resumed run skips passed gates only if git shows that nothing has changed since they passed.
  try {
    await promisify(execFile)("git", ["init", "--quiet"], { cwd: folder.project });
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
  return runFolderAt(folder.path);
}

/** Makes a folder with a free number. If two runs begin at once, mkdir decides which of them gets the number. */
async function makeNumbered(number: number): Promise<string> {
  const path = join(RUNS, String(number));
  try {
    await mkdir(path);
    return path;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return makeNumbered(number + 1);
    throw error;
  }
}
