import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  CheckpointConflictError,
  CheckpointCorruptError,
  type CheckpointStatus,
  type JsonObject,
  UnsupportedFormatError,
} from "waymark";
import { collect, draft, idsOf, isWhole, sha256Of } from "./drafts.js";
import { filesIn, newTaskStore } from "./stores.js";

const NEWEST = { taskId: "t", order: "newest" } as const;
const OLDEST = { taskId: "t", order: "oldest" } as const;

/** Makes a store whose task `t` has the checkpoints a1, a2 and a3, and a function that changes their file. */
async function populated() {
  const store = await newTaskStore();
  for (const id of ["a1", "a2", "a3"]) await store.adapter.append(draft("t", id));
  const path = store.pathOf("t");
  const lines = () => readFileSync(path, "utf8").split("\n");
  return { ...store, path, lines, write: (all: readonly string[]) => writeFileSync(path, all.join("\n")) };
}

/** Makes a store whose task `t` has a file from another program. */
async function foreign(
  document: unknown,
  adopt?: (record: JsonObject) => { stage?: string; status?: CheckpointStatus },
) {
  const store = await newTaskStore({ adopt });
  const path = store.pathOf("t");
  mkdirSync(join(store.root, "t"), { recursive: true });
  writeFileSync(path, typeof document === "string" ? document : JSON.stringify(document, null, 2));
  return { ...store, path, document: () => JSON.parse(readFileSync(path, "utf8")) };
}

function foreignRecord(id: string, createdAt: string, more: object = {}) {
  return { id, taskId: "t", label: `Label of ${id}`, state: { stage: "pre-execution", of: id }, createdAt, ...more };
}

