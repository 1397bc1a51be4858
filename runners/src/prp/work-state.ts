import { execFile } from "node:child_process";
import { createHash, hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, readlink, realpath } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { describeCause, isError } from "waymark/kit";

/** The state of the work at one moment: a digest, or the reason why it is unknown. */
export type WorkState = { readonly digest: string } | { readonly whyUnknown: string };

export interface WorkFolder {
  /** The folder where the coder and the gates run. The whole repository around it counts as work. */
  readonly cwd: string;
  /** The session's folder. Its checkpoints and locks don't count as work. */
  readonly sessionPath: string;
  /** The PRP's file, which doesn't count as work; empty if there is none. */
  readonly prpPath: string;
  readonly signal: AbortSignal;
}

/**
 * Asks git for the state of the work: the commit, and the content of all changed and untracked files. Files that git
 * ignores don't count. Changes nothing: writes neither the index nor objects.
 */
export async function readWorkState({ cwd, sessionPath, prpPath, signal }: WorkFolder): Promise<WorkState> {
  try {
    const folder = await readRealPath(cwd);
    const artifacts = join(await readRealPath(sessionPath), "artifacts");
    const prp = await readRealPath(prpPath);
    const isWork = (path: string) => path !== prp && !OWN_FILE.test(relative(artifacts, path));
    const root = await findRoot(folder, signal);
    if (folder !== root && (await isIgnored(folder, signal)))
      return { whyUnknown: `git ignores its folder, so nothing is there ${TO_TELL}` };
    const digest = await digestRepository(root, { isWork, signal, size: { files: 0, bytes: 0 } });
    // A gate's result only holds for the folder where the gate ran.
    return { digest: digestText([relative(root, folder), digest]) };
  } catch (error) {
    return { whyUnknown: whyUnknown(error) };
  }
}

/** Matches the files that Waymark writes below `artifacts` in the session's folder. Other files there may be work. */
const OWN_FILE =
  /^(?:\.quarantine\/.*|[^/]+\/(?:checkpoints\.json(?:\.damaged-[0-9a-f]+)?|\.lease\.json|\.lock(?:[-/].*)?))$/s;

/** Beyond these limits, reading the work would take longer than running most gates again. */
const MAX_FILES = 2000;
const MAX_BYTES = 64 * 1024 * 1024;
/** How many files are read at once. */
const BATCH = 16;

interface Reading {
  readonly isWork: (path: string) => boolean;
  readonly signal: AbortSignal;
  /** The files and bytes so far, including inner repositories. */
  readonly size: { files: number; bytes: number };
}

async function digestRepository(root: string, reading: Reading): Promise<string> {
  const lines = (await git(root, reading.signal, ...STATUS)).split("\0");
  const found = lines.filter((line) => line.startsWith("# branch.oid "));
  const entries = lines.flatMap(parseEntry).filter(({ path }) => reading.isWork(join(root, path)));
  if (entries.length > MAX_FILES) throw new Error(TOO_MUCH);
  for (let at = 0; at < entries.length; at += BATCH) {
    found.push(...(await Promise.all(entries.slice(at, at + BATCH).map((entry) => digestEntry(root, entry, reading)))));
  }
  return digestText(found);
}

const STATUS = [
  // Git's file system monitor would keep running as a process.
  ...["-c", "core.fsmonitor=false"],
  // Without the first option, git may rewrite the index.
  ...["--no-optional-locks", "status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--no-renames"],
  // These options override the user's settings.
  ...["--untracked-files=all", "--ignore-submodules=none"],
];

/** A changed or untracked path. */
interface Entry {
  /** Relative to the repository's root. */
  readonly path: string;
  /** `unknown` in a merge conflict, where the file may exist or not. */
  readonly presence: "present" | "deleted" | "unknown";
}

/** The number of fields before the path, for each kind of line of `git status --porcelain=v2`. */
const FIELDS: ReadonlyMap<string | undefined, number> = new Map([
  ["1", 8],
  ["u", 10],
  ["?", 1],
]);

