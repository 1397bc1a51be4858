import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { readWorkState } from "../../../runners/src/prp/work-state.js";
import { tempFolder } from "../../support/temp-folder.js";

const IDENTITY = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"];

/** A repository with the commit of `src/a`, an untracked file, an ignored one, and a PRP. */
class Repository {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async create(): Promise<Repository> {
    const repository = new Repository(await tempFolder());
    await repository.git("init", "--quiet");
    await mkdir(join(repository.path, "src"));
    await repository.write("src/a", "1");
    await repository.git("add", ".");
    await repository.git("commit", "--quiet", "-m", "first");
    for (const name of ["untracked", "ignored", "PRP.md"]) await repository.write(name, "1");
    await repository.write(".git/info/exclude", "/ignored\n/build/\n");
    return repository;
  }

  async git(...args: string[]): Promise<void> {
    await execa("git", [...IDENTITY, ...args], { cwd: this.path });
  }

  async write(name: string, text = ""): Promise<void> {
    await writeFile(join(this.path, name), text);
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.path, name));
  }

  state(cwd = this.path) {
    const prpPath = join(this.path, "PRP.md");
    return readWorkState({ cwd, sessionPath: this.path, prpPath, signal: new AbortController().signal });
  }

  async digest(cwd?: string): Promise<string> {
    const state = await this.state(cwd);
    return "digest" in state ? state.digest : expect.fail(state.whyUnknown);
  }
}

