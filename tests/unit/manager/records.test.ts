// Tests how a manager encodes, reads and refuses records of a task's log.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  CheckpointManager,
  type CheckpointManagerOptions,
  type CorruptRecord,
  encrypt,
  gzip,
  type StorageAdapter,
} from "waymark";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import type { RecordDraft } from "../../../src/contract/log.js";
import { Calls } from "../../../src/manager/calls.js";
import { NotificationHub } from "../../../src/manager/notifications.js";
import { resolveOptions } from "../../../src/manager/options.js";
import { CheckpointReader } from "../../../src/manager/reader.js";
import { requireLog } from "../../../src/manager/records.js";
import { Removal } from "../../../src/manager/removal.js";
import { Retention } from "../../../src/manager/retention.js";
import { CheckpointWriter } from "../../../src/manager/writer.js";
import { collect } from "../../support/collect.js";
import { draftRecord, type NewRecord } from "../../support/draft-record.js";
import { tempFolder } from "../../support/temp-folder.js";
import { withMembers } from "../../support/with-members.js";

type Options = Partial<CheckpointManagerOptions>;

const KEY = randomBytes(32);
const ENCRYPTED = { transforms: [gzip(), encrypt({ keys: { k1: KEY }, current: "k1" })] };

const STORAGES: Record<string, (folder: string) => StorageAdapter> = {
  memory: () => new MemoryAdapter(),
  sqlite: (folder) => openStorage(`sqlite:${join(folder, "store.db")}`),
};

async function managerOn(open: (folder: string) => StorageAdapter, options: Options = {}) {
  const folder = await tempFolder();
  const storage = open(folder);
  const manager = new CheckpointManager({ storage, ...options });
  onTestFinished(() => manager.close());
  const append = async (...records: NewRecord[]) => {
    const drafts = await Promise.all(
      records.map(async (record) => draftRecord(resolveOptions({ storage, ...options }), record)),
    );
    return storage.log?.append(records[0]?.taskId ?? "", drafts);
  };
  return { folder, storage, manager, append };
}

const step = (name: string, value: unknown): NewRecord => ({
  taskId: "t",
  kind: "step",
  name,
  recordKey: `1/${name}`,
  value,
});

