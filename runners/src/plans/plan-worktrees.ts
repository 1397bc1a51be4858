import { hash } from "node:crypto";
import { copyFile, mkdir, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import type { WorkPlace } from "./item-work.js";
import type { PlanItem } from "./plan.js";
import { readHead, runGit, tryGit } from "./plan-git.js";
import { planTask } from "./plan-options.js";

/**
 * The git worktrees in which parallel items are worked on. They are below the project's folder, so its `node_modules` are found
 * there. Git ignores them.
 */
export class PlanWorktrees {
  readonly #cwd: string;
  readonly #path: string;
  /** That of this plan's worktrees. */
  readonly #folder: string;

  constructor(cwd: string, path: string) {
    this.#cwd = cwd;
    this.#path = path;
    const name = hash("sha256", planTask(path, cwd), "hex").slice(0, 8);
    this.#folder = join(cwd, ".waymark", "worktrees", name);
  }

  /** Where an item is worked on. */
  async placeOf({ id }: PlanItem, signal: AbortSignal): Promise<WorkPlace> {
    const name = /^\w[\w.-]{0,40}$/.test(id) ? id : hash("sha256", id, "hex").slice(0, 16);
    const worktree = join(this.#folder, name);
    const prefix = (await runGit(this.#cwd, signal, "rev-parse", "--show-prefix")).replace(/\n$/, "");
    const path = await this.#pathInRepository(signal);
    return { worktree, cwd: join(worktree, prefix), path: resolve(worktree, path ?? this.#path) };
  }

  /** Makes the worktree anew, at a commit, with the plan as it is now. */
  async add({ worktree = "", path }: WorkPlace, head: string, signal: AbortSignal): Promise<void> {
    await this.remove(worktree, signal);
    await mkdir(this.#folder, { recursive: true });
    await writeFile(join(dirname(this.#folder), ".gitignore"), "*\n");
    await runGit(this.#cwd, signal, "worktree", "add", "--quiet", "--force", "--force", "--detach", worktree, head);
    if (path === this.#path) return;
    await mkdir(dirname(path), { recursive: true });
    await copyFile(this.#path, path);
  }

  /** Also removes what a kill left of it. */
  async remove(worktree: string, signal: AbortSignal): Promise<void> {
    await rm(worktree, { recursive: true, force: true, maxRetries: 3 });
    // Git may not know it.
    await tryGit(this.#cwd, signal, "worktree", "remove", "--force", "--force", worktree);
  }

  /** Removes the worktrees that earlier turns have left. */
  async clear(signal: AbortSignal): Promise<void> {
    const names = await readdir(this.#folder).catch(() => []);
    for (const name of names) await this.remove(join(this.#folder, name), signal);
    if (names.length > 0) await rm(this.#folder, { recursive: true, force: true });
  }

  /** Makes a commit of all changes in a worktree but the plan's; `undefined` if there are none. Moves nothing. */
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
   * Brings a worktree to a commit, and the work of another one onto it. Returns the files in conflict; then the work is taken back.
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

  /** Brings the plan's branch and its folder to a commit that is on top of it. */
  async bring(commit: string, signal: AbortSignal): Promise<void> {
    await runGit(this.#cwd, signal, "merge", "--quiet", "--ff-only", commit);
  }

  /** The newest commit of the plan's branch. */
  head(signal: AbortSignal): Promise<string | undefined> {
    return readHead(this.#cwd, signal);
  }

  async #pathInRepository(signal: AbortSignal): Promise<string | undefined> {
    const root = (await runGit(this.#cwd, signal, "rev-parse", "--show-toplevel")).replace(/\n$/, "");
    const path = relative(root, await realpath(this.#path));
    return path.startsWith("..") ? undefined : path;
  }
}
