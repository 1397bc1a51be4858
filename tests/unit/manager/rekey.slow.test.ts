import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import {
  CheckpointCorruptError,
  CheckpointManager,
  type CheckpointManagerOptions,
  type CorruptRecord,
  encrypt,
  gzip,
  type RekeyResult,
  type StorageAdapter,
  type Transform,
} from "waymark";
import { isCorrupt, type StoredCheckpoint, toSummary } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { requireLog } from "../../../src/manager/records.js";
import { collect } from "../../support/collect.js";
import { deferred } from "../../support/deferred.js";
import { tempFolder } from "../../support/temp-folder.js";
import { sha256Of } from "../adapters/files/drafts.js";

const KEYS = { old: randomBytes(32), current: randomBytes(32), lost: randomBytes(32) };
const by = (id: keyof typeof KEYS) => encrypt({ keys: { [id]: KEYS[id] }, current: id });
const rotated = () => encrypt({ keys: { old: KEYS.old, current: KEYS.current }, current: "current" });

const STORAGES: Record<string, (folder: string) => StorageAdapter | Promise<StorageAdapter>> = {
  memory: () => new MemoryAdapter(),
  "json-file": (folder) => openStorage(`files:${join(folder, "store")}`),
  "task-file": (folder) => openStorage(`tasks:${join(folder, "store")}`),
  sqlite: (folder) => openStorage(`sqlite:${join(folder, "store.db")}`),
};

function managerOn(
  storage: StorageAdapter,
  transforms: readonly Transform[],
  options: Partial<CheckpointManagerOptions> = {},
) {
  return new CheckpointManager({ storage, ownsStorage: false, transforms, ...options });
}

async function recordsOf(storage: StorageAdapter): Promise<StoredCheckpoint[]> {
  const records: StoredCheckpoint[] = [];
  for await (const task of storage.tasks({ order: "taskId" })) {
    if (isCorrupt(task)) continue;
    for await (const record of storage.read({ taskId: task.taskId, order: "oldest" })) {
      if (!isCorrupt(record)) records.push(record);
    }
  }
  return records;
}

/** Returns the key's id, which the envelope contains unencrypted; `plain` if there is no envelope. */
const keyIdsOf = async (storage: StorageAdapter) =>
  (await recordsOf(storage)).map(({ payload: { encoding, body } }) => {
    if (typeof body === "string" || !encoding.endsWith("+encrypt")) return "plain";
    return Buffer.from(body.subarray(2, 2 + (body[1] ?? 0))).toString();
  });

/** Saves plain checkpoints and some under the old and the current key, in two tasks, with every status. */
async function mixedStore(storage: StorageAdapter) {
  await managerOn(storage, []).save("a", { n: 1, at: new Date(7) }, { label: "plain", metadata: { k: 1 } });
  await managerOn(storage, [by("old")]).save("a", { n: 2 }, { stage: "s", parentId: "p" });
  await managerOn(storage, [gzip(), rotated()]).save("a", { n: 3 });
  await managerOn(storage, [gzip(), by("old")]).save("b", { n: 4 }, { status: "completed" });
  await managerOn(storage, [by("old")]).save("b", { n: 5 }, { error: new Error("as it was") });
}

