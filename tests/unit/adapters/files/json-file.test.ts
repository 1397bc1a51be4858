import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  CheckpointConflictError,
  CheckpointCorruptError,
  type CorruptRecord,
  StorageError,
  UnsupportedFormatError,
} from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, draft, idsOf, isWhole } from "./drafts.js";
import { filesIn, newJsonStore } from "./stores.js";

const NEWEST = { taskId: "t", order: "newest" } as const;
const OLDEST = { taskId: "t", order: "oldest" } as const;

describe("a checkpoint's file", () => {
  it("has the head for lists in line one and the state in line two, and is one JSON document", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("build/42", "a1", { stage: "unit-tests", body: '{"step":3,"note":"naïve"}' }));
    const text = readFileSync(join(root, "build%2F42", "000000000001-a1.json"), "utf8");
    expect(text).toBe(
      '{"waymark":1,"taskId":"build/42","id":"a1","sequence":1,"createdAt":"2026-01-02T03:04:05.678Z",' +
        '"stage":"unit-tests","status":"running","stateVersion":1,"sizeBytes":26,"encoding":"json",' +
        '"sha256":"55a8a47ad961e3199bf8db99b8ee15c0559f9659d031b5594b92c05c3cb2d5be",' +
        '"seal":"4348587fb71fa61c7c1d6092444921764dc4111ea3539ea51bff4afc0762a52a",\n' +
        '"state":{"step":3,"note":"naïve"}}\n',
    );
    expect(JSON.parse(text).state).toEqual({ step: 3, note: "naïve" });
  });

  it("holds bytes as base64 text", async () => {
    const { root, adapter } = await newJsonStore();
    const body = Uint8Array.of(0, 1, 254, 255);
    await adapter.append(draft("t", "a1", { body }));
    const text = readFileSync(join(root, "t", "000000000001-a1.json"), "utf8");
    expect(text).toContain('"encoding":"json","bodyIs":"base64","sha256":');
    expect(text.split("\n")[1]).toBe('"state":"AAH+/w=="}');
    expect((await adapter.get("t", "a1")) as object).toMatchObject({ payload: { body } });
  });

  it("is readable by its owner alone, and so are its folders", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    expect(statSync(root).mode & 0o777).toBe(0o700);
    expect(statSync(join(root, "t")).mode & 0o777).toBe(0o700);
    expect(statSync(join(root, "t", "000000000001-a1.json")).mode & 0o777).toBe(0o600);
  });

  it("has a name that sorts by sequence in a folder, for any id", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "b/1"));
    await adapter.append(draft("t", "a".repeat(300)), {}, { sequence: 10 });
    await adapter.append(draft("t", "c"), {}, { sequence: 1_234_567_890_123 });
    expect(filesIn(join(root, "t"))).toEqual([
      "000000000001-b%2F1.json",
      expect.stringMatching(/^000000000010-a{100}~[0-9a-f]{64}\.json$/),
      "1234567890123-c.json",
    ]);
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["b/1", "a".repeat(300), "c"]);
    expect(await adapter.get("t", "a".repeat(300))).toMatchObject({ id: "a".repeat(300), sequence: 10 });
  });

  it("may have Windows line ends, which Git may add", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    await adapter.append(draft("t", "a2"));
    for (const name of filesIn(join(root, "t"))) {
      const path = join(root, "t", name);
      writeFileSync(path, readFileSync(path, "utf8").replaceAll("\n", "\r\n"));
    }
    expect((await collect(adapter.read(OLDEST))).every((record) => "seal" in record && isWhole(record))).toBe(true);
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["a1", "a2"]);
    expect(await adapter.setStatus("t", "a1", { status: "completed" })).toBe(true);
    expect(await adapter.get("t", "a1")).toMatchObject({ status: "completed", payload: { body: '{"of":"a1"}' } });
  });

  it("may have a head that is longer than the first read of a list", async () => {
    const { adapter } = await newJsonStore();
    const metadata = { long: "x".repeat(30_000) };
    await adapter.append(draft("t", "a1", { metadata }));
    await adapter.append(draft("t", "a2", { metadata, body: JSON.stringify("y".repeat(50_000)) }));
    expect(await collect(adapter.list(OLDEST))).toMatchObject([
      { id: "a1", metadata },
      { id: "a2", metadata },
    ]);
  });

  it("keeps its state byte for byte when its status changes", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1", { body: '{"z":1,"a":"ü\\n"}' }));
    const path = join(root, "t", "000000000001-a1.json");
    const state = readFileSync(path, "utf8").split("\n")[1];
    await adapter.setStatus("t", "a1", { status: "failed", error: { message: "no" } });
    expect(readFileSync(path, "utf8").split("\n")[1]).toBe(state);
    const record = await adapter.get("t", "a1");
    expect(record).toMatchObject({ status: "failed", error: { message: "no" }, sequence: 1 });
    expect(record && "seal" in record && isWhole(record)).toBe(true);
  });
});

