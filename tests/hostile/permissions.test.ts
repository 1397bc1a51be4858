import { chmodSync, lstatSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { createBuildCheckpoints } from "waymark/builds";
import { CheckpointRepository } from "waymark/oneshot";
import { createCheckpoint, listCheckpoints } from "waymark/phase-checkpoints";
import { PrpCheckpointManager } from "waymark/prp";
import { newPlace, waymark } from "../cli/waymark.js";
import { recordingLogger } from "../support/recording-logger.js";
import { tempFolder } from "../support/temp-folder.js";

type Logger = ReturnType<typeof recordingLogger>;

/** Uses a store below the root once, with all its features. The store's files exist while `look` runs. */
type Use = (root: string, look: () => void, logger: Logger) => Promise<void>;

const USES: Record<string, Use> = {
  "json-file": managed((path) => new JsonFileAdapter({ path })),
  "task-file": managed((path) => new TaskFileAdapter({ path })),
  sqlite: managed((path) => new SqliteAdapter({ path: join(path, "checkpoints.db") })),
  async "waymark/prp"(root, look, logger) {
    const state = { prpPath: "", stage: "pre-execution", validationResults: [], timestamp: new Date(0) } as const;
    const checkpoints = new PrpCheckpointManager(join(root, ".."), {}, { logger });
    await checkpoints.saveCheckpoint("t", "first", { ...state, validationResults: [] });
    look();
    await checkpoints.close();
  },
  async "waymark/oneshot"(root, look) {
    const now = new Date();
    const repository = new CheckpointRepository(join(root, "..", ".."));
    const times = { startTime: now, lastUpdate: now };
    await repository.save({
      featureId: "F",
      agentId: "a",
      status: "running",
      completedWs: [],
      currentWs: "",
      ...times,
    });
    look();
  },
  async "waymark/phase-checkpoints"(root, look, logger) {
    const options = { checkpointsDir: root, logger };
    expect(await createCheckpoint("build", 4, "t", [], {}, options)).toMatchObject({ ok: true });
    expect(await listCheckpoints(options)).toHaveLength(1);
    look();
  },
  async "waymark/builds"(root, look, logger) {
    const builds = createBuildCheckpoints({ path: join(root, "builds.db"), logger });
    builds.saveCheckpoint("b", { tasks: [], currentPhase: 1 });
    look();
    builds.close();
  },
};

/** The folder that each store makes for its files, relative to a base folder. */
const ROOTS: Record<string, string> = { "waymark/prp": "session/artifacts", "waymark/oneshot": ".sdp/checkpoints" };

function place(base: string, kind: string): string {
  return join(base, ROOTS[kind] ?? "waymark/store");
}

describe.each(Object.keys(USES))("%s", (kind) => {
  const use = USES[kind]!;

  it.each([0o000, 0o022, 0o077])("makes files 0600 and folders 0700 under the umask %o", async (mask) => {
    const base = await tempFolder();
    const before = process.umask(mask);
    onTestFinished(() => void process.umask(before));
    let modes: Record<string, string> = {};
    await use(
      place(base, kind),
      () => {
        modes = modesBelow(base);
      },
      recordingLogger(),
    );
    expect(Object.keys(modes).length).toBeGreaterThan(2);
    for (const [path, mode] of Object.entries(modes)) {
      expect(mode, path).toMatch(/^(folder 700|file 600)$/);
    }
  });

  it("leaves existing folders unchanged", async () => {
    const base = await tempFolder();
    const root = place(base, kind);
    mkdirSync(root, { recursive: true, mode: 0o755 });
    chmodSync(root, 0o750);
    await use(root, () => undefined, recordingLogger());
    expect(lstatSync(root).mode & 0o777).toBe(0o750);
  });
});

describe("waymark", () => {
  it("makes exports and plans with mode 0600", async () => {
    const { cwd, manager, place: where } = await newPlace("files:store");
    await manager.save("t", 1);
    await manager.save("t", 2);
    await manager.close();
    const before = process.umask(0);
    onTestFinished(() => void process.umask(before));
    expect(await waymark(where, ["export", "--out", "all.ndjson"])).toMatchObject({ code: 0 });
    expect(await waymark(where, ["prune", "t", "--keep-last", "1", "--plan-out", "plan.json"])).toMatchObject({
      code: 0,
    });
    expect(modesBelow(cwd, (name) => /all|plan/.test(name))).toEqual({
      [join(cwd, "all.ndjson")]: "file 600",
      [join(cwd, "plan.json")]: "file 600",
    });
  });
});

function managed(open: (path: string) => StorageAdapter): Use {
  return async (root, look, logger) => {
    const manager = new CheckpointManager({ storage: open(root), logger });
    await manager.save("t", { n: 1 });
    const { id } = await manager.save("t", { n: 2 });
    await manager.setStatus("t", id, "paused");
    await manager.remove("t", id);
    look();
    await manager.close();
  };
}

function modesBelow(folder: string, isAsked: (name: string) => boolean = () => true): Record<string, string> {
  const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(isAsked);
  return Object.fromEntries(
    paths.map((name) => {
      const stats = lstatSync(join(folder, name));
      return [join(folder, name), `${stats.isDirectory() ? "folder" : "file"} ${(stats.mode & 0o777).toString(8)}`];
    }),
  );
}
