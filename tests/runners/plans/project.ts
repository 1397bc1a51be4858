import { chmod, copyFile, mkdir, readFile, watch, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { type RunPlanOptions, runPlan } from "waymark-runners/plans";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

/** The actions of the coder in tests/fixtures/plans at each call for an item. */
export type Script = Readonly<
  Record<string, readonly (string | { readonly limitMs: number } | { readonly meet: readonly string[] })[]>
>;

const CODER = join(import.meta.dirname, "..", "..", "fixtures", "plans", "coder.mjs");

/** A gate that notes that it ran, and fails unless `$1` and each item that the plan marks as done have their files. */
const GATE = `#!/bin/sh
echo gate >> gates
for file in $(grep '^- \\[x\\]' tasks.md | cut -d' ' -f3); do test -e "out/$file" || { echo "out/$file is missing"; exit 1; }; done
last=$(tail -1 calls | cut -d' ' -f1)
test -e "out/$last" || { echo "out/$last is missing" >&2; exit 1; }
test ! -d .git || GIT_INDEX_FILE=.git/gate-index sh -c 'git add out && git write-tree --prefix=out/' >> passed
`;

/** A folder with a plan, a gate, and a coder that follows a script. */
export class Project {
  readonly cwd: string;
  readonly manager: CheckpointManager;
  readonly log = recordingLogger();

  private constructor(cwd: string) {
    this.cwd = cwd;
    this.manager = new CheckpointManager({
      storage: new SqliteAdapter({ path: join(cwd, ".waymark", "checkpoints.db") }),
    });
    onTestFinished(() => this.manager.close());
  }

  static async create(plan: string, script: Script = {}, options: { readonly git?: boolean } = {}): Promise<Project> {
    const cwd = await tempFolder();
    const project = new Project(cwd);
    await project.write("tasks.md", plan);
    await project.write("gate", GATE);
    await chmod(join(cwd, "gate"), 0o755);
    // Commands find the programs of node_modules first, so this is `claude`.
    await mkdir(join(cwd, "node_modules", ".bin"), { recursive: true });
    for (const path of ["claude", join("node_modules", ".bin", "claude")]) {
      await copyFile(CODER, join(cwd, path));
      await chmod(join(cwd, path), 0o755);
    }
    await project.write("script.json", JSON.stringify(script));
    if (options.git) {
      await project.git("init", "--quiet");
      await project.git("config", "user.name", "T");
      await project.git("config", "user.email", "t@example.com");
      await project.write(
        ".git/info/exclude",
        "/node_modules\n/calls\n/gates\n/passed\n/prompt-*\n/runner\n/.waymark\n/script.json\n",
      );
      await project.git("add", ".");
      await project.git("commit", "--quiet", "-m", "Begin");
    }
    return project;
  }

  run(options: Partial<RunPlanOptions> = {}) {
    const { cwd, log } = this;
    const env = { coder: "./claude", gates: ["./gate"], cwd, logger: log, output: () => undefined };
    return runPlan(this.manager, join(cwd, "tasks.md"), { ...env, ...options });
  }

  async git(...args: string[]): Promise<string> {
    return (await execa("git", args, { cwd: this.cwd })).stdout;
  }

  write(name: string, text: string): Promise<void> {
    return writeFile(join(this.cwd, name), text);
  }

  read(name: string): Promise<string> {
    return readFile(join(this.cwd, name), "utf8");
  }

  /** Waits until a file exists. */
  async until(name: string): Promise<void> {
    const stop = new AbortController();
    for await (const { filename } of watch(this.cwd, { signal: stop.signal })) {
      if (filename === name) break;
    }
    stop.abort();
  }

  async lines(name: string): Promise<string[]> {
    return (await this.read(name)).trimEnd().split("\n");
  }

  /** What is recorded of the items. */
  async items(): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined> {
    const latest = await this.manager.latest("plan/tasks.md");
    return (latest?.state as { items?: Record<string, Record<string, unknown>> } | undefined)?.items;
  }
}
