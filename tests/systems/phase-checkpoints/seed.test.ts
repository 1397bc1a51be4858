import { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cleanupCheckpoints, completeCheckpoint, createCheckpoint } from "waymark/phase-checkpoints";
import { daysAgo, paiFolder, SEED } from "./pai-folder.js";

describe("seed.json", () => {
  it("keeps all else as it is written: order, unknown keys, numbers, indentation, permissions", async () => {
    const { create, seedPath } = await paiFolder(SEED);
    const { mode } = await stat(seedPath);
    const id = await create();
    const noted = SEED.replace("[1,2,   3]\n", `[1,2,   3],\n    "checkpointRef": "${id}"\n`);
    expect(await readFile(seedPath, "utf8")).toBe(noted);
    expect((await stat(seedPath)).mode).toBe(mode);
  });

  it("is as it was, byte by byte, once the checkpoint is completed", async () => {
    const { options, create, seedPath } = await paiFolder(SEED);
    await completeCheckpoint(await create(), options);
    expect(await readFile(seedPath, "utf8")).toBe(SEED);
  });

  it.each([
    [
      "tabs",
      '{\n\t"state": {\n\t\t"a": 1\n\t}\n}\n',
      '{\n\t"state": {\n\t\t"a": 1,\n\t\t"checkpointRef": "ID"\n\t}\n}\n',
    ],
    ["one line", '{"state":{"a":1}}', '{"state":{"a":1,"checkpointRef":"ID"}}'],
    [
      "Windows' line ends",
      '{\r\n  "state": {\r\n    "a": 1\r\n  }\r\n}',
      '{\r\n  "state": {\r\n    "a": 1,\r\n    "checkpointRef": "ID"\r\n  }\r\n}',
    ],
    ["an empty state", '{\n  "state": {}\n}', '{\n  "state": { "checkpointRef": "ID" }\n}'],
    ["no state yet", '{\n  "a": 1\n}', '{\n  "a": 1,\n  "state": { "checkpointRef": "ID" }\n}'],
    ["another's reference", '{"state":{"checkpointRef":"x","b":1}}', '{"state":{"checkpointRef":"ID","b":1}}'],
    ["a reference that is no text", '{"state":{"checkpointRef":null}}', '{"state":{"checkpointRef":"ID"}}'],
  ])("is written in its own style: %s", async (_what, before, after) => {
    const { create, seedPath } = await paiFolder(before);
    const id = await create();
    expect(await readFile(seedPath, "utf8")).toBe(after.replace("ID", id));
  });

  it.each([
    '{\n  "state": {\n    "checkpointRef": "ID",\n    "a": 1\n  }\n}',
    '{"state":{"checkpointRef":"ID","a":1}}',
    '{"state":{"a":1,"checkpointRef":"ID"}}',
  ])("is written in its own style when the reference is cleared: %s", async (before) => {
    const { options, create, seedPath } = await paiFolder();
    const id = await create();
    await writeFile(seedPath, before.replace("ID", id));
    await completeCheckpoint(id, options);
    const expected = before.replace(/"checkpointRef": ?"ID",\s*|,"checkpointRef":"ID"/, "");
    expect(await readFile(seedPath, "utf8")).toBe(expected);
  });

  it("isn't made up where there is none", async () => {
    const { root, options, create, logger } = await paiFolder();
    await completeCheckpoint(await create(), options);
    expect((await readdir(root)).sort()).toEqual(["checkpoints", "checkpoints.events.jsonl"]);
    expect(logger.lines).toEqual([]);
  });

  it("may be anywhere", async () => {
    const { root, create, seedPath } = await paiFolder(SEED);
    const elsewhere = join(root, "config", "my-seed.json");
    await mkdir(join(root, "config"));
    await writeFile(elsewhere, SEED);
    const id = await create("build", 4, { seedPath: elsewhere });
    expect(JSON.parse(await readFile(elsewhere, "utf8")).state.checkpointRef).toBe(id);
    expect(await readFile(seedPath, "utf8")).toBe(SEED);
    expect(await readdir(join(root, "config"))).toEqual(["my-seed.json"]);
  });

  it.each([
    ["cut short", SEED.slice(0, 40), "not JSON, or cut short"],
    ["empty", "", "not JSON, or cut short"],
    ["a list", "[]", "no JSON object"],
    ["of a state that is no object", '{"state":"ready"}', "its state is no object"],
    ["of two states", '{"state":{"a":1},"state":{"b":2}}', "has state.checkpointRef twice"],
  ])("that is %s is left as it is, and said so; the checkpoint is safe", async (_what, content, reason) => {
    const { options, create, seedPath, logger, files } = await paiFolder(content);
    const id = await create();
    expect(await readFile(seedPath, "utf8")).toBe(content);
    expect(await files()).toHaveLength(1);
    expect(await completeCheckpoint(id, options)).toEqual({ ok: true });
    expect(logger.lines[0]).toMatchObject({
      level: "warn",
      message: expect.stringContaining("The checkpoints are safe"),
      details: { error: { message: expect.stringContaining(reason) } },
    });
  });

  it("that is a link is left as it is, as is what it leads to", async () => {
    const { root, create, seedPath, logger } = await paiFolder();
    const elsewhere = join(root, "dotfiles.json");
    await writeFile(elsewhere, SEED);
    await symlink(elsewhere, seedPath);
    await create();
    expect(await readFile(elsewhere, "utf8")).toBe(SEED);
    expect(logger.lines).toHaveLength(1);
  });

  it("that lies behind a file is said so; the checkpoint is safe", async () => {
    const { create, seedPath, logger } = await paiFolder(SEED);
    await create("build", 4, { seedPath: join(seedPath, "seed.json") });
    expect(logger.lines).toMatchObject([
      { details: { error: { message: expect.stringMatching(/ENOTDIR at .*seed\.json/) } } },
    ]);
  });

  it("isn't written where there is nothing to change", async () => {
    const { options, create, writeAsSpec, seedPath } = await paiFolder(SEED);
    const id = await create("build", 4, { seedPath: `${seedPath}.other` });
    const { ino } = await stat(seedPath);
    await writeAsSpec({ createdAt: daysAgo(60) });
    await cleanupCheckpoints(30, options);
    await completeCheckpoint(id, options);
    expect((await stat(seedPath)).ino).toBe(ino);
  });
});