describe("the numbering", () => {
  it("is written before the newest checkpoint is removed, and only if needed", async () => {
    const { root, adapter } = await newJsonStore();
    for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("t", id));
    await adapter.remove("t", ["a1"]);
    expect(filesIn(join(root, "t"))).toEqual(["000000000002-a2.json", "000000000003-a3.json"]);
    await adapter.remove("t", ["a3"]);
    expect(filesIn(join(root, "t"))).toEqual(["000000000002-a2.json", "000000000003.removed"]);
    expect(await adapter.append(draft("t", "a4"))).toBe(4);
    await adapter.remove("t", ["a4", "a2"]);
    expect(filesIn(join(root, "t"))).toEqual(["000000000004.removed"]);
  });

  it("continues after all checkpoints were removed one by one", async () => {
    const { adapter, open } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    await adapter.append(draft("t", "a2"));
    await adapter.remove("t", ["a1", "a2"]);
    expect(await open().append(draft("t", "a3"), { expectedSequence: 0 })).toBe(3);
  });

  it("ends with the task, and leaves no file", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    await adapter.append(draft("t", "a2"));
    await adapter.remove("t", ["a2"]);
    expect(await adapter.remove("t", "all")).toBe(1);
    expect(readdirSync(root)).toEqual([]);
    expect(await adapter.append(draft("t", "b1"))).toBe(1);
  });

  it("counts a damaged newest file by its name", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    await adapter.append(draft("t", "a2"));
    writeFileSync(join(root, "t", "000000000002-a2.json"), "");
    await expect(adapter.append(draft("t", "a3"), { expectedSequence: 1 })).rejects.toThrow("is 2, not 1 as expected");
    expect(await adapter.append(draft("t", "a3"), { expectedSequence: 2 })).toBe(3);
  });
});

describe("two adapters that save in turn", () => {
  it("give ascending sequences, though neither knows the other's saves", async () => {
    const { adapter, open } = await newJsonStore();
    const other = open();
    const given: number[] = [];
    for (let turn = 0; turn < 6; turn++) {
      for (const each of [adapter, other]) given.push(await each.append(draft("t", `a${given.length}`)));
    }
    expect(given).toEqual(given.map((_, index) => index + 1));
    const stored = await collect(adapter.read(OLDEST));
    expect(stored.filter((record) => "seal" in record && isWhole(record))).toHaveLength(given.length);
  });

  it("begin at 1 again after the other one removed the task", async () => {
    const { adapter, open } = await newJsonStore();
    const other = open();
    for (let count = 1; count <= 10; count++) await adapter.append(draft("t", `a${count}`));
    await other.remove("t", "all");
    await other.append(draft("t", "b1"));
    expect(await adapter.append(draft("t", "b2"))).toBe(2);
    expect(await idsOf(adapter.read(OLDEST))).toEqual(["b1", "b2"]);
  });
});