describe("a task's file", () => {
  it("has one checkpoint per line, and is one JSON document", async () => {
    const { adapter, pathOf } = await newTaskStore();
    await adapter.append(draft("P1.M1.T1.S1", "a1", { label: "Before", stage: "pre-execution", body: '{"n":1}' }));
    await adapter.append(
      draft("P1.M1.T1.S1", "a2", { status: "failed", error: { message: "no" }, body: '{"n":2}', metadata: { k: [1] } }),
    );
    const text = readFileSync(pathOf("P1.M1.T1.S1"), "utf8");
    expect(
      text.replace(/"lastModified":"[^"]*"/, '"lastModified":"…"').replace(/"seal":"[0-9a-f]{64}"/g, '"seal":"…"'),
    ).toBe(
      `{"version":"1.0","lastModified":"…","waymark":{"taskId":"P1.M1.T1.S1","lastSequence":2,"seal":"…"},"checkpoints":[
{"id":"a1","taskId":"P1.M1.T1.S1","label":"Before","createdAt":"2026-01-02T03:04:05.678Z","waymark":{"sequence":1,"stage":"pre-execution","status":"running","stateVersion":1,"sizeBytes":7,"encoding":"json","sha256":"${sha256Of('{"n":1}')}","seal":"…"}, "state":{"n":1}},
{"id":"a2","taskId":"P1.M1.T1.S1","createdAt":"2026-01-02T03:04:05.678Z","error":{"message":"no"},"waymark":{"sequence":2,"status":"failed","metadata":{"k":[1]},"stateVersion":1,"sizeBytes":7,"encoding":"json","sha256":"${sha256Of('{"n":2}')}","seal":"…"}, "state":{"n":2}}
]}
`,
    );
    expect(JSON.parse(text)).toMatchObject({ version: "1.0", checkpoints: [{ state: { n: 1 } }, { state: { n: 2 } }] });
  });

  it("is readable by its owner alone, and so are its folders; only an empty lock is beside it", async () => {
    const { adapter, root, pathOf } = await newTaskStore();
    await adapter.append(draft("t", "a1"));
    expect(statSync(pathOf("t")).mode & 0o777).toBe(0o600);
    expect(statSync(join(root, "t")).mode & 0o777).toBe(0o700);
    expect(filesIn(join(root, "t"))).toEqual(["checkpoints.json"]);
  });

  it("holds bytes as base64 text", async () => {
    const { adapter, pathOf } = await newTaskStore();
    await adapter.append(draft("t", "a1", { body: Uint8Array.of(0, 255) }));
    expect(readFileSync(pathOf("t"), "utf8")).toMatch(/"bodyIs":"base64".*"state":"AP8="\}/);
    expect(await adapter.get("t", "a1")).toMatchObject({ payload: { body: Uint8Array.of(0, 255) } });
  });

  it("is not confused by states within states", async () => {
    const { adapter, open } = await newTaskStore();
    const parts = {
      body: '{"state":{"state":1},"x":"\\"state\\":"}',
      metadata: { a: {}, state: { b: '},"state":{' } },
    };
    await adapter.append(draft("t", "a1", parts));
    await adapter.append(draft("t", "a2", { ...parts, label: ',"state":' }));
    for (const record of await collect(open().read(OLDEST))) {
      expect(record).toMatchObject({ metadata: parts.metadata, payload: { body: parts.body } });
      expect("seal" in record && isWhole(record)).toBe(true);
    }
  });

  it("keeps its numbering when its checkpoints are removed, until the task is removed", async () => {
    const { adapter, open, path, root } = await populated();
    expect(await adapter.remove("t", ["a3", "a2", "a1", "a0"])).toBe(3);
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ checkpoints: [], waymark: { lastSequence: 3 } });
    expect(await collect(adapter.tasks({ order: "taskId" }))).toEqual([]);
    expect(await open().append(draft("t", "b1"), { expectedSequence: 0 })).toBe(4);
    expect(await adapter.remove("t", "all")).toBe(1);
    expect(readdirSync(root)).toEqual([]);
    expect(await adapter.append(draft("t", "c1"))).toBe(1);
  });

  it("leaves other files in the task's folder", async () => {
    const { adapter, root, path } = await populated();
    writeFileSync(join(root, "t", "report.md"), "mine");
    expect(await adapter.remove("t", "all")).toBe(3);
    expect(existsSync(path)).toBe(false);
    expect(filesIn(join(root, "t"))).toEqual(["report.md"]);
    expect(await adapter.remove("t", "all")).toBe(0);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toEqual([]);
  });

  it("may have Windows line ends, which Git may add", async () => {
    const { adapter, lines, path } = await populated();
    writeFileSync(path, lines().join("\r\n"));
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a3", "a2", "a1"]);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([{ count: 3, newest: { id: "a3" } }]);
    expect(await adapter.append(draft("t", "a4"))).toBe(4);
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a4", "a3", "a2", "a1"]);
  });
});