describe.each(Object.entries(STORAGES))("rekey in %s", (_name, open) => {
  it("rewrites payloads that aren't current, and keeps everything else unchanged", async () => {
    const storage = await open(await tempFolder());
    await mixedStore(storage);
    const before = await recordsOf(storage);
    const manager = managerOn(storage, [gzip(), rotated()]);
    const states = [];
    for (const taskId of ["a", "b"]) for await (const { state } of manager.history(taskId)) states.push(state);

    const progress: RekeyResult[] = [];
    const result = await manager.maintenance.rekey({ onProgress: (now) => progress.push(now) });
    const all = { total: 5, refused: 0, damaged: 0, refusals: [] };
    expect(result).toEqual({ ...all, done: 5, rewritten: 4, current: 1, left: 0 });
    expect(progress[0]).toEqual({ ...all, done: 0, rewritten: 0, current: 0, left: 5 });
    expect(progress.at(-1)).toEqual(result);
    expect(progress.map(({ left }) => left)).toEqual([5, 4, 3, 2, 1, 0]);

    const after = await recordsOf(storage);
    const withoutSize = (record: StoredCheckpoint) => ({ ...toSummary(record), sizeBytes: 0 });
    expect(after.map(withoutSize)).toEqual(before.map(withoutSize));
    expect(after.every(({ payload }) => /^json(-tagged)?\+gzip\+encrypt$/.test(payload.encoding))).toBe(true);
    expect(await keyIdsOf(storage)).toEqual(["current", "current", "current", "current", "current"]);
    expect(after[2]).toEqual(before[2]);
    const again = [];
    const withoutOld = managerOn(storage, [gzip(), by("current")]);
    for (const taskId of ["a", "b"]) for await (const { state } of withoutOld.history(taskId)) again.push(state);
    expect(again).toEqual(states);
    await storage.close();
  });

  it("replaces the records of a task a thousand at a time, since a log on files is written anew each time", async () => {
    const storage = await open(await tempFolder());
    const records = Array.from({ length: 1001 }, (_, n) => {
      const payload = { encoding: "json", body: String(n), sha256: sha256Of(String(n)) };
      return { kind: "step", createdAt: "2026-01-02T03:04:05.678Z", payload } as const;
    });
    const log = requireLog(storage, "this test");
    await log.append("t", records);
    const replace = vi.spyOn(log, "replacePayloads");
    replace.mockRejectedValueOnce(new CheckpointCorruptError('Record 7 of task "t" is damaged.'));
    const manager = managerOn(storage, [rotated()]);
    const refused = { done: 1001, rewritten: 1, refused: 1000, refusals: { length: 100 } };
    expect(await manager.maintenance.rekey()).toMatchObject(refused);
    expect(replace.mock.calls.map(([, changes]) => changes.length)).toEqual([1000, 1]);
    expect(await manager.maintenance.rekey()).toMatchObject({ rewritten: 1000, current: 1, refused: 0 });
    const values = (await collect(manager.records("t"))).map((record) => "value" in record && record.value);
    expect(values).toEqual(Array.from({ length: 1001 }, (_, n) => n));
    await storage.close();
  });

  it("changes nothing the second time", async () => {
    const storage = await open(await tempFolder());
    await mixedStore(storage);
    const manager = managerOn(storage, [gzip(), rotated()]);
    await manager.maintenance.rekey();
    const before = await recordsOf(storage);
    expect(await manager.maintenance.rekey()).toMatchObject({ done: 5, rewritten: 0, left: 0 });
    expect(await recordsOf(storage)).toEqual(before);
    await storage.close();
  });

  it("runs at the same time as saves, and neither loses nor blocks any", async () => {
    const storage = await open(await tempFolder());
    const former = managerOn(storage, [by("old")]);
    for (let n = 1; n <= 30; n++) await former.save("t", { n });
    const manager = managerOn(storage, [rotated()]);
    let saved = 0;
    let isOver = false;
    const rekeying = manager.maintenance.rekey().finally(() => {
      isOver = true;
    });
    while (!isOver) {
      saved += 1;
      await manager.save("t", { n: 30 + saved });
      await manager.save("u", { saved });
      // A program that saves only in memory would never let others run.
      await nextTurn();
    }
    expect(await rekeying).toMatchObject({ left: 0, rewritten: 30, refused: 0, damaged: 0 });
    // A save waits for one rewrite at most.
    expect(saved).toBeGreaterThan(5);
    const states = [];
    for await (const { state } of manager.history("t", { order: "oldest" })) states.push(state);
    expect(states).toEqual(Array.from({ length: 30 + saved }, (_, index) => ({ n: index + 1 })));
    expect(new Set(await keyIdsOf(storage))).toEqual(new Set(["current"]));
    await storage.close();
  });

  it("stops at the signal and reports how much is left, and the next run does the rest", async () => {
    const storage = await open(await tempFolder());
    for (let n = 1; n <= 6; n++) await managerOn(storage, [by("old")]).save("t", { n });
    const manager = managerOn(storage, [rotated()]);
    const stop = new AbortController();
    const onProgress = ({ done }: Pick<RekeyResult, "done">) => done === 2 && stop.abort();
    expect(await manager.maintenance.rekey({ signal: stop.signal, onProgress })).toMatchObject({
      done: 2,
      rewritten: 2,
      left: 4,
      total: 6,
    });
    expect(await keyIdsOf(storage)).toEqual(["current", "current", "old", "old", "old", "old"]);
    expect(await manager.maintenance.rekey({ signal: stop.signal })).toMatchObject({ done: 0, left: 6 });
    expect(await manager.maintenance.rekey()).toMatchObject({ done: 6, rewritten: 4, left: 0 });
    await storage.close();
  });
});