describe("a damaged file", () => {
  it.each([
    ["an empty file", () => "", "it is empty"],
    ["a file cut short in its head", (text: string) => text.slice(0, 100), "its first line is cut short"],
    ["a file cut short in its state", (text: string) => text.slice(0, -5), "it was cut short or changed"],
    ["a file with more at its end", (text: string) => `${text}x`, "it was cut short or changed"],
    ["another kind of file", () => "not a checkpoint\n", "it doesn't begin like a checkpoint file"],
    ["a head that is no JSON", () => '{"waymark":1,"taskId":,\n"state":{}}\n', "it is cut short or isn't JSON"],
    ["a head without its end", () => '{"waymark":1,}\n', "its first line isn't a header"],
    ["a changed status", (text: string) => text.replace("running", "paused"), "its seal doesn't match"],
    ["an unknown status", (text: string) => text.replace("running", "sitting"), "its status is unknown"],
    ["a changed id", (text: string) => text.replace('"id":"a2"', '"id":"a9"'), "its seal doesn't match"],
    [
      "a sequence of text",
      (text: string) => text.replace('"sequence":2', '"sequence":"2"'),
      "its sequence isn't a whole",
    ],
    ["bytes that are no text", (text: string) => Buffer.from(text.replace("t", "\xff"), "latin1"), "it is not UTF-8"],
  ])("is reported in lists and reads: %s", async (_what, damage, reason) => {
    const { root, adapter } = await newJsonStore();
    for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("t", id));
    const path = join(root, "t", "000000000002-a2.json");
    writeFileSync(path, damage(readFileSync(path, "utf8")));

    const corrupt = { corrupt: true, location: path, taskId: "t", id: "a2", sequence: 2 };
    for (const found of [
      (await collect(adapter.list(NEWEST)))[1],
      (await collect(adapter.read(NEWEST)))[1],
      await adapter.get("t", "a2"),
    ]) {
      expect(found).toMatchObject(corrupt);
      expect((found as CorruptRecord).reason).toContain(reason);
    }
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a3", "!a2", "a1"]);
    expect(await idsOf(adapter.list({ ...NEWEST, stage: "nowhere" }))).toEqual(["!a2"]);
    await expect(adapter.setStatus("t", "a2", { status: "paused" })).rejects.toBeInstanceOf(CheckpointCorruptError);
    await expect(adapter.append(draft("t", "a2"))).rejects.toBeInstanceOf(CheckpointCorruptError);
    expect(await adapter.remove("t", ["a2"])).toBe(1);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a3", "a1"]);
  });

  it("is a file under another file's name", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    cpSync(join(root, "t", "000000000001-a1.json"), join(root, "t", "000000000009-a1.json"));
    cpSync(join(root, "t", "000000000001-a1.json"), join(root, "t", "000000000008-zz.json"));
    const [nine, eight, one] = await collect(adapter.list(NEWEST));
    expect(nine).toMatchObject({
      corrupt: true,
      sequence: 9,
      reason: expect.stringContaining("doesn't match its name"),
    });
    expect(eight).toMatchObject({ corrupt: true, id: "zz" });
    expect(one).toMatchObject({ id: "a1", sequence: 1 });
  });

  it("is a second line without a state", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    const path = join(root, "t", "000000000001-a1.json");
    writeFileSync(path, readFileSync(path, "utf8").replace('"state":', '"stats":'));
    expect(await adapter.get("t", "a1")).toMatchObject({ reason: "its second line doesn't hold a state" });
  });

  it("is a link, a folder or a pipe in a file's place, which is neither followed nor waited for", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    symlinkSync("/etc/hostname", join(root, "t", "000000000002-link.json"));
    mkdirSync(join(root, "t", "000000000003-folder.json"));
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(root, "t", "000000000004-pipe.json")]);
    for (const found of [await collect(adapter.list(NEWEST)), await collect(adapter.read(NEWEST))]) {
      expect(found).toMatchObject([
        { id: "pipe", reason: "it is not a file" },
        { id: "folder", reason: "it is not a file" },
        { id: "link", reason: "it is a symbolic link, which Waymark doesn't follow" },
        { id: "a1" },
      ]);
    }
  });

  it("stays damaged if only its digest fails, even after its status changes", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1", { body: '{"n":1}' }));
    const path = join(root, "t", "000000000001-a1.json");
    writeFileSync(path, readFileSync(path, "utf8").replace('{"n":1}', '{"n":7}'));
    await adapter.setStatus("t", "a1", { status: "completed" });
    const record = await adapter.get("t", "a1");
    expect(record && "seal" in record && isWhole(record)).toBe(false);
    await expect(adapter.append(draft("t", "a1", { body: '{"n":1}' }))).rejects.toThrow(
      "its payload fails its SHA-256 checksum",
    );
  });

  it("is reported by lists of tasks before the newest readable checkpoint", async () => {
    const { root, adapter } = await newJsonStore();
    for (const taskId of ["a", "t", "z"]) for (const id of ["1", "2", "3"]) await adapter.append(draft(taskId, id));
    for (const name of ["000000000002-2.json", "000000000003-3.json"]) writeFileSync(join(root, "t", name), "");
    for (const name of filesIn(join(root, "z"))) writeFileSync(join(root, "z", name), "");

    const shown = async (order: "taskId" | "recent") =>
      (await collect(adapter.tasks({ order }))).map((task) =>
        "corrupt" in task ? `!${task.taskId} ${task.sequence}` : `${task.taskId} ${task.newest?.id} of ${task.count}`,
      );
    expect(await shown("taskId")).toEqual(["a 3 of 3", "!t 3", "!t 2", "t 1 of 3", "!z 3", "!z 2", "!z 1"]);
    expect(await shown("recent")).toEqual(["!z 3", "!z 2", "!z 1", "a 3 of 3", "!t 3", "!t 2", "t 1 of 3"]);
  });
});

