import { hash } from "node:crypto";
import { copyFile, mkdir, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import type { WorkPlace } from "./item-work.js";
import type { PlanItem } from "./plan.js";
import { readHead, runGit, tryGit } from "./plan-git.js";
import { planTask } from "./plan-options.js";

/**
 * The git worktrees in which parallel items are worked on. The worktrees are below the project's folder, so that its
 * `node_modules` are found. Git ignores the worktrees.
 */
export class PlanWorktrees {
  readonly #cwd: string;
  readonly #path: string;
  /** The folder of this plan's worktrees. */
  readonly #folder: string;

  constructor(cwd: string, path: string) {
    this.#cwd = cwd;
    this.#path = path;
    const name = hash("sha256", planTask(path, cwd), "hex").slice(0, 8);
    this.#folder = join(cwd, ".waymark", "worktrees", name);
  }

  /** Returns the place where an item is worked on. */
  async placeOf({ id }: PlanItem, signal: AbortSignal): Promise<WorkPlace> {
    const name = /^\w[\w.-]{0,40}$/.test(id) ? id : hash("sha256", id, "hex").slice(0, 16);
    const worktree = join(this.#folder, name);
    const prefix = (await runGit(this.#cwd, signal, "rev-parse", "--show-prefix")).replace(/\n$/, "");
    const path = await this.#pathInRepository(signal);
    return { worktree, cwd: join(worktree, prefix), path: resolve(worktree, path ?? this.#path) };
  }

  /** Creates a fresh worktree at a commit, with a copy of the current plan. */
  async add({ worktree = "", path }: WorkPlace, head: string, signal: AbortSignal): Promise<void> {
    await this.remove(worktree, signal);
    await mkdir(this.#folder, { recursive: true });
    await writeFile(join(dirname(this.#folder), ".gitignore"), "*\n");
    await runGit(this.#cwd, signal, "worktree", "add", "--quiet", "--force", "--force", "--detach", worktree, head);
    if (path === this.#path) return;
    await mkdir(dirname(path), { recursive: true });
    await copyFile(this.#path, path);
  }

  /** Removes a worktree, even if a kill has left only parts of it. */
  async remove(worktree: string, signal: AbortSignal): Promise<void> {
    await rm(worktree, { recursive: true, force: true, maxRetries: 3 });
    // This call fails if git doesn't know the worktree.
    await tryGit(this.#cwd, signal, "worktree", "remove", "--force", "--force", worktree);
  }

  /** Removes the worktrees that earlier turns left behind. */
  async clear(signal: AbortSignal): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names) await this.remove(join(this.#folder, name), signal);
    if (names.length > 0) await rm(this.#folder, { recursive: true, force: true });
  }

  /** Creates a commit of all changes in a worktree except the plan's, on no branch; `undefined` if there are none. */
  async commit({ worktree = "" }: WorkPlace, base: string, subject: string, signal: AbortSignal) {
    const path = await this.#pathInRepository(signal);
    await runGit(worktree, signal, "read-tree", base);
    const others = path === undefined ? [] : [`:(top,exclude,literal)${path}`];
    await runGit(worktree, signal, "add", "--all", "--", ":/", ...others);
    const tree = (await runGit(worktree, signal, "write-tree")).trim();
    if (tree === (await runGit(worktree, signal, "rev-parse", `${base}^{tree}`)).trim()) return undefined;
    return (await runGit(worktree, signal, "commit-tree", tree, "-p", base, "-m", subject)).trim();
  }

  /**
   * Resets a worktree to `head`, and applies the commit `work` to it. Returns the files in conflict; if there are any,
   * the work is removed again.
   *
   * @throws {RunnerError} `GIT_FAILED`
   */
  async move({ worktree = "" }: WorkPlace, work: string | undefined, head: string, signal: AbortSignal) {
    await runGit(worktree, signal, "reset", "--quiet", "--hard", head);
    if (work === undefined) return [];
    try {
      await runGit(worktree, signal, "cherry-pick", "--no-commit", work);
      return [];
    } catch (error) {
      const names = await tryGit(worktree, signal, "diff", "--name-only", "--diff-filter=U");
      if (!names) throw error;
      await runGit(worktree, signal, "reset", "--quiet", "--hard", head);
      return names.trimEnd().split("\n");
    }
  }

  /** Fast-forwards the plan's branch, and the project's folder, to a commit on top of the branch. */
  async bring(commit: string, signal: AbortSignal): Promise<void> {
    await runGit(this.#cwd, signal, "merge", "--quiet", "--ff-only", commit);
  }

  /** Returns the newest commit of the plan's branch. */
  head(signal: AbortSignal): Promise<string | undefined> {
    return readHead(this.#cwd, signal);
  }

  async #pathInRepository(signal: AbortSignal): Promise<string | undefined> {
    const root = (await runGit(this.#cwd, signal, "rev-parse", "--show-toplevel")).replace(/\n$/, "");
    const path = relative(root, await realpath(this.#path));
    return path.startsWith("..") ? undefined : path;
  }
}
