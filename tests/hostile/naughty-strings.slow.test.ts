import { hash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { createBuildCheckpoints } from "waymark/builds";
import { CheckpointRepository } from "waymark/oneshot";
import { createCheckpoint, listCheckpoints } from "waymark/phase-checkpoints";
import { PrpCheckpointManager } from "waymark/prp";
import { HOSTILE_NAMES } from "../../conformance/hostile.js";
import { count } from "../crash/counts.js";
import { NAUGHTY_STRINGS } from "../support/naughty-strings.js";
import { administer, serverUrl } from "../support/postgres.js";
import { recordingLogger } from "../support/recording-logger.js";
import { tempFolder } from "../support/temp-folder.js";
import { treeOf } from "../support/tree.js";

const LONE_SURROGATES = ["\ud800", "a\udc00b"];
const ALL = [...new Set([...NAUGHTY_STRINGS, ...HOSTILE_NAMES, ...LONE_SURROGATES, "x".repeat(513), ""])];
/** The strings that may be ids. The others are refused before anything is stored. */
const NAMES = ALL.filter((text) => text !== "" && text.length <= 512 && text.isWellFormed());
const REFUSED = ALL.filter((text) => !NAMES.includes(text));

const example = new URL("../../examples/custom-adapter/conformance-store.js", import.meta.url).href;
const unstorage: { readonly open: (path: string) => StorageAdapter } = await import(example);

/** On PostgreSQL, each root has its own schema. */
const url = await serverUrl();
const schemaOf = (path: string) => `test_${hash("sha256", path).slice(0, 32)}`;

const ADAPTERS: Record<string, (path: string) => StorageAdapter> = {
  memory: () => new MemoryAdapter(),
  "json-file": (path) => new JsonFileAdapter({ path }),
  "task-file": (path) => new TaskFileAdapter({ path }),
  sqlite: (path) => new SqliteAdapter({ path: join(path, "checkpoints.db") }),
  postgres: (path) => new PostgresAdapter({ url, schema: schemaOf(path) }),
  unstorage: unstorage.open,
};

describe.each(Object.entries(ADAPTERS))("%s", (name, open) => {
  it("keeps every valid naughty string as a task's id, and refuses the others", async () => {
    const { root, unchanged } = await guardedRoot();
    const manager = new CheckpointManager({ storage: open(root), logger: recordingLogger() });
    for (const taskId of NAMES) await manager.save(taskId, { of: taskId }, { stage: taskId });
    for (const taskId of REFUSED) await expect(manager.save(taskId, 1)).rejects.toBeInstanceOf(RangeError);
    for (const taskId of NAMES) {
      expect(await manager.list(taskId)).toMatchObject([{ taskId, sequence: 1, stage: taskId }]);
      expect((await manager.latest(taskId))?.state).toEqual({ of: taskId });
    }
    expect((await manager.tasks()).map(({ taskId }) => taskId).sort()).toEqual([...NAMES].sort());
    await manager.removeTask("..");
    expect(await manager.has("..")).toBe(false);
    expect(await manager.tasks()).toHaveLength(NAMES.length - 1);
    await manager.close();
    unchanged();
    countKept(name, "as a task's id", ALL);
  });

  it("keeps every naughty string as an id, in each text and in the state", async () => {
    const { root, unchanged } = await guardedRoot();
    const ids = [...NAMES];
    const manager = new CheckpointManager({
      storage: open(root),
      createId: () => ids.shift() ?? "none",
      logger: recordingLogger(),
    });
    const texts = (text: string) => ({
      state: { [text]: text, list: [text], map: new Map([[text, new Set([text])]]), error: new Error(text) },
      metadata: Object.fromEntries([[text, text]]),
    });
    // The time grows with the square of the number of checkpoints in a `checkpoints.json`, so each task has only some.
    const taskOf = (index: number) => `t${Math.floor(index / 20)}`;
    for (const [index, text] of NAMES.entries()) {
      const { state, metadata } = texts(text);
      const { id } = await manager.save(taskOf(index), state, {
        stage: text,
        label: text,
        parentId: text,
        metadata,
        error: new Error(text),
      });
      expect(id).toBe(text);
    }
    for (const [index, text] of NAMES.entries()) {
      const found = await manager.restore(taskOf(index), text);
      const { state, metadata } = texts(text);
      expect(found).toMatchObject({ id: text, stage: text, label: text, parentId: text, status: "failed" });
      expect(found.metadata).toEqual(metadata);
      expect(found.error?.message).toBe(text);
      const { error, ...rest } = found.state as typeof state;
      expect({ ...rest, error: error.message }).toEqual({ ...state, error: text });
    }
    await manager.close();
    unchanged();
    countKept(name, "as an id, a stage, a label, a parent, metadata, an error and a state", NAMES);
  });
});

describe("the systems", () => {
  it("waymark/prp keeps every naughty string as a task", async () => {
    const { root, unchanged } = await guardedRoot();
    const manager = new PrpCheckpointManager(root, {}, { logger: recordingLogger() });
    const state = { prpPath: "", stage: "pre-execution", validationResults: [], timestamp: new Date(0) } as const;
    for (const text of NAMES) {
      const id = await manager.saveCheckpoint(text, text, { ...state, prpPath: text, validationResults: [] });
      expect(await manager.restoreCheckpoint(id)).toMatchObject({
        taskId: text,
        label: text,
        state: { prpPath: text },
      });
    }
    for (const text of NAMES) expect(await manager.listCheckpoints(text)).toHaveLength(1);
    await manager.close();
    unchanged();
    countKept("waymark/prp", "as a task", NAMES);
  });

  it("waymark/oneshot keeps every naughty string as a feature", async () => {
    const { root, unchanged } = await guardedRoot();
    const repository = new CheckpointRepository(root);
    const times = { startTime: new Date(0), lastUpdate: new Date() };
    for (const text of NAMES) {
      const rest = { agentId: text, status: "running", completedWs: [text], currentWs: text } as const;
      await repository.save({ featureId: text, ...rest, ...times });
    }
    expect((await repository.list()).sort()).toEqual([...NAMES].sort());
    for (const text of NAMES)
      expect(await repository.load(text)).toMatchObject({ featureId: text, completedWs: [text] });
    await repository.delete("..");
    expect(await repository.list()).toHaveLength(NAMES.length - 1);
    unchanged();
    countKept("waymark/oneshot", "as a feature", NAMES);
  });

  it("waymark/phase-checkpoints keeps every naughty string as a phase", async () => {
    const { root, unchanged } = await guardedRoot();
    const options = { checkpointsDir: join(root, "checkpoints"), logger: recordingLogger() };
    for (const text of NAMES) {
      const made = await createCheckpoint(text, 1, text, [], Object.fromEntries([[text, text]]), options);
      expect(made).toMatchObject({ ok: true });
    }
    const found = await listCheckpoints(options);
    expect(found.map(({ phase }) => phase).reverse()).toEqual(NAMES);
    for (const { phase, taskSummary, metadata } of found) {
      expect(taskSummary).toBe(phase);
      expect(Object.entries(metadata)).toEqual([[phase, phase]]);
    }
    unchanged();
    countKept("waymark/phase-checkpoints", "as a phase", NAMES);
  });

  it("waymark/builds keeps every naughty string as a build", async () => {
    const { root, unchanged } = await guardedRoot();
    const builds = createBuildCheckpoints({ path: join(root, "builds.db"), logger: recordingLogger() });
    for (const text of NAMES) {
      builds.saveCheckpoint(text, { tasks: [text], currentPhase: 1, metadata: Object.fromEntries([[text, text]]) });
    }
    for (const text of NAMES) {
      const found = builds.getLatestCheckpoint(text);
      expect(found).toMatchObject({ buildId: text, tasks: [text] });
      expect(Object.entries(found?.metadata ?? {})).toEqual([[text, text]]);
    }
    builds.close();
    unchanged();
    countKept("waymark/builds", "as a build", NAMES);
  });
});

/** Counts the strings after each of them was found or refused. A lost string would have failed the test before. */
function countKept(store: string, operation: string, { length }: readonly string[]): void {
  count({ what: "hostile strings", store, operation, tried: length, lost: 0 });
}

/** Makes a root deep in a new folder, with files around it that must stay untouched. */
async function guardedRoot() {
  const base = await tempFolder();
  const root = join(base, "a", "b", "c", "store");
  mkdirSync(root, { recursive: true, mode: 0o700 });
  for (const folder of ["", "a", "a/b", "a/b/c", "etc", "a/b/c/up"]) {
    mkdirSync(join(base, folder), { recursive: true });
    writeFileSync(join(base, folder, "sentinel"), "nobody's business");
  }
  onTestFinished(async () => void (await administer(url, `DROP SCHEMA IF EXISTS "${schemaOf(root)}" CASCADE`)));
  const before = treeOf(base, root);
  return { root, unchanged: () => expect(treeOf(base, root)).toEqual(before) };
}