describe("a newer format", () => {
  it("is refused by name and path, and left untouched", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    const path = join(root, "t", "000000000002-a2.json");
    const newer = '{"waymark":2,"whatever":true}\n';
    writeFileSync(path, newer);
    for (const call of [
      () => collect(adapter.list(NEWEST)),
      () => adapter.get("t", "a2"),
      () => adapter.setStatus("t", "a2", { status: "paused" }),
      () => collect(adapter.tasks({ order: "taskId" })),
      () => adapter.append(draft("t", "a3")),
    ]) {
      const error = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(UnsupportedFormatError);
      expect((error as Error).message).toContain(`${path} has format version 2`);
    }
    expect(readFileSync(path, "utf8")).toBe(newer);
    expect(await adapter.get("t", "a1")).toMatchObject({ id: "a1" });
  });
});

describe("files of other programs", () => {
  it("don't count as checkpoints, and stay", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    const others = ["README.md", ".DS_Store", "notes.json", "1-a1.json", "0000000000001-a1.json", "000000000002-.json"];
    for (const name of others) writeFileSync(join(root, "t", name), "mine");
    writeFileSync(join(root, "README.md"), "mine");
    for (const name of ["with space", "empty"]) mkdirSync(join(root, name));
    symlinkSync(join(root, "README.md"), join(root, "NOTES.md"));
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a1"]);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([{ taskId: "t", count: 1 }]);
    await adapter.remove("t", "all");
    expect(filesIn(join(root, "t"))).toEqual(others.toSorted());
    expect(await collect(adapter.tasks({ order: "taskId" }))).toEqual([]);
    expect(await adapter.append(draft("t", "b1"))).toBe(1);
  });
});