describe.each(Object.entries(STORAGES))("manager.records on %s", (_name, open) => {
  it.each<[string, Options]>([
    ["plain", {}],
    ["compressed and encrypted", ENCRYPTED],
  ])("gives decoded records and the summaries of checkpoints, %s", async (_form, options) => {
    const { manager, append } = await managerOn(open, { ...options, clock: () => 0 });
    const createdAt = "1970-01-01T00:00:00.000Z";
    await append(step("model", { at: new Date(5), tags: new Set(["x"]) }), step("tool", undefined));
    const saved = await manager.save("t", { n: 1 });
    await append({ taskId: "t", kind: "event", name: "approve", id: "e1", value: "yes" });

    const records = await collect(manager.records("t"));
    expect(records).toEqual([
      {
        taskId: "t",
        sequence: 1,
        kind: "step",
        name: "model",
        recordKey: "1/model",
        createdAt,
        value: { at: new Date(5), tags: new Set(["x"]) },
        sizeBytes: expect.any(Number),
      },
      {
        taskId: "t",
        sequence: 2,
        kind: "step",
        name: "tool",
        recordKey: "1/tool",
        createdAt,
        value: undefined,
        sizeBytes: expect.any(Number),
      },
      { ...saved, kind: "checkpoint" },
      {
        taskId: "t",
        sequence: 4,
        kind: "event",
        name: "approve",
        id: "e1",
        createdAt,
        value: "yes",
        sizeBytes: expect.any(Number),
      },
    ]);
  });

  it("selects by kind, name, range, order and limit", async () => {
    const { manager, append } = await managerOn(open);
    await append(step("a", 1), step("b", 2), step("a", 3));
    await manager.save("t", {});
    const sequences = async (query: Parameters<typeof manager.records>[1]) =>
      (await collect(manager.records("t", query))).map(({ sequence }) => sequence);
    expect(await sequences({ kinds: ["checkpoint"] })).toEqual([4]);
    expect(await sequences({ kinds: ["step", "checkpoint"], afterSequence: 2 })).toEqual([3, 4]);
    expect(await sequences({ name: "a" })).toEqual([1, 3]);
    expect(await sequences({ order: "newest", beforeSequence: 4, limit: 2 })).toEqual([3, 2]);
    expect(await sequences({ limit: 0 })).toEqual([]);
    expect(await collect(manager.records("unknown"))).toEqual([]);
  });

  it("returns an event whose body was removed without a value", async () => {
    const { manager, storage, append } = await managerOn(open, ENCRYPTED);
    await append({ taskId: "t", kind: "event", name: "approve", id: "e1", value: "yes" });
    await storage.log?.remove("t", { kinds: ["event"] });
    const [event] = await collect(manager.records("t"));
    expect(event).toMatchObject({ kind: "event", id: "e1", sizeBytes: 0 });
    expect(event).not.toHaveProperty("value");
  });

  it("refuses the encrypted value of one record under another record's name", async () => {
    const { manager, storage, append } = await managerOn(open, ENCRYPTED);
    await append(step("model", "mine"));
    const [record] = (await collect(
      requireLog(storage, "a test").read({ taskId: "t", order: "oldest" }),
    )) as RecordDraft[];
    const { kind, recordKey = "", createdAt, payload } = record ?? expect.fail();
    await storage.log?.append("t", [{ kind, name: "tool", recordKey, createdAt, payload }]);
    await expect(collect(manager.records("t"))).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
  });

  it("stores a censor instead of secrets, and nothing over maxPayloadBytes", async () => {
    const options = { redact: { paths: ["step.model.token"] }, maxPayloadBytes: 100 };
    const { manager, storage, append } = await managerOn(open, options);
    const { redaction } = resolveOptions({ storage, ...options });
    await append({ ...step("model", { token: "s3cret" }), redacted: redaction?.result("model") });
    expect(await collect(manager.records("t"))).toMatchObject([{ value: { token: "[redacted]" } }]);
    await expect(append(step("model", "x".repeat(101)))).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    await expect(append(step("model", () => 1))).rejects.toThrow(
      'The step record "model" of task "t" can\'t be saved: $ is a function',
    );
  });

  it("refuses misspelled options, and values out of range", async () => {
    const { manager } = await managerOn(open);
    const read = (query: object) => collect(manager.records("t", query));
    await expect(read({ kind: ["step"] })).rejects.toThrow(TypeError);
    await expect(read({ kinds: ["steps"] })).rejects.toThrow(
      'one of checkpoint, step, event, chunk, run, mark, not "steps"',
    );
    await expect(read({ kinds: "step" })).rejects.toThrow(TypeError);
    await expect(read({ order: "up" })).rejects.toThrow(TypeError);
    await expect(read({ afterSequence: -1 })).rejects.toThrow(RangeError);
    await expect(read({ limit: 1.5 })).rejects.toThrow(RangeError);
  });
});

describe.each(Object.entries(STORAGES))("maintenance of a log on %s", (_name, open) => {
  const REKEYED = { transforms: [gzip(), encrypt({ keys: { k1: KEY, k2: randomBytes(32) }, current: "k2" })] };

  it("rekey rewrites records, also of a task without checkpoints", async () => {
    const { manager, storage, append } = await managerOn(open, ENCRYPTED);
    await append(step("model", "a"), { taskId: "t", kind: "event", name: "go", id: "e1", value: "b" });
    await manager.save("t", 1);
    await append(step("model", "c"));
    await append({ taskId: "early", kind: "event", name: "go", id: "e1", value: "d" });
    await append({ taskId: "early", kind: "event", name: "go", id: "e2", value: "e" });
    await storage.log?.remove("early", { beforeSequence: 2 });

    const rekeyed = new CheckpointManager({ storage, ownsStorage: false, ...REKEYED });
    const seen: number[] = [];
    const first = await rekeyed.maintenance.rekey({ onProgress: ({ left }) => seen.push(left) });
    expect(first).toMatchObject({ total: 5, done: 5, rewritten: 5, current: 0, left: 0, refused: 0 });
    expect(seen).toEqual([5, 4, 3, 2, 1, 0]);
    expect(await rekeyed.maintenance.rekey()).toMatchObject({ rewritten: 0, current: 5 });
    const values = (await collect(rekeyed.records("t"))).map((record) =>
      "value" in record ? record.value : record.kind,
    );
    expect(values).toEqual(["a", "b", "checkpoint", "c"]);
    await expect(collect(manager.records("t"))).rejects.toMatchObject({ code: "DECRYPTION_FAILED" });
  });

  it("rekey names the records that no key opens", async () => {
    const { storage, append } = await managerOn(open, ENCRYPTED);
    await append(step("model", "a"));
    const keys = { k2: randomBytes(32) };
    const other = new CheckpointManager({
      storage,
      ownsStorage: false,
      transforms: [encrypt({ keys, current: "k2" }), gzip()],
    });
    const { refused, refusals } = await other.maintenance.rekey();
    expect(refused).toBe(1);
    expect(refusals).toMatchObject([{ taskId: "t", sequence: 1, error: { code: "DECRYPTION_FAILED" } }]);
    expect(refusals[0]).not.toHaveProperty("id");
  });
});