describe("rekey", () => {
  const storage = () => new MemoryAdapter();

  it("leaves checkpoints that no key opens, and reports each with its reason", async () => {
    const store = storage();
    await managerOn(store, [by("lost")]).save("t", { n: 1 });
    await managerOn(store, [by("old")]).save("t", { n: 2 });
    await managerOn(store, [encrypt({ keys: { old: KEYS.lost }, current: "old" })]).save("t", { n: 3 });
    const before = await recordsOf(store);
    const result = await managerOn(store, [rotated()]).maintenance.rekey();
    expect(result).toMatchObject({ done: 3, rewritten: 1, left: 0, refused: 2, damaged: 0 });
    expect(result.refusals.map(({ sequence, error }) => [sequence, error.code])).toEqual([
      [1, "DECRYPTION_FAILED"],
      [3, "DECRYPTION_FAILED"],
    ]);
    const after = await recordsOf(store);
    expect([after[0], after[2]]).toEqual([before[0], before[2]]);
  });

  it("doesn't encrypt what requireEncrypted refuses: a planted record would become a trusted one", async () => {
    const store = storage();
    await managerOn(store, []).save("t", { planted: true });
    const strict = encrypt({ keys: { k: KEYS.current }, current: "k", requireEncrypted: true });
    const result = await managerOn(store, [strict]).maintenance.rekey();
    expect(result).toMatchObject({ rewritten: 0, refused: 1 });
    expect(await keyIdsOf(store)).toEqual(["plain"]);
  });

  it("detects a current key that doesn't open a payload under its name", async () => {
    const store = storage();
    await managerOn(store, [encrypt({ keys: { current: KEYS.lost }, current: "current" })]).save("t", { n: 1 });
    expect(await managerOn(store, [by("current")]).maintenance.rekey()).toMatchObject({ rewritten: 0, refused: 1 });
  });

  it("skips damage, reports it once, and leaves it untouched", async () => {
    const folder = await tempFolder();
    const store = openStorage(`files:${folder}/store`);
    for (let n = 1; n <= 3; n++) await managerOn(store, [by("old")]).save("t", { n });
    const task = join(folder, "store", "t");
    const [first = "", , third = ""] = readdirSync(task)
      .filter((name) => name.endsWith(".json"))
      .sort();
    const damage = (name: string, change: (text: string) => string) =>
      writeFileSync(join(task, name), change(readFileSync(join(task, name), "utf8")));
    damage(first, (text) => text.slice(0, 40));
    damage(third, (text) => text.replace(/"state":"(.)/, (_, one: string) => `"state":"${one === "A" ? "B" : "A"}`));
    const damaged = [first, third].map((name) => readFileSync(join(task, name), "utf8"));
    const manager = managerOn(store, [rotated()], { logger: { debug() {}, info() {}, warn() {}, error() {} } });
    const corrupt: CorruptRecord[] = [];
    manager.on("corrupt", (record) => corrupt.push(record));
    expect(await manager.maintenance.rekey()).toMatchObject({ done: 3, rewritten: 1, left: 0, damaged: 2 });
    expect(corrupt.map(({ sequence }) => sequence)).toEqual([1, 3]);
    expect([first, third].map((name) => readFileSync(join(task, name), "utf8"))).toEqual(damaged);
    await store.close();
  });

  it("reports checkpoints that the storage refuses to rewrite: they still need the old key", async () => {
    const folder = await tempFolder();
    const store = new TaskFileAdapter({ path: folder });
    for (const n of [1, 2]) await managerOn(store, [by("old")]).save("t", { n });
    const path = join(folder, "t", "checkpoints.json");
    const whole = readFileSync(path, "utf8");
    // The storage refuses writes because of its numbering, but everything can be read.
    const damaged = whole.replace(/"lastSequence":2/, '"lastSequence":3');
    expect(damaged).not.toBe(whole);
    writeFileSync(path, damaged);
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    const result = await managerOn(store, [rotated()], { logger }).maintenance.rekey();
    expect(result).toMatchObject({ rewritten: 0, current: 0, left: 0, refused: 2, damaged: 1 });
    expect(result.refusals[0]?.error.code).toBe("CHECKPOINT_CORRUPT");
    await store.close();
  });

  it("throws if an old key can't be fetched, which doesn't count as a refusal", async () => {
    const store = storage();
    await managerOn(store, [by("old")]).save("t", { n: 1 });
    const away = () => Promise.reject(new Error("The KMS is away."));
    const manager = managerOn(store, [encrypt({ keys: { old: away, current: KEYS.current }, current: "current" })]);
    await expect(manager.maintenance.rekey()).rejects.toMatchObject({ code: "KEY_UNAVAILABLE", retryable: true });
  });

  it("treats a record that fails its seal as damaged, current or not", async () => {
    const store = storage();
    await managerOn(store, [by("old")]).save("t", { n: 1 });
    await managerOn(store, [rotated()]).save("t", { n: 2 });
    const read = (query: Parameters<StorageAdapter["read"]>[0]) => store.read(query);
    const altered = Object.assign(Object.create(store) as StorageAdapter, {
      async *tasks() {
        yield* store.tasks({ order: "taskId" });
      },
      async *read(query: Parameters<StorageAdapter["read"]>[0]) {
        for await (const record of read(query)) yield { ...record, stage: "altered" };
      },
      replacePayload: () => Promise.reject(new Error("It must not come to this.")),
    });
    const manager = managerOn(altered, [rotated()], { logger: { debug() {}, info() {}, warn() {}, error() {} } });
    expect(await manager.maintenance.rekey()).toMatchObject({ done: 2, rewritten: 0, damaged: 2, refused: 0 });
  });

  it("throws if the current key can't be fetched, and the next run does the rest", async () => {
    const store = storage();
    await managerOn(store, [by("old")]).save("t", { n: 1 });
    let isDown = true;
    const kms = async () => {
      if (isDown) throw new Error("the KMS is down");
      return KEYS.current;
    };
    const manager = managerOn(store, [encrypt({ keys: { old: KEYS.old, current: kms }, current: "current" })]);
    await expect(manager.maintenance.rekey()).rejects.toMatchObject({
      code: "KEY_UNAVAILABLE",
      keyId: "current",
      retryable: true,
    });
    isDown = false;
    expect(await manager.maintenance.rekey()).toMatchObject({ rewritten: 1, left: 0 });
  });

  it("reads a checkpoint again if it was rewritten or removed meanwhile", async () => {
    const store = storage();
    for (const taskId of ["a", "b"]) await managerOn(store, [by("old")]).save(taskId, { taskId });
    const other = managerOn(store, [rotated()]);
    const transform = rotated();
    const slow: Transform = {
      ...transform,
      async encode(body, context) {
        if (context.taskId === "a") await other.maintenance.rekey({ prefix: "a" });
        else await other.removeTask("b");
        return transform.encode(body, context);
      },
    };
    expect(await managerOn(store, [slow]).maintenance.rekey()).toMatchObject({
      rewritten: 0,
      left: 0,
      refused: 0,
      damaged: 0,
    });
    expect(await keyIdsOf(store)).toEqual(["current"]);
  });

  it("stops after the checkpoint in progress when the manager closes", async () => {
    const store = storage();
    for (let n = 1; n <= 50; n++) await managerOn(store, [by("old")]).save("t", { n });
    const manager = managerOn(store, [rotated()]);
    const begun = deferred();
    const rekeying = manager.maintenance.rekey({ onProgress: ({ done }) => done === 1 && begun.resolve() });
    await begun.promise;
    await manager.close();
    const { done, left } = await rekeying;
    expect([done < 10, done + left]).toEqual([true, 50]);
  });

  it("encrypts only the tasks under a prefix", async () => {
    const store = storage();
    for (const taskId of ["x/1", "x/2", "y/1"]) await managerOn(store, []).save(taskId, { taskId });
    expect(await managerOn(store, [rotated()]).maintenance.rekey({ prefix: "x/" })).toMatchObject({
      total: 2,
      rewritten: 2,
      left: 0,
    });
    expect(await keyIdsOf(store)).toEqual(["current", "current", "plain"]);
  });

  it("doesn't make auto-save store an unchanged state again", async () => {
    const store = storage();
    const manager = managerOn(store, [rotated()]);
    const autoSave = manager.autoSave("t", () => ({ n: 1 }));
    await autoSave.flush();
    await managerOn(store, [by("current"), gzip()]).maintenance.rekey();
    await autoSave.flush();
    await autoSave.stop();
    expect(await manager.list("t")).toHaveLength(1);
    expect((await managerOn(store, [by("current"), gzip()]).latest("t"))?.state).toEqual({ n: 1 });
  });

  it("is refused without transforms, without replacePayload, and with a misspelled option", async () => {
    await expect(managerOn(storage(), []).maintenance.rekey()).rejects.toThrow(TypeError);
    const { replacePayload: _none, ...rest } = Object.fromEntries(
      ["append", "get", "read", "list", "tasks", "setStatus", "remove", "close", "replacePayload"].map((name) => [
        name,
        () => undefined,
      ]),
    );
    const bare = {
      name: "bare",
      capabilities: { durable: false, multiProcess: false },
      ...rest,
    } as unknown as StorageAdapter;
    await expect(managerOn(bare, [rotated()]).maintenance.rekey()).rejects.toMatchObject({
      code: "UNSUPPORTED_OPERATION",
      message: expect.stringContaining("The bare adapter can't replace payloads"),
    });
    await expect(managerOn(storage(), [rotated()]).maintenance.rekey({ onprogress() {} } as object)).rejects.toThrow(
      /no "onprogress"/,
    );
  });
});
