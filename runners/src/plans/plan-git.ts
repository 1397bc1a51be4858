import { describeCause, isError } from "waymark/kit";
import { git } from "../prp/work-state.js";
import { PlanError } from "./errors.js";
import type { PlanItem } from "./plan.js";

/** A commit, with the first line of its message. */
export interface Commit {
  readonly id: string;
  readonly subject: string;
}

/** The first line of an item's commit. */
export function commitSubject({ id, title }: Pick<PlanItem, "id" | "title">): string {
  const subject = /\d/.test(id) ? `${id}: ${title}` : title;
  return subject.length > 100 ? `${subject.slice(0, 99)}…` : subject;
}

/** Whether a commit's subject says that it is about the item: its id beside a word for it, or its title. */
export function isAbout({ subject }: Commit, { id, title }: Pick<PlanItem, "id" | "title">): boolean {
  if (title.length > 8 && subject.includes(title)) return true;
  const escaped = id.replace(/~\d+$/, "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const word = /[A-Za-z]/.test(id) ? "" : "(?:task|item|step|story|#)\\s*";
  return new RegExp(`^${escaped}[:.)\\s]|(?:^|[^\\w.-])${word}${escaped}(?![\\w-]|\\.\\d)`, "i").test(subject);
}

/** The newest commit; `undefined` if there is no repository, or nothing is committed yet. */
export async function readHead(cwd: string, signal: AbortSignal): Promise<string | undefined> {
  return git(cwd, signal, "rev-parse", "--verify", "--quiet", "HEAD").then(
    (text) => text.trim(),
    () => undefined,
  );
}

/** The commits since another one, the newest first; none if history was rewritten, so that git no longer knows the range. */
export async function commitsSince(cwd: string, since: string | undefined, signal: AbortSignal): Promise<Commit[]> {
  if ((await readHead(cwd, signal)) === since) return [];
  const range = since === undefined ? "HEAD" : `${since}..HEAD`;
  const log = await git(cwd, signal, "log", "--max-count=200", "--format=%H %s", range).catch(() => "");
  return log.split("\n").flatMap((line) => (line === "" ? [] : { id: line.slice(0, 40), subject: line.slice(41) }));
}

/**
 * Commits all changes. If there are none, returns the newest commit.
 *
 * @throws {PlanError} `GIT_FAILED`
 */
export async function commitAll(cwd: string, message: string, signal: AbortSignal): Promise<string | undefined> {
  await run(cwd, signal, "add", "--all", ":/");
  const isClean = await git(cwd, signal, "diff", "--cached", "--quiet").then(
    () => true,
    () => false,
  );
  if (!isClean) await run(cwd, signal, "commit", "--quiet", "--message", message);
  return readHead(cwd, signal);
}

/** @throws {PlanError} `GIT_FAILED`: there is no repository. */
export async function assertRepository(cwd: string, signal: AbortSignal): Promise<void> {
  await run(cwd, signal, "rev-parse", "--show-toplevel");
}

async function run(cwd: string, signal: AbortSignal, ...args: string[]): Promise<string> {
  try {
    return await git(cwd, signal, ...args);
  } catch (cause) {
    signal.throwIfAborted();
    const said = isError(cause) && "stderr" in cause ? String(cause.stderr).trim() : "";
    const message = `git ${args[0]} failed in ${cwd}: ${said === "" ? describeCause(cause) : said}. The work is left as it is; fix this, and run the plan again.`;
    throw new PlanError("GIT_FAILED", message, { cause });
  }
}