describe.each(Object.entries(STORAGES))("a task with records only on %s", (_name, open) => {
  async function managerWithEvent() {
    const place = await managerOn(open);
    await place.append({ taskId: "early/1", kind: "event", name: "go", id: "e1", value: 1 });
    await place.append({ taskId: "early/2", kind: "event", name: "go", id: "e1", value: 1 });
    return place;
  }
  const idsIn = async (storage: StorageAdapter) =>
    (await collect(storage.tasks({ order: "taskId" }))).map(({ taskId }) => taskId);

  it("isn't listed, and doesn't take a place of a limit", async () => {
    const { manager } = await managerWithEvent();
    expect(await manager.tasks()).toEqual([]);
    await manager.save("later", 1);
    expect(await manager.has("early/1")).toBe(false);
    expect(await manager.tasks({ limit: 1 })).toMatchObject([{ taskId: "later" }]);
    expect(await manager.findIncomplete({ limit: 1 })).toMatchObject([{ taskId: "later" }]);
    expect(await manager.latest("early/1")).toBeUndefined();
    expect(await manager.list("early/1")).toEqual([]);
  });

  it("has no checkpoint yet for expectedSequence, fork and retention", async () => {
    const { manager } = await managerWithEvent();
    expect((await manager.save("early/1", 1, { expectedSequence: 0 })).sequence).toBe(2);
    const { id = "" } = (await manager.latest("early/1")) ?? {};
    // The new task has its own event.
    await expect(manager.fork("early/1", id, "early/2")).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect((await manager.fork("early/1", id, "early/3")).sequence).toBe(2);
    // The events are copied.
    expect((await collect(manager.records("early/3"))).map(({ kind }) => kind)).toEqual(["event", "checkpoint"]);
    const { manager: other, storage } = await managerWithEvent();
    expect(await other.retention.prune({ all: true }, { maxBytes: 0 })).toMatchObject({ tasks: 0, removed: 0 });
    expect(await other.retention.prune("early/1", { maxBytes: 0 })).toMatchObject({ removed: 0 });
    expect(await idsIn(storage)).toEqual(["early/1", "early/2"]);
  });

  it("is removed by its id and by its prefix, and its numbering restarts", async () => {
    const { manager, storage, append } = await managerWithEvent();
    const removed: unknown[] = [];
    manager.on("removed", (event) => removed.push(event));
    expect(await manager.removeTask("early/1")).toBe(0);
    expect(await manager.removeTask("unknown")).toBe(0);
    expect(removed).toEqual([{ taskId: "early/1", ids: "all", by: "request" }]);
    expect(await idsIn(storage)).toEqual(["early/2"]);
    expect(await append({ taskId: "early/1", kind: "event", name: "go", id: "e1", value: 2 })).toBe(1);
    expect(await manager.removeTask({ prefix: "early/" })).toBe(0);
    expect(await idsIn(storage)).toEqual([]);
  });

  it("keeps its records where they are when the task is rewound", async () => {
    const { manager, append } = await managerOn(open);
    const { id } = await manager.save("t", 1);
    await append(step("model", 1));
    await manager.save("t", 2);
    await manager.rewind("t", id);
    expect((await collect(manager.records("t"))).map(({ kind }) => kind)).toEqual([
      "checkpoint",
      "step",
      "checkpoint",
      "checkpoint",
    ]);
  });
});