describe("another task's folder", () => {
  it("is never written to or shown as the task's own, on a disk that confuses two names", async () => {
    const { root, adapter, open } = await newJsonStore();
    await adapter.append(draft("task", "a1"));
    await adapter.append(draft("task", "a2"));
    await adapter.remove("task", ["a2"]);
    renameSync(join(root, "task"), join(root, "Task"));
    const other = open();
    const TASK = { taskId: "Task", order: "newest" } as const;
    for (const call of [
      () => other.append(draft("Task", "b1")),
      () => other.get("Task", "a1"),
      () => collect(other.list(TASK)),
      () => collect(other.read(TASK)),
      () => other.setStatus("Task", "a1", { status: "paused" }),
      () => other.remove("Task", "all"),
    ]) {
      await expect(call()).rejects.toThrow(/belongs to task "task", but is in another task's folder/);
    }
    expect(filesIn(join(root, "Task"))).toEqual(["000000000001-a1.json", "000000000002.removed"]);
    expect(await collect(other.tasks({ order: "taskId" }))).toMatchObject([{ corrupt: true, taskId: "Task" }]);
    const findings = await collect(other.maintenance.verify({ quick: false }));
    expect(findings.map(({ kind }) => kind)).toEqual(["checked", "refused"]);
  });

  it("is found by its content if its name is a hash", async () => {
    const { root, adapter } = await newJsonStore();
    const long = "long/".repeat(60);
    await adapter.append(draft(long, "a1"));
    await adapter.append(draft("short", "a1"));
    const ids = async (query: object) =>
      (await collect(adapter.tasks({ order: "taskId", ...query }))).map((task) => task.taskId ?? "unknown");
    expect(await ids({})).toEqual([long, "short"]);
    expect(await ids({ prefix: "long/long" })).toEqual([long]);
    expect(await ids({ after: long })).toEqual(["short"]);
    const [folder = ""] = readdirSync(root).filter((name) => name.includes("~"));
    writeFileSync(join(root, folder, "000000000001-a1.json"), "");
    expect(await ids({ prefix: "s" })).toEqual(["unknown", "short"]);
  });

  it("isn't reached through a link", async () => {
    const { root, adapter } = await newJsonStore();
    const elsewhere = await tempFolder();
    mkdirSync(root);
    symlinkSync(elsewhere, join(root, "t"));
    await expect(adapter.append(draft("t", "a1"))).rejects.toThrow("t is a symbolic link");
    await expect(collect(adapter.list(NEWEST))).rejects.toBeInstanceOf(StorageError);
    await expect(adapter.remove("t", "all")).rejects.toBeInstanceOf(StorageError);
    expect(readdirSync(elsewhere)).toEqual([]);
  });
});

describe("the adapter", () => {
  it("creates nothing before the first save", async () => {
    const { root, adapter } = await newJsonStore();
    expect(await adapter.get("t", "a1")).toBeUndefined();
    expect(await collect(adapter.tasks({ order: "recent" }))).toEqual([]);
    expect(await adapter.setStatus("t", "a1", { status: "paused" })).toBe(false);
    expect(await adapter.remove("t", "all")).toBe(0);
    await expect(adapter.remove("t", ["a1"], { expectedSequence: 1 })).rejects.toBeInstanceOf(CheckpointConflictError);
    expect(existsSync(root)).toBe(false);
  });

  it("reports which file is in the way of its folders", async () => {
    const file = join(await tempFolder(), "file");
    writeFileSync(file, "");
    const adapter = new JsonFileAdapter({ path: join(file, "store") });
    const write = "This call was not acknowledged; earlier checkpoints are intact.";
    const read = "Reading changes nothing, so saved checkpoints are intact.";
    for (const [call, intact] of [
      [() => adapter.append(draft("t", "a1")), write],
      [() => adapter.get("t", "a1"), read],
      [() => collect(adapter.list(NEWEST)), read],
      [() => collect(adapter.tasks({ order: "taskId" })), read],
      [() => adapter.remove("t", "all"), write],
    ] as const) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "STORAGE_FAILED", retryable: false, cause: { code: "ENOTDIR" } });
      expect((error as Error).message).toContain(`ENOTDIR at ${file}/store`);
      expect((error as Error).message).toContain(intact);
    }
  });

  it("reports that a file has the name of a task's folder", async () => {
    const { root, adapter } = await newJsonStore();
    mkdirSync(root);
    writeFileSync(join(root, "t"), "");
    await expect(adapter.append(draft("t", "a1"))).rejects.toThrow("t is not a folder");
  });

  it("answers a repeated save with its sequence, and leaves the file", async () => {
    const { root, adapter, open } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    await adapter.setStatus("t", "a1", { status: "paused" });
    const path = join(root, "t", "000000000001-a1.json");
    const before = statSync(path).ino;
    const text = readFileSync(path, "utf8");
    expect(await open().append(draft("t", "a1"), { expectedSequence: 77 })).toBe(1);
    expect(statSync(path).ino).toBe(before);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  it("keeps a draft unchanged, even if the caller changes it later", async () => {
    const { adapter } = await newJsonStore();
    const bytes = Uint8Array.of(1, 2, 3);
    const metadata = { deep: { n: 1 } };
    const error = { message: "first" };
    const appending = adapter.append(draft("t", "a1", { body: bytes, metadata, error, status: "failed" }));
    bytes.fill(9);
    metadata.deep.n = 2;
    error.message = "second";
    await appending;
    const record = await adapter.get("t", "a1");
    expect(record).toMatchObject({
      metadata: { deep: { n: 1 } },
      error: { message: "first" },
      payload: { body: Uint8Array.of(1, 2, 3) },
    });
  });

  it("waits at close for the calls under way, and refuses new ones", async () => {
    const { adapter, open } = await newJsonStore();
    const appending = ["a1", "a2", "a3"].map((id) => adapter.append(draft("t", id)));
    await adapter.close();
    await adapter.close();
    expect(await Promise.all(appending)).toEqual([1, 2, 3]);
    for (const call of [
      () => adapter.append(draft("t", "a4")),
      () => adapter.get("t", "a1"),
      () => collect(adapter.list(NEWEST)),
      () => collect(adapter.read(NEWEST)),
      () => collect(adapter.tasks({ order: "taskId" })),
      () => adapter.setStatus("t", "a1", { status: "paused" }),
      () => adapter.remove("t", "all"),
    ]) {
      await expect(call()).rejects.toThrow("The json-file adapter is closed");
    }
    expect(await idsOf(open().list(OLDEST))).toEqual(["a1", "a2", "a3"]);
  });

  it("ends an iteration that continues after close", async () => {
    const { adapter } = await newJsonStore();
    for (const id of ["a1", "a2"]) await adapter.append(draft("t", id));
    const records = adapter.list(OLDEST)[Symbol.asyncIterator]();
    expect((await records.next()).value).toMatchObject({ id: "a1" });
    await adapter.close();
    await expect(records.next()).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("skips checkpoints that are removed while it reads", async () => {
    const { root, adapter } = await newJsonStore();
    for (const id of ["a1", "a2", "a3"]) await adapter.append(draft("t", id));
    const seen: string[] = [];
    for await (const record of adapter.list(OLDEST)) {
      seen.push(record.id ?? "");
      rmSync(join(root, "t", "000000000002-a2.json"), { force: true });
    }
    expect(seen).toEqual(["a1", "a3"]);
  });

  it("lets the event loop run while it reads a thousand files", async () => {
    const { root, adapter } = await newJsonStore();
    await adapter.append(draft("t", "a1"));
    const file = readFileSync(join(root, "t", "000000000001-a1.json"));
    for (let n = 2; n <= 1000; n++) writeFileSync(join(root, "t", `${String(n).padStart(12, "0")}-a1.json`), file);
    let [turns, isOver] = [0, false];
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    expect(await collect(adapter.list(NEWEST))).toHaveLength(1000);
    isOver = true;
    expect(turns).toBeGreaterThanOrEqual(10);
  });

  it("keeps its folder when the program changes its working folder", async () => {
    const folder = await tempFolder();
    const former = process.cwd();
    process.chdir(folder);
    const adapter = new JsonFileAdapter({ path: "store" });
    process.chdir(former);
    await adapter.append(draft("t", "a1"));
    expect(filesIn(folder)).toContain(join("store", "t", "000000000001-a1.json"));
    expect(dirname(folder)).not.toBe(former);
  });

  it.each([
    [{ path: "" }, TypeError],
    [{ path: 7 }, TypeError],
    [{}, TypeError],
    [{ path: "store", lockTimeoutMs: -1 }, RangeError],
    [{ path: "store", lockTimeoutMs: "1" }, RangeError],
    [{ path: "store", lockTimeOutMs: 1 }, TypeError],
  ])("refuses the options %j", (options, error) => {
    expect(() => new JsonFileAdapter(options as never)).toThrow(error);
  });
});