describe("the default event log", () => {
  it("has one line of JSON for each event, beside the checkpoints' folder", async () => {
    const { options, create, events } = await paiFolder();
    const a = await create("observe", 1);
    const b = await create("think", 2);
    await completeCheckpoint(b, options);
    expect(await events()).toEqual([
      {
        timestamp: expect.stringMatching(/Z$/),
        type: "custom",
        data: { action: "checkpoint_created", checkpointId: a, phase: "observe" },
      },
      expect.objectContaining({ data: { action: "checkpoint_created", checkpointId: b, phase: "think" } }),
      expect.objectContaining({ data: { action: "checkpoint_completed", checkpointId: b, phase: "think" } }),
    ]);
  });

  it("begins a new line where the last one was cut short by a kill", async () => {
    const { create, eventsPath } = await paiFolder();
    await writeFile(eventsPath, '{"timestamp":"2026-0');
    const id = await create();
    const [cut, whole = ""] = (await readFile(eventsPath, "utf8")).split("\n");
    expect(cut).toBe('{"timestamp":"2026-0');
    expect(JSON.parse(whole).data.checkpointId).toBe(id);
  });

  it("isn't written through a link", async () => {
    const { root, create, eventsPath, logger } = await paiFolder();
    await writeFile(join(root, "elsewhere"), "");
    await symlink(join(root, "elsewhere"), eventsPath);
    await create();
    expect(await readFile(join(root, "elsewhere"), "utf8")).toBe("");
    expect(logger.lines).toMatchObject([{ level: "warn", message: expect.stringContaining("was not logged") }]);
  });
});

describe("a logEvent of one's own", () => {
  it.each([
    [
      "throws",
      () => {
        throw new Error("no log");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no log"))],
  ])("that %s fails nothing, and is said so", async (_what, logEvent) => {
    const { options, logger } = await paiFolder();
    const result = await createCheckpoint("build", 4, "t", [], {}, { ...options, logEvent });
    expect(result.ok).toBe(true);
    expect(logger.lines).toMatchObject([
      { level: "warn", message: "The checkpoint is safe, but its event checkpoint_created was not logged" },
    ]);
  });
});