it("verify counts the records of a storage without maintenance, and finds damage in them", async () => {
  const { storage, manager, append, folder } = await managerOn(STORAGES["sqlite"] ?? expect.fail());
  await append(step("a", 1), step("b", 2));
  await manager.save("t", 3);
  const bare = withMembers(storage, { maintenance: undefined });
  const verify = (quick = false) =>
    new CheckpointManager({ storage: bare, ownsStorage: false }).maintenance.verify({ quick });
  expect(await verify()).toEqual({ tasks: 1, checkpoints: 1, records: 2, bytes: 3, findings: [] });
  const database = new Database(join(folder, "store.db"));
  database.exec(
    "UPDATE waymark_records SET body = '7' WHERE sequence = 1; UPDATE waymark_records SET name = 'x' WHERE sequence = 2",
  );
  database.close();
  const { findings } = await verify();
  expect(findings).toMatchObject([
    { kind: "damaged", taskId: "t", sequence: 1, reason: "its payload fails its SHA-256 checksum" },
    { kind: "damaged", taskId: "t", sequence: 2, reason: "its seal doesn't match its content" },
  ]);
  expect((await verify(true)).findings).toMatchObject([{ sequence: 2 }]);
});

describe("damaged records", () => {
  async function damaged(where: string) {
    const { manager, append, folder } = await managerOn(STORAGES["sqlite"] ?? expect.fail(), ENCRYPTED);
    await append(step("a", 1), step("b", 2), step("c", 3));
    const database = new Database(join(folder, "store.db"));
    database.exec(`UPDATE waymark_records SET body = x'00' WHERE ${where}`);
    database.close();
    const corrupt: CorruptRecord[] = [];
    manager.on("corrupt", (record) => corrupt.push(record));
    return { manager, corrupt };
  }

  it("are reported and skipped, and don't count towards a limit", async () => {
    const { manager, corrupt } = await damaged("sequence = 2");
    expect((await collect(manager.records("t", { limit: 2 }))).map(({ sequence }) => sequence)).toEqual([1, 3]);
    expect(corrupt).toMatchObject([{ taskId: "t", sequence: 2, reason: "its payload fails its SHA-256 checksum" }]);
    // The query selects only damaged records, but the task has intact ones.
    expect(await collect(manager.records("t", { name: "b" }))).toEqual([]);
  });

  it("are an error if nothing else is left", async () => {
    const { manager } = await damaged("true");
    await expect(collect(manager.records("t"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
  });
});

/** Makes a writer like those of runs. */
function writerOn(storage: StorageAdapter): CheckpointWriter {
  const options = resolveOptions({ storage });
  const [calls, hub] = [new Calls(), new NotificationHub(options.logger)];
  const reader = new CheckpointReader(options, hub);
  return new CheckpointWriter(options, calls, hub, new Retention(options, calls, reader, new Removal(options, hub)));
}

describe("a storage without a log", () => {
  const storage = withMembers(new MemoryAdapter(), { log: undefined });

  it("refuses records before anything is called", async () => {
    const manager = new CheckpointManager({ storage });
    await expect(collect(manager.records("t"))).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
    const isCalled = vi.fn();
    await expect(manager.run("t", isCalled)).rejects.toThrow(/memory adapter keeps no log/);
    await expect(manager.send("t", "go")).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
    expect(isCalled).not.toHaveBeenCalled();
    expect(await collect(storage.tasks({ order: "taskId" }))).toEqual([]);
  });

  it("refuses a save with records or a condition on events before it is called", async () => {
    const writer = writerOn(storage);
    const append = async (request: object) => writer.append(writer.draft("t", {}), writer.encode("t", 1), request);
    await expect(append({ noEventAfter: 0 })).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
    await expect(append({ records: [] })).rejects.toMatchObject({ code: "UNSUPPORTED_OPERATION" });
    expect(await collect(storage.tasks({ order: "taskId" }))).toEqual([]);
  });
});

it("a save takes its records along, and its condition on events", async () => {
  const storage = new MemoryAdapter();
  const writer = writerOn(storage);
  const record = async (fields: Partial<NewRecord>) =>
    draftRecord(resolveOptions({ storage }), { ...step("model", 1), ...fields });
  const append = async (request: object) => writer.append(writer.draft("t", {}), writer.encode("t", 1), request);
  expect((await append({ records: [await record({})], noEventAfter: 0 })).sequence).toBe(2);
  await storage.log.append("t", [await record({ kind: "event", id: "e1" })]);
  await expect(append({ noEventAfter: 0 })).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
  const log = await collect(storage.log.read({ taskId: "t", order: "oldest" }));
  expect(log.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
});
