import { realpath } from "node:fs/promises";
import { relative } from "node:path";
import { describeCause, isError } from "waymark/kit";
import { git } from "../prp/work-state.js";
import { RunnerError } from "../runner-error.js";
import type { PlanItem } from "./plan.js";

/** A commit, with the first line of its message. */
export interface Commit {
  readonly id: string;
  readonly subject: string;
}

/** Returns the first line of an item's commit message. */
export function commitSubject({ id, title }: Pick<PlanItem, "id" | "title">): string {
  const subject = /\d/.test(id) ? `${id}: ${title}` : title;
  return subject.length > 100 ? `${subject.slice(0, 99)}…` : subject;
}

/**
 * Whether a commit's subject names the item, by title or by id. A bare number needs a word such as "task" before it.
 */
export function isAbout({ subject }: Commit, { id, title }: Pick<PlanItem, "id" | "title">): boolean {
  if (title.length > 8 && subject.includes(title)) return true;
  const escaped = id.replace(/~\d+$/, "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const word = /[A-Za-z]/.test(id) ? "" : "(?:task|item|step|story|#)\\s*";
  return new RegExp(`^${escaped}[:.)\\s]|(?:^|[^\\w.-])${word}${escaped}(?![\\w-]|\\.\\d)`, "i").test(subject);
}

/** Returns the newest commit; `undefined` if there is no repository, or nothing is committed yet. */
export async function readHead(cwd: string, signal: AbortSignal): Promise<string | undefined> {
  return (await tryGit(cwd, signal, "rev-parse", "--verify", "--quiet", "HEAD"))?.trim();
}

/** Returns the commits since another commit, newest first; none if a rewritten history no longer has that commit. */
export async function commitsSince(cwd: string, since: string | undefined, signal: AbortSignal): Promise<Commit[]> {
  if ((await readHead(cwd, signal)) === since) return [];
  const range = since === undefined ? "HEAD" : `${since}..HEAD`;
  const log = (await tryGit(cwd, signal, "log", "--max-count=200", "--format=%H %s", range)) ?? "";
  return log.split("\n").flatMap((line) => (line === "" ? [] : { id: line.slice(0, 40), subject: line.slice(41) }));
}

/**
 * Commits all changes; with `amends`, adds them to the newest commit. Returns the newest commit.
 *
 * @throws {RunnerError} `GIT_FAILED`
 */
export async function commitAll(
  cwd: string,
  message: string,
  signal: AbortSignal,
  { amends = false } = {},
): Promise<string | undefined> {
  await runGit(cwd, signal, "add", "--all", ":/");
  const isClean = (await tryGit(cwd, signal, "diff", "--cached", "--quiet")) !== undefined;
  const amend = amends ? ["--amend"] : [];
  if (!isClean) await runGit(cwd, signal, "commit", "--quiet", ...amend, "--message", message);
  return readHead(cwd, signal);
}

/** @throws {RunnerError} `TREE_DIRTY`: files other than the plan are changed. */
export async function assertClean(cwd: string, path: string, signal: AbortSignal): Promise<void> {
  const root = (await runGit(cwd, signal, "rev-parse", "--show-toplevel")).replace(/\n$/, "");
  const plan = relative(root, await realpath(path));
  const status = await runGit(root, signal, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all");
  const files = status.split("\0").flatMap((line) => (line === "" || line.slice(3) === plan ? [] : line.slice(3)));
  if (files.length === 0) return;
  const names = files.slice(0, 5).join(", ") + (files.length > 5 ? ` and ${files.length - 5} more` : "");
  const message =
    `Not committed in ${root}: ${names}. They would land in the commit of the plan's first item. Nothing was run. Commit or stash them, ` +
    "or add them to .gitignore; or pass --allow-dirty.";
  throw new RunnerError("TREE_DIRTY", message);
}

/** Returns what git prints; `undefined` if it fails. */
export async function tryGit(cwd: string, signal: AbortSignal, ...args: string[]): Promise<string | undefined> {
  return git(cwd, signal, ...args).catch(() => undefined);
}

/** @throws {RunnerError} `GIT_FAILED` */
export async function runGit(cwd: string, signal: AbortSignal, ...args: string[]): Promise<string> {
  try {
    return await git(cwd, signal, ...args);
  } catch (cause) {
    signal.throwIfAborted();
    const said = isError(cause) && "stderr" in cause ? String(cause.stderr).trim() : "";
    const message = `git ${args[0]} failed in ${cwd}: ${said === "" ? describeCause(cause) : said}. The work is left as it is; fix this, and run the plan again.`;
    throw new RunnerError("GIT_FAILED", message, { cause });
  }
}
