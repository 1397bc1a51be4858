import { spawnSync } from "node:child_process";
import { existsSync, linkSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { basename, dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointError, CheckpointManager, type StorageAdapter } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { createBuildCheckpoints } from "waymark/builds";
import { CheckpointRepository, type OneshotCheckpoint } from "waymark/oneshot";
import {
  cleanupCheckpoints,
  completeCheckpoint,
  createCheckpoint,
  detectIncompleteCheckpoint,
  listCheckpoints,
  loadCheckpoint,
} from "waymark/phase-checkpoints";
import { type CheckpointExecutionState, PrpCheckpointManager } from "waymark/prp";
import { recordingLogger } from "../support/recording-logger.js";
import { tempFolder } from "../support/temp-folder.js";
import { treeOf } from "../support/tree.js";

/** Something that uses a store, and where what it keeps of task `t` stands. */
interface Subject {
  /** Stores two checkpoints, of which the second was removed again and the first is the newest. */
  readonly fill: (root: string, mark: string) => Promise<void>;
  /** Everything that can be done with the store, each call on its own. */
  readonly calls: (root: string) => Calls;
  /** Paths below the root where something may be planted. */
  readonly places: readonly string[];
}

interface Calls {
  readonly each: readonly (() => unknown)[];
  readonly close: () => unknown;
}

const SUBJECTS: Record<string, Subject> = {
  "json-file": managed(
    (path) => new JsonFileAdapter({ path, lockTimeoutMs: 50 }),
    [
      ...["t", "t/.lock", "t/.lock/claim", "t/.lock-stolen"],
      ...["t/000000000001-c1.json", "t/000000000002-c2.json", "t/000000000003-c3.json", "t/numbering.json"],
    ],
  ),
  "task-file": managed(
    (path) => new TaskFileAdapter({ path, lockTimeoutMs: 50 }),
    [...["t", "t/checkpoints.json", "t/checkpoints.json.lock", "t/checkpoints.json.lock/claim"]],
  ),
  sqlite: managed(
    (path) => new SqliteAdapter({ path: join(path, "c.db"), busyTimeoutMs: 50 }),
    [...["c.db", "c.db-wal", "c.db-shm", "c.db-journal"]],
  ),
  "waymark/oneshot": {
    async fill(root, mark) {
      const repository = new CheckpointRepository(root);
      await repository.save(feature(mark));
    },
    calls(root) {
      const repository = new CheckpointRepository(root);
      const each = [
        () => repository.list(),
        () => repository.exists("F1"),
        () => repository.load("F1", { force: true }),
        () => repository.save(feature("new")),
        () => repository.delete("F1"),
      ];
      return { each, close: () => undefined };
    },
    places: [".sdp/checkpoints/F1.json", ".sdp/checkpoints/.F1+lock", ".sdp/checkpoints/F2.json"],
  },
  "waymark/prp": {
    async fill(root, mark) {
      const checkpoints = new PrpCheckpointManager(root, {}, { logger: recordingLogger() });
      await checkpoints.saveCheckpoint("t", mark, PRP_STATE);
    },
    calls(root) {
      const checkpoints = new PrpCheckpointManager(root, {}, { logger: recordingLogger() });
      const each = [
        () => checkpoints.hasCheckpoint("t"),
        () => checkpoints.getLatestCheckpoint("t"),
        () => checkpoints.listCheckpoints("t"),
        () => checkpoints.saveCheckpoint("t", "new", PRP_STATE),
        () => checkpoints.cleanup("t", 0),
      ];
      return { each, close: () => undefined };
    },
    places: ["artifacts/t", "artifacts/t/checkpoints.json", "artifacts/t/checkpoints.json.lock"],
  },
  "waymark/phase-checkpoints": {
    async fill(root, mark) {
      const made = await createCheckpoint("build", 4, mark, [], {}, phaseOptions(root));
      if (!made.ok) throw new Error(made.error);
      const folder = join(root, "checkpoints");
      for (const name of readdirSync(folder)) renameSync(join(folder, name), join(folder, "ckpt-1.json"));
    },
    calls(root) {
      const options = phaseOptions(root);
      const each = [
        () => listCheckpoints(options),
        () => loadCheckpoint("none", options),
        () => detectIncompleteCheckpoint(options),
        () => createCheckpoint("build", 4, "new", [], {}, options),
        () => completeCheckpoint("none", options),
        () => cleanupCheckpoints(0, options),
      ];
      return { each, close: () => undefined };
    },
    places: ["checkpoints/ckpt-1.json", "checkpoints/ckpt-2.json", "checkpoints/.lock", "seed.json", "seed.json.lock"],
  },
  "waymark/builds": {
    async fill(root, mark) {
      const builds = createBuildCheckpoints({ path: join(root, "b.db") });
      builds.saveCheckpoint("t", { tasks: [mark], currentPhase: 1 });
      builds.close();
    },
    calls(root) {
      const builds = createBuildCheckpoints({ path: join(root, "b.db"), busyTimeoutMs: 50, logger: recordingLogger() });
      const each = [
        () => builds.getLatestCheckpoint("t"),
        () => builds.saveCheckpoint("t", { tasks: ["new"], currentPhase: 2 }),
        () => builds.listSavedBuilds(),
        () => builds.cleanupOldCheckpoints(1),
      ];
      return { each, close: () => builds.close() };
    },
    places: ["b.db", "b.db-wal", "b.db-shm", "b.db-journal"],
  },
};

/** What may be planted at a path: given the store's twin outside, and a file that is nobody's business. */
const PLANTS: Record<string, (path: string, outside: Outside) => unknown> = {
  "a link to its like outside": (path, { twin }) => symlinkSync(twin, path),
  "a link to a folder outside": (path, { folder }) => symlinkSync(folder, path),
  "a link to a file outside": (path, { file }) => symlinkSync(file, path),
  "a link to what isn't there": (path, { folder }) => symlinkSync(join(folder, "nothing"), path),
  "a link to itself": (path) => symlinkSync(basename(path), path),
  "another name of a file outside": (path, { file }) => linkSync(file, path),
  "a pipe": (path) => expect(spawnSync("sh", ["-c", 'mkfifo "$0"', path]).status).toBe(0),
  "a socket": (path) => listenAt(path),
  "a folder": (path) => mkdirSync(path),
};

interface Outside {
  readonly twin: string;
  readonly folder: string;
  readonly file: string;
}

const CASES = Object.entries(SUBJECTS).flatMap(([name, { places }]) => places.map((place) => [name, place] as const));

describe.each(CASES)("%s, where at %s there is", (name, place) => {
  const subject = SUBJECTS[name]!;

  it.each(kindsAt(place))("%s", async (kind) => {
    const base = await tempFolder();
    const [root, elsewhere] = [join(base, "store"), join(base, "elsewhere")];
    mkdirSync(root, { mode: 0o700 });
    mkdirSync(join(elsewhere, "folder"), { recursive: true });
    await subject.fill(root, "inside");
    await subject.fill(elsewhere, "OUTSIDE");
    writeFileSync(join(elsewhere, "file"), "OUTSIDE");
    const outside = { twin: join(elsewhere, place), folder: join(elsewhere, "folder"), file: join(elsewhere, "file") };

    // One that has used the store before, and one that comes to it anew.
    const used = subject.calls(root);
    for (const call of used.each.slice(0, 3)) await outcomeOf(call);
    const path = join(root, place);
    mkdirSync(dirname(path), { recursive: true });
    if (existsSync(path)) rmSync(path, { recursive: true });
    await PLANTS[kind]!(path, outside);
    const before = treeOf(base, root);

    const fresh = subject.calls(root);
    for (const call of [...used.each, ...fresh.each]) {
      const { error, value } = await outcomeOf(call);
      if (error !== undefined) expect(error).toBeInstanceOf(CheckpointError);
      expect(JSON.stringify(value) ?? "").not.toContain("OUTSIDE");
    }
    await used.close();
    await fresh.close();
    // Its own name in the tree's root may come and go; what it leads to may not.
    expect(treeOf(base, root)).toEqual({ ...before, [base]: expect.anything() });
  });
});

/** Which file a database's own path leads to is its user's choice: what SQLite makes beside it is what may be planted. */
function kindsAt(place: string): string[] {
  const isDatabase = place.endsWith(".db");
  return Object.keys(PLANTS).filter((kind) => !(isDatabase && /its like outside|another name/.test(kind)));
}

function managed(open: (path: string) => StorageAdapter, places: readonly string[]): Subject {
  const managerOn = (root: string) => {
    let count = 0;
    return new CheckpointManager({ storage: open(root), logger: recordingLogger(), createId: () => `c${++count}` });
  };
  return {
    async fill(root, mark) {
      const manager = managerOn(root);
      await manager.save("t", { mark }, { label: mark });
      await manager.save("t", { mark }, { label: mark });
      await manager.remove("t", "c2");
      await manager.close();
    },
    calls(root) {
      const manager = managerOn(root);
      const each = [
        () => manager.latest("t"),
        () => manager.tasks(),
        () => manager.save("t", { mark: "new" }),
        () => manager.list("t"),
        () => manager.restore("t", "c1"),
        () => manager.findIncomplete(),
        () => manager.setStatus("t", "c1", "paused"),
        () => manager.save("t", { mark: "newer" }),
        () => manager.save("u", { mark: "another" }),
        () => manager.remove("t", "c1"),
        () => manager.removeTask("t"),
      ];
      return { each, close: () => manager.close() };
    },
    places,
  };
}

async function outcomeOf(call: () => unknown): Promise<{ readonly error?: unknown; readonly value?: unknown }> {
  try {
    return { value: await call() };
  } catch (error) {
    return { error };
  }
}

async function listenAt(path: string): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => void server.close());
}

function feature(mark: string): OneshotCheckpoint {
  const now = new Date();
  return {
    featureId: "F1",
    agentId: mark,
    status: "running",
    completedWs: [],
    currentWs: "",
    startTime: now,
    lastUpdate: now,
  };
}

const PRP_STATE: CheckpointExecutionState = {
  prpPath: "",
  stage: "pre-execution",
  validationResults: [],
  timestamp: new Date(0),
};

function phaseOptions(root: string) {
  return { checkpointsDir: join(root, "checkpoints"), seedPath: join(root, "seed.json"), logger: recordingLogger() };
}