describe("a damaged line", () => {
  it.each([
    ["cut short", (line: string) => line.slice(0, 150)],
    ["without its end", (line: string) => line.replace(/\},$/, ",")],
    ["of another status", (line: string) => line.replace("running", "paused")],
    ["with a state cut short", (line: string) => line.replace('"of":"a2"', '"of":"a"')],
    ["that isn't text", () => "\u0001garbage"],
    ["without a state", (line: string) => line.replace('"state":', '"stats":')],
    ["whose waymark key is another", (line: string) => line.replace('"waymark":', '"waymarx":')],
    [
      "whose waymark key holds no object",
      (line: string) => line.replace(/"waymark":\{.*\}, "state"/, '"waymark":7, "state"'),
    ],
  ])("harms no other checkpoint, and stays as it is: %s", async (_what, damage) => {
    const { adapter, path, lines, write } = await populated();
    const all = lines();
    const damagedLine = damage(all[2] ?? "");
    write(all.with(2, damagedLine));

    const [newest, second, oldest] = await collect(adapter.read(NEWEST));
    expect(newest).toMatchObject({ id: "a3" });
    expect(second).toMatchObject({ corrupt: true, location: `${path} (line 3)`, taskId: "t" });
    expect(oldest).toMatchObject({ id: "a1" });
    expect(await idsOf(adapter.list({ ...NEWEST, limit: 1 }))).toEqual(["a3"]);

    expect(await adapter.append(draft("t", "a4"))).toBe(4);
    expect(await adapter.setStatus("t", "a1", { status: "completed" })).toBe(true);
    expect(await adapter.remove("t", ["a3"])).toBe(1);
    expect(lines()).toContain(`${damagedLine.replace(/,$/, "")},`);
    expect((await collect(adapter.read(NEWEST))).map((record) => ("corrupt" in record ? "!" : record.id))).toEqual([
      "a4",
      "!",
      "a1",
    ]);
    expect(await adapter.remove("t", "all")).toBe(3);
  });

  it("is reported in its place, with its id if that is readable, and can be removed by the id", async () => {
    const { adapter, lines, write } = await populated();
    const all = lines();
    write(all.with(2, (all[2] ?? "").replace("running", "paused")));
    expect(await adapter.get("t", "a2")).toMatchObject({ corrupt: true, id: "a2" });
    expect(await idsOf(adapter.list({ ...NEWEST, beforeSequence: 3, afterSequence: 1 }))).toEqual(["!a2"]);
    await expect(adapter.append(draft("t", "a2"))).rejects.toBeInstanceOf(CheckpointCorruptError);
    await expect(adapter.setStatus("t", "a2", { status: "paused" })).rejects.toBeInstanceOf(CheckpointCorruptError);
    expect(await adapter.remove("t", ["a2"])).toBe(1);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a3", "a1"]);
  });

  it("may be any checkpoint if its id is unreadable", async () => {
    const { adapter, lines, write } = await populated();
    write(lines().with(2, "garbage,"));
    expect(await adapter.get("t", "a2")).toMatchObject({ corrupt: true, reason: "it has no state" });
    expect(await adapter.get("t", "a1")).toMatchObject({ id: "a1" });
    expect(await adapter.append(draft("t", "a2"))).toBe(4);
  });

  it("keeps its sequence if it is the newest, and appends that expect an older one are refused", async () => {
    const { adapter, lines, write } = await populated();
    write(lines().with(3, "garbage"));
    await expect(adapter.append(draft("t", "a4"), { expectedSequence: 2 })).rejects.toBeInstanceOf(
      CheckpointConflictError,
    );
    expect(await adapter.append(draft("t", "a4"), { expectedSequence: 3 })).toBe(4);
    expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([{ count: 4, newest: { id: "a4" } }]);
  });

  it("comes before its task in lists of tasks if it is the newest", async () => {
    const { adapter, lines, write } = await populated();
    write(lines().with(3, "garbage"));
    const [first, second] = await collect(adapter.tasks({ order: "recent" }));
    expect(first).toMatchObject({ corrupt: true, taskId: "t" });
    expect(second).toMatchObject({ taskId: "t", count: 3, newest: { id: "a2" } });
  });

  it("may hold bytes that aren't text, which stay as they are", async () => {
    const { adapter, path } = await populated();
    const content = readFileSync(path);
    const at = content.indexOf('"of":"a2"') + 6;
    content[at] = 0xff;
    writeFileSync(path, content);
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a3", "!a2", "a1"]);
    await adapter.append(draft("t", "a4"));
    expect(readFileSync(path).includes(Buffer.from([0x22, 0xff, 0x32, 0x22]))).toBe(true);
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a4", "a3", "!a2", "a1"]);
  });
});