describe("the state of the work", () => {
  it.each<[string, (repository: Repository) => Promise<unknown>]>([
    ["a tracked file has changed", (repository) => repository.write("src/a", "2")],
    [
      "a changed file is staged",
      async (repository) => {
        await repository.write("src/a", "2");
        await repository.git("add", "src/a");
      },
    ],
    ["a tracked file is gone", (repository) => repository.remove("src/a")],
    ["a tracked file has another name", ({ path }) => rename(join(path, "src/a"), join(path, "src/b"))],
    [
      "a tracked file has become a link",
      async ({ path }) => {
        await rm(join(path, "src/a"));
        await symlink("b", join(path, "src/a"));
      },
    ],
    [
      "a tracked file has become a folder",
      async (repository) => {
        await repository.remove("src/a");
        await mkdir(join(repository.path, "src/a"));
        await repository.write("src/a/b");
      },
    ],
    [
      "a tracked folder has become a file",
      async (repository) => {
        await rm(join(repository.path, "src"), { recursive: true });
        await repository.write("src");
      },
    ],
    ["a tracked file has become a program", ({ path }) => execa("chmod", ["+x", join(path, "src/a")])],
    ["an untracked file has changed", (repository) => repository.write("untracked", "2")],
    ["an untracked file is gone", (repository) => repository.remove("untracked")],
    ["a new file has a line break in its name", (repository) => repository.write("new\n1 .D x")],
    ["there is another commit", (repository) => repository.git("commit", "--quiet", "--allow-empty", "-m", "second")],
    ["there is a repository in it", (repository) => repository.git("init", "--quiet", "inner")],
  ])("is another one if %s", async (_what, change) => {
    const repository = await Repository.create();
    const before = await repository.digest();
    await change(repository);

    expect(await repository.digest()).not.toBe(before);
  });

  it.each<[string, (repository: Repository) => Promise<unknown>]>([
    ["nothing has changed", async () => {}],
    ["an ignored file has changed", (repository) => repository.write("ignored", "2")],
    ["the PRP's text has changed", (repository) => repository.write("PRP.md", "2")],
    [
      "files have another time",
      async ({ path }) => {
        for (const name of ["src/a", "untracked"]) await utimes(join(path, name), 1, 1);
      },
    ],
    ["a file is staged", (repository) => repository.git("add", "untracked")],
    ["the branch has another name", (repository) => repository.git("branch", "-m", "other")],
    ["settings hide untracked files", (repository) => repository.git("config", "status.showUntrackedFiles", "no")],
  ])("is the same if %s", async (_what, change) => {
    const repository = await Repository.create();
    const before = await repository.digest();
    await change(repository);

    expect(await repository.digest()).toBe(before);
  });

  it.each([
    ["a submodule", ["submodule", "--quiet", "add"]],
    ["an untracked repository", ["clone", "--quiet"]],
  ])("is another one with each content of %s", async (_what, add) => {
    const [repository, other] = [await Repository.create(), await Repository.create()];
    await repository.git(...add, other.path, "inner");
    const digests = [await repository.digest()];
    for (const text of ["2", "3"]) {
      await repository.write("inner/src/a", text);
      digests.push(await repository.digest());
    }

    expect(new Set(digests).size).toBe(3);
  });

  it("depends on the side that a conflict is resolved for", async () => {
    const repository = await Repository.create();
    await repository.git("checkout", "--quiet", "-b", "other");
    await repository.git("rm", "--quiet", "src/a");
    await repository.git("commit", "--quiet", "-m", "removed");
    await repository.git("checkout", "--quiet", "-");
    await repository.write("src/a", "2");
    await repository.git("commit", "--quiet", "-a", "-m", "changed");
    await repository.git("merge", "other").catch(() => undefined);
    const before = await repository.digest();
    await repository.remove("src/a");

    expect(await repository.digest()).not.toBe(before);
  });

  it("in a folder of a repository depends on the folder, and on files elsewhere in the repository", async () => {
    const repository = await Repository.create();
    const folder = join(repository.path, "src");
    const before = await repository.digest(folder);
    expect(await repository.digest()).not.toBe(before);
    await repository.write("untracked", "2");

    expect(await repository.digest(folder)).not.toBe(before);
  });

  it.each<[string, string, (repository: Repository) => Promise<unknown>]>([
    [
      "there is no repository",
      "there is no git repository to tell whether the work has changed",
      ({ path }) => rm(join(path, ".git"), { recursive: true }),
    ],
    [
      "git ignores the folder",
      "git ignores its folder, so nothing is there to tell whether the work has changed",
      (repository) => repository.write(".git/info/exclude", "src/\n!src/a\n"),
    ],
    [
      "git fails",
      "git can't tell whether the work has changed: fatal: bad config line 1 in file",
      (repository) => repository.write(".git/config", "[broken\n"),
    ],
    [
      "an inner repository is broken",
      "git can't tell whether the work has changed: fatal: ",
      async (repository) => {
        await repository.git("init", "--quiet", "inner");
        await repository.write("inner/.git/config", "[core]\nrepositoryformatversion = 99\n");
      },
    ],
    [
      "too much is untracked",
      "git can't tell whether the work has changed: more than 2,000 files or 64 MB are changed or untracked. If they aren't work, add them to .gitignore",
      ({ path }) => truncate(join(path, "untracked"), 64 * 1024 * 1024 + 1),
    ],
    [
      "git isn't installed",
      "there is no git to tell whether the work has changed",
      async ({ path }) => {
        onTestFinished(() => void vi.unstubAllEnvs());
        vi.stubEnv("PATH", path);
      },
    ],
  ])("isn't known if %s", async (_what, whyUnknown, change) => {
    const repository = await Repository.create();
    if (whyUnknown.includes("ignores")) await repository.git("rm", "--quiet", "--cached", "src/a");
    await change(repository);

    expect(await repository.state(join(repository.path, "src"))).toEqual({
      whyUnknown: expect.stringContaining(whyUnknown),
    });
  });

  it("is read without a change of the repository: neither its index nor its objects", async () => {
    const repository = await Repository.create();
    await repository.write("src/a", "2");
    await repository.write("src/a", "1");
    const contentOfGit = async () => {
      const digest = createHash("sha256");
      const options = { recursive: true, withFileTypes: true } as const;
      const entries = await readdir(join(repository.path, ".git"), options);
      const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
      for (const path of files.sort()) digest.update(path).update(await readFile(path));
      return digest.digest("hex");
    };
    const before = await contentOfGit();
    await repository.digest();

    expect(await contentOfGit()).toBe(before);
  });
});