/** Returns no entry for a header line. */
function parseEntry(line: string): Entry[] {
  const words = line.split(" ");
  const [kind, changes = ""] = words;
  const fields = FIELDS.get(kind);
  if (fields === undefined) return [];
  const path = words.slice(fields).join(" ");
  if (kind === "u") return [{ path, presence: "unknown" }];
  return [{ path, presence: kind === "1" && changes.includes("D") ? "deleted" : "present" }];
}

/** @throws If a file that git names can't be read, because then the work isn't known. */
async function digestEntry(root: string, { path, presence }: Entry, reading: Reading): Promise<string> {
  if (presence === "deleted") return digestText([path, "deleted"]);
  const absolutePath = join(root, path);
  const stats = await lstat(absolutePath).catch((error: unknown) => {
    if (presence === "unknown" && isMissing(error)) return undefined;
    throw error;
  });
  if (stats === undefined) return digestText([path, "deleted"]);
  if (stats.isSymbolicLink()) return digestText([path, "link", await readlink(absolutePath)]);
  if (stats.isFile()) {
    const { size, signal } = reading;
    size.files += 1;
    size.bytes += stats.size;
    if (size.files > MAX_FILES || size.bytes > MAX_BYTES) throw new Error(TOO_MUCH);
    return digestText([path, (stats.mode & 0o111) === 0 ? "file" : "program", await digestFile(absolutePath, signal)]);
  }
  if (!stats.isDirectory()) return digestText([path, "neither file nor folder"]);
  // For a submodule or an untracked repository, git only names the folder.
  const inner = await findRoot(absolutePath, reading.signal);
  if (inner !== absolutePath.replace(/\/$/, "")) throw new Error(`${absolutePath} is not a separate git repository`);
  return digestText([path, "repository", await digestRepository(inner, reading)]);
}

const TOO_MUCH = "more than 2,000 files or 64 MB are changed or untracked. If they aren't work, add them to .gitignore";

async function digestFile(path: string, signal: AbortSignal): Promise<string> {
  const digest = createHash("sha256");
  await pipeline(createReadStream(path), digest, { signal });
  return digest.digest("hex");
}

function digestText(parts: readonly string[]): string {
  return hash("sha256", JSON.stringify(parts), "hex");
}

async function findRoot(folder: string, signal: AbortSignal): Promise<string> {
  return (await git(folder, signal, "rev-parse", "--show-toplevel")).replace(/\n$/, "");
}

/** Whether git ignores the folder. Git doesn't report changes in an ignored folder. */
async function isIgnored(folder: string, signal: AbortSignal): Promise<boolean> {
  return git(folder, signal, "check-ignore", "--quiet", "--", ".").then(
    () => true,
    (error: unknown) => {
      if (isError(error) && "code" in error && error.code === 1) return false;
      throw error;
    },
  );
}

/** Returns what git prints. @throws {Error} Git failed (the error has `stderr`), or is missing. */
export async function git(cwd: string, signal: AbortSignal, ...args: string[]): Promise<string> {
  const options = { cwd, signal, env: { ...process.env, LC_ALL: "C" }, maxBuffer: Number.POSITIVE_INFINITY };
  return (await promisify(execFile)("git", args, options)).stdout;
}

/** Resolves links; a missing path stays as it is. */
async function readRealPath(path: string): Promise<string> {
  if (path === "") return "";
  return realpath(path).catch(() => resolve(path));
}

const TO_TELL = "to tell whether the work has changed";

/** Returns a reason that completes "Gate 1 runs again: …". */
function whyUnknown(error: unknown): string {
  if (isMissing(error) && isError(error) && "syscall" in error && error.syscall === "spawn git") {
    return `there is no git ${TO_TELL}`;
  }
  const said = isError(error) && "stderr" in error ? String(error.stderr).trim() : "";
  if (/^fatal: not a git repository/m.test(said)) return `there is no git repository ${TO_TELL}`;
  const reason = said === "" ? describeCause(error) : (said.split("\n")[0] ?? "");
  return `git can't tell whether the work has changed: ${reason}`;
}

function isMissing(error: unknown): boolean {
  return isError(error) && "code" in error && error.code === "ENOENT";
}