describe("a file cut short", () => {
  it("still returns the checkpoints before the cut, and continues after the last sequence", async () => {
    const { adapter, path } = await populated();
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.slice(0, text.indexOf('"id":"a3"') + 100));
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["!?", "!a3", "a2", "a1"]);
    expect(await adapter.append(draft("t", "a4"))).toBe(4);
    expect(await idsOf(adapter.read(NEWEST))).toEqual(["a4", "!a3", "a2", "a1"]);
  });

  it("is reported if it was cut between two lines", async () => {
    const { adapter, path, lines } = await populated();
    writeFileSync(path, `${lines().slice(0, 3).join("\n")}\n`);
    const [first, ...rest] = await collect(adapter.list(NEWEST));
    expect(first).toMatchObject({ corrupt: true, location: path, reason: "it was cut short" });
    expect(rest).toMatchObject([{ id: "a2" }, { id: "a1" }]);
    expect(await adapter.append(draft("t", "a4"))).toBe(4);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a4", "a2", "a1"]);
  });

  it("is reported if only its last line is missing, and the next save writes it whole", async () => {
    const { adapter, path, lines } = await populated();
    writeFileSync(path, lines().slice(0, 4).join("\n"));
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["!?", "a3", "a2", "a1"]);
    expect(await adapter.append(draft("t", "a4"))).toBe(4);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a4", "a3", "a2", "a1"]);
  });

  it("is reported if only its first line is left", async () => {
    const { adapter, path, lines } = await populated();
    writeFileSync(path, `${lines()[0]}\n`);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["!?"]);
    expect(await adapter.append(draft("t", "a4"))).toBe(4);
  });
});

describe("a file whose first line is damaged", () => {
  it.each([
    ["cut", (line: string) => line.slice(20)],
    ["of another last sequence", (line: string) => line.replace('"lastSequence":3', '"lastSequence":2')],
    ["without its waymark key", (line: string) => line.replace('"waymark"', '"waymarx"')],
    ["without its version", (line: string) => line.replace('"version"', '"versiox"')],
    ["missing", () => ""],
  ])("is read, but not written: %s", async (_what, damage) => {
    const { adapter, path, lines, write } = await populated();
    const all = lines();
    write(all.with(0, damage(all[0] ?? "")));
    const content = readFileSync(path, "utf8");

    expect(await idsOf(adapter.read(NEWEST))).toEqual(["!?", "a3", "a2", "a1"]);
    expect(await adapter.get("t", "a2")).toMatchObject({ id: "a2", sequence: 2 });
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([
      { corrupt: true },
      { newest: { id: "a3" } },
    ]);
    for (const call of [
      () => adapter.append(draft("t", "a4")),
      () => adapter.setStatus("t", "a1", { status: "paused" }),
      () => adapter.remove("t", ["a1"]),
    ]) {
      await expect(call()).rejects.toBeInstanceOf(CheckpointCorruptError);
    }
    expect(readFileSync(path, "utf8")).toBe(content);
    expect(await adapter.remove("t", "all")).toBe(3);
  });

  it.each([
    ["an empty file", ""],
    ["garbage", "garbage\nin\nlines\n"],
    ["a list cut short", "["],
    [
      "a spec's file cut short",
      JSON.stringify({ version: "1.0", checkpoints: [foreignRecord("x", "2026-01-01")] }, null, 2).slice(0, 150),
    ],
  ])("is one corrupt record if nothing is left of it: %s", async (_what, content) => {
    const { adapter, path, open } = await foreign(content);
    expect(await collect(adapter.list(NEWEST))).toMatchObject([{ corrupt: true, location: path, taskId: "t" }]);
    expect(await adapter.get("t", "a1")).toMatchObject({ corrupt: true });
    expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([{ corrupt: true, taskId: "t" }]);
    await expect(adapter.append(draft("t", "a1"))).rejects.toThrow("It was left untouched");
    expect(readFileSync(path, "utf8")).toBe(content);
    expect(await open().remove("t", "all")).toBe(1);
    expect(await adapter.append(draft("t", "a1"))).toBe(1);
  });
});

describe("another program's file", () => {
  const T1 = "2026-01-01T10:00:00.000Z";
  const T2 = "2026-01-01T11:00:00.000Z";
  const T3 = "2026-01-01T12:00:00.000Z";

  it("is ordered by its records' own dates", async () => {
    const { adapter } = await foreign({
      version: "1.0",
      checkpoints: [
        foreignRecord("third", "2026-01-01T13:00:00+01:00"),
        foreignRecord("first", T1),
        foreignRecord("second", T2, { error: { message: "no", code: "E", stack: "at x" } }),
        foreignRecord("fourth", T3),
      ],
      lastModified: T3,
    });
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["first", "second", "third", "fourth"]);
    const [first, second, third] = await collect(adapter.read(OLDEST));
    expect(first).toMatchObject({ sequence: 1, status: "running", label: "Label of first", stateVersion: 1 });
    expect(second).toMatchObject({ status: "failed", error: { message: "no", code: "E", stack: "at x" } });
    expect(third).toMatchObject({ createdAt: T3, sequence: 3, payload: { encoding: "json" } });
    expect(first && "seal" in first && isWhole(first)).toBe(true);
    expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([{ taskId: "t", count: 4 }]);
  });

  it("is adopted: the next save completes its records", async () => {
    const { adapter, open, document } = await foreign({
      version: "1.0",
      session: "s1",
      checkpoints: [foreignRecord("b", T2, { note: "kept" }), foreignRecord("a", T1)],
      lastModified: T2,
    });
    const before = await collect(adapter.read(OLDEST));
    expect(await adapter.append(draft("t", "c"), { expectedSequence: 2 })).toBe(3);
    const { version, session, checkpoints } = document();
    expect({ version, session }).toEqual({ version: "1.0", session: "s1" });
    expect(checkpoints).toMatchObject([
      { ...foreignRecord("a", T1), waymark: { sequence: 1 } },
      { ...foreignRecord("b", T2), note: "kept", waymark: { sequence: 2 } },
      { id: "c", waymark: { sequence: 3 } },
    ]);
    expect((await collect(open().read(OLDEST))).slice(0, 2)).toEqual(before);
    expect(await adapter.setStatus("t", "b", { status: "completed" })).toBe(true);
    expect(document().checkpoints[1]).toMatchObject({ note: "kept", waymark: { status: "completed" } });
  });

  it("gets its stages and statuses from `adopt`", async () => {
    const checkpoints = [foreignRecord("a", T1), foreignRecord("b", T2, { error: { message: "no" } })];
    const { adapter } = await foreign({ version: "1.0", checkpoints, lastModified: T2 }, ({ id, state }) => ({
      stage: (state as { stage: string }).stage,
      ...(id === "a" ? { status: "completed" } : {}),
    }));
    expect(await collect(adapter.list(OLDEST))).toMatchObject([
      { id: "a", stage: "pre-execution", status: "completed" },
      { id: "b", stage: "pre-execution", status: "failed" },
    ]);
  });

  it("may be one of ours that a program rewrote without the fields it didn't know", async () => {
    const { adapter, path } = await populated();
    const { version, checkpoints, lastModified } = JSON.parse(readFileSync(path, "utf8"));
    const stripped = checkpoints.map(({ waymark: _waymark, ...record }: JsonObject) => record);
    writeFileSync(
      path,
      JSON.stringify({ version, checkpoints: [...stripped, foreignRecord("x", T1)], lastModified }, null, 2),
    );
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["x", "a1", "a2", "a3"]);
    expect(await adapter.append(draft("t", "a4"))).toBe(5);
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["x", "a1", "a2", "a3", "a4"]);
  });

  it("may be one of ours that a program rewrote with the fields it didn't know, adding a record", async () => {
    const { adapter, path } = await populated();
    await adapter.remove("t", ["a3"]);
    const document = JSON.parse(readFileSync(path, "utf8"));
    document.checkpoints.push(foreignRecord("x", T1));
    writeFileSync(path, JSON.stringify(document, null, 2));
    expect(await collect(adapter.read(OLDEST))).toMatchObject([
      { id: "a1", sequence: 1 },
      { id: "a2", sequence: 2 },
      { id: "x", sequence: 4 },
    ]);
    expect(await adapter.append(draft("t", "a4"))).toBe(5);
  });

  it("may have records that can't be read, which are kept", async () => {
    const { adapter, document, lines } = await foreignWithDamage();
    expect(await idsOf(adapter.list(NEWEST))).toContain("good");
    expect((await collect(adapter.list(NEWEST))).filter((record) => "corrupt" in record)).toHaveLength(6);
    const reasons = (await collect(adapter.list(OLDEST))).flatMap((r) => ("corrupt" in r ? [r.reason] : []));
    expect(reasons).toEqual([
      "it isn't an object",
      "it has no state",
      "its createdAt isn't a date",
      "its id isn't text",
      "its error isn't an object of texts",
      "its error isn't an object of texts",
    ]);
    expect(await adapter.append(draft("t", "a1"))).toBe(2);
    // Unchanged unreadable records come first, then the adopted ones.
    const [good, ...others] = lines;
    expect(document().checkpoints.slice(0, 7)).toMatchObject([...others, good]);
    expect((await collect(adapter.list(NEWEST))).filter((record) => "corrupt" in record)).toHaveLength(6);
  });

  async function foreignWithDamage() {
    const lines = [
      foreignRecord("good", T1),
      "text",
      { ...foreignRecord("stateless", T1), state: undefined },
      foreignRecord("dateless", "yesterday"),
      { ...foreignRecord("nameless", T1), id: 7 },
      foreignRecord("x", T1, { error: "no" }),
      foreignRecord("y", T1, { error: {} }),
    ];
    const store = await foreign({ version: "1.0", checkpoints: lines, lastModified: T1 });
    return { ...store, lines: JSON.parse(JSON.stringify(lines)) };
  }

  it.each([
    [{ version: "2.0", checkpoints: [] }, '"2.0"'],
    [{ version: 1, checkpoints: [] }, "1"],
    [{ checkpoints: [] }, "none"],
    [{ checkpoints: {}, version: "0.9" }, '"0.9"'],
  ])("of another version is refused and left untouched: %j", async (document, version) => {
    const { adapter, path } = await foreign(document);
    const content = readFileSync(path, "utf8");
    for (const call of [
      () => adapter.get("t", "a1"),
      () => collect(adapter.list(NEWEST)),
      () => collect(adapter.tasks({ order: "taskId" })),
      () => adapter.append(draft("t", "a1")),
      () => adapter.remove("t", "all"),
    ]) {
      const error = await call().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(UnsupportedFormatError);
      expect((error as Error).message).toContain(`${path} has format version ${version};`);
    }
    expect(readFileSync(path, "utf8")).toBe(content);
  });
});

describe("another task's file", () => {
  it("is never written to or shown as the task's own, on a disk that confuses two names", async () => {
    const { adapter, root, path } = await populated();
    mkdirSync(join(root, "T"));
    writeFileSync(join(root, "T", "checkpoints.json"), readFileSync(path));
    for (const call of [
      () => adapter.append(draft("T", "b1")),
      () => adapter.get("T", "a1"),
      () => collect(adapter.list({ ...NEWEST, taskId: "T" })),
      () => adapter.setStatus("T", "a1", { status: "paused" }),
      () => adapter.remove("T", ["a1"]),
      () => adapter.remove("T", "all"),
    ]) {
      await expect(call()).rejects.toThrow("but is in another task's folder");
    }
    const tasks = await collect(adapter.tasks({ order: "taskId" }));
    expect(tasks.map((task) => ("corrupt" in task ? `!${task.taskId}` : task.taskId))).toEqual(["!T", "!T", "!T", "t"]);
    const steps = await collect(adapter.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    expect(steps.map(({ action, finding }) => `${action} ${finding.kind}`)).toEqual(Array(3).fill("left refused"));
  });

  it("is found by its content if its name is a hash", async () => {
    const { adapter } = await newTaskStore();
    const long = "long/".repeat(60);
    await adapter.append(draft(long, "a1"));
    expect(await collect(adapter.tasks({ order: "taskId", prefix: "long" }))).toMatchObject([{ taskId: long }]);
    expect(await idsOf(adapter.list({ taskId: long, order: "newest" }))).toEqual(["a1"]);
  });

  it("isn't reached through a link", async () => {
    const { adapter, path, root } = await populated();
    mkdirSync(join(root, "u"));
    symlinkSync(path, join(root, "u", "checkpoints.json"));
    expect(await collect(adapter.list({ ...NEWEST, taskId: "u" }))).toMatchObject([
      { corrupt: true, reason: "it is a symbolic link, which Waymark doesn't follow" },
    ]);
    await expect(adapter.append(draft("u", "b1"))).rejects.toBeInstanceOf(CheckpointCorruptError);
    expect(await adapter.remove("u", "all")).toBe(1);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a3", "a2", "a1"]);
  });
});

describe("the adapter", () => {
  it("creates nothing before the first save", async () => {
    const { root, adapter } = await newTaskStore();
    expect(await adapter.get("t", "a1")).toBeUndefined();
    expect(await collect(adapter.list(NEWEST))).toEqual([]);
    expect(await collect(adapter.tasks({ order: "recent" }))).toEqual([]);
    expect(await adapter.setStatus("t", "a1", { status: "paused" })).toBe(false);
    expect(await adapter.remove("t", ["a1"])).toBe(0);
    expect(await adapter.remove("t", "all", { expectedSequence: 0 })).toBe(0);
    expect(existsSync(root)).toBe(false);
  });

  it("starts a file in a folder with other files, and shows none of them", async () => {
    const { root, adapter } = await newTaskStore();
    mkdirSync(join(root, "t"), { recursive: true });
    writeFileSync(join(root, "t", "report.md"), "mine");
    expect(await adapter.get("t", "a1")).toBeUndefined();
    expect(await adapter.setStatus("t", "a1", { status: "paused" })).toBe(false);
    expect(await adapter.remove("t", ["a1"])).toBe(0);
    expect(await adapter.append(draft("t", "a1"))).toBe(1);
    expect(filesIn(join(root, "t"))).toEqual(["checkpoints.json", "report.md"]);
  });

  it("answers a repeated save with its sequence, and leaves the file", async () => {
    const { adapter, path } = await populated();
    const before = statSync(path).ino;
    expect(await adapter.append(draft("t", "a2"), { expectedSequence: 77 })).toBe(2);
    expect(statSync(path).ino).toBe(before);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["a3", "a2", "a1"]);
  });

  it("refuses an id whose state is damaged, and one with another state", async () => {
    const { adapter, path } = await populated();
    writeFileSync(path, readFileSync(path, "utf8").replace('{"of":"a2"}', '{"of":"aX"}'));
    await expect(adapter.append(draft("t", "a2"))).rejects.toThrow("its payload fails its SHA-256 checksum");
    await expect(adapter.append(draft("t", "a1", { body: "7" }))).rejects.toBeInstanceOf(CheckpointConflictError);
  });

  it("waits at close for the calls under way, and refuses new ones", async () => {
    const { adapter, open } = await newTaskStore();
    const appending = ["a1", "a2", "a3"].map((id) => adapter.append(draft("t", id)));
    await adapter.close();
    expect(await Promise.all(appending)).toEqual([1, 2, 3]);
    for (const call of [
      () => adapter.append(draft("t", "a4")),
      () => adapter.get("t", "a1"),
      () => collect(adapter.read(NEWEST)),
      () => collect(adapter.tasks({ order: "taskId" })),
      () => adapter.remove("t", "all"),
    ]) {
      await expect(call()).rejects.toThrow("The task-file adapter is closed");
    }
    expect(await idsOf(open().list(OLDEST))).toEqual(["a1", "a2", "a3"]);
  });

  it("skips a task that is removed while it lists tasks", async () => {
    const { root, adapter } = await newTaskStore();
    for (const taskId of ["a", "b", "c"]) await adapter.append(draft(taskId, "1"));
    const seen: string[] = [];
    for await (const task of adapter.tasks({ order: "taskId" })) {
      seen.push(task.taskId ?? "");
      rmSync(join(root, "b"), { recursive: true, force: true });
    }
    expect(seen).toEqual(["a", "c"]);
  });
});
