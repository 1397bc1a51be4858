import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cleanupCheckpoints, completeCheckpoint, createCheckpoint } from "waymark/phase-checkpoints";
import { visibleIn } from "../../support/visible-files.js";
import { daysAgo, paiFolder, SEED } from "./pai-folder.js";

describe("seed.json", () => {
  it("keeps all other keys, their order and the file's permissions", async () => {
    const { create, seedPath } = await paiFolder(SEED);
    const { mode } = await stat(seedPath);
    const id = await create();
    const withReference = SEED.replace('"note": "kept"\n', `"note": "kept",\n    "checkpointRef": "${id}"\n`);
    expect(await readFile(seedPath, "utf8")).toBe(withReference);
    expect((await stat(seedPath)).mode).toBe(mode);
  });

  it("is the same as before once the checkpoint is completed", async () => {
    const { options, create, seedPath } = await paiFolder(SEED);
    await completeCheckpoint(await create(), options);
    expect(await readFile(seedPath, "utf8")).toBe(SEED);
  });

  it.each([
    ["an empty state", { state: {} }, { state: { checkpointRef: "ID" } }],
    ["no state", { a: 1 }, { a: 1, state: { checkpointRef: "ID" } }],
    ["another checkpoint's id", { state: { checkpointRef: "x", b: 1 } }, { state: { checkpointRef: "ID", b: 1 } }],
    ["a reference that is not text", { state: { checkpointRef: null } }, { state: { checkpointRef: "ID" } }],
  ])("gets the id where it has %s", async (_what, before, after) => {
    const { create, seedPath } = await paiFolder(JSON.stringify(before));
    const id = await create();
    expect(await readFile(seedPath, "utf8")).toBe(`${JSON.stringify(after, null, 2).replace("ID", id)}\n`);
  });

  it("isn't created if there is none", async () => {
    const { root, options, create, logger } = await paiFolder();
    await completeCheckpoint(await create(), options);
    expect(await visibleIn(root)).toEqual(["checkpoints", "checkpoints.events.jsonl"]);
    expect(logger.lines).toEqual([]);
  });

  it("may be in any folder", async () => {
    const { root, create, seedPath } = await paiFolder(SEED);
    const elsewhere = join(root, "config", "my-seed.json");
    await mkdir(join(root, "config"));
    await writeFile(elsewhere, SEED);
    const id = await create("build", 4, { seedPath: elsewhere });
    expect(JSON.parse(await readFile(elsewhere, "utf8")).state.checkpointRef).toBe(id);
    expect(await readFile(seedPath, "utf8")).toBe(SEED);
    expect(await visibleIn(join(root, "config"))).toEqual(["my-seed.json"]);
  });

  it.each([
    ["cut short", SEED.slice(0, 40), "cut short or isn't JSON"],
    ["empty", "", "cut short or isn't JSON"],
    ["a list", "[]", "not a JSON object"],
    ["without an object as state", '{"state":"ready"}', "its state is not an object"],
  ])("is left as it is and reported if it is %s; the checkpoint is safe", async (_what, content, reason) => {
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

  it("is left as it is and reported if it is a link, and so is the link's target", async () => {
    const { root, create, seedPath, logger } = await paiFolder();
    const elsewhere = join(root, "dotfiles.json");
    await writeFile(elsewhere, SEED);
    await symlink(elsewhere, seedPath);
    await create();
    expect(await readFile(elsewhere, "utf8")).toBe(SEED);
    expect(logger.lines).toHaveLength(1);
  });

  it("with a file on its path is reported; the checkpoint is safe", async () => {
    const { create, seedPath, logger } = await paiFolder(SEED);
    await create("build", 4, { seedPath: join(seedPath, "seed.json") });
    expect(logger.lines).toMatchObject([
      { details: { error: { message: expect.stringMatching(/ENOTDIR at .*seed\.json/) } } },
    ]);
  });

  it("is not written if nothing changes", async () => {
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

  it("that can't be written is reported; the checkpoint is safe", async () => {
    const { create, eventsPath, files, logger } = await paiFolder();
    await mkdir(eventsPath);
    await create();
    expect(await files()).toHaveLength(1);
    expect(logger.lines).toMatchObject([{ level: "warn", message: expect.stringContaining("was not logged") }]);
  });
});

describe("eventsDir", () => {
  it("gets a file per day in the form of the spec's program, with the session's id", async () => {
    const { root, options, create } = await paiFolder();
    const eventsDir = join(root, "events", "new");
    const id = await create("build", 4, { eventsDir });
    await completeCheckpoint(id, { ...options, eventsDir });
    const [name = "", ...others] = await visibleIn(eventsDir);
    expect([name, others]).toEqual([expect.stringMatching(/^events-\d{4}-\d\d-\d\d\.jsonl$/), []]);
    const lines = (await readFile(join(eventsDir, name), "utf8")).trimEnd().split("\n");
    const event = {
      id: expect.stringMatching(/^.{21}$/),
      timestamp: expect.stringMatching(/Z$/),
      sessionId: "s1",
      type: "custom",
    };
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { ...event, data: { action: "checkpoint_created", checkpointId: id, phase: "build" } },
      { ...event, data: { action: "checkpoint_completed", checkpointId: id, phase: "build" } },
    ]);
    expect(await visibleIn(root)).toEqual(["checkpoints", "events"]);
  });

  it("that can't be made is reported; the checkpoint is safe", async () => {
    const { root, create, files, logger } = await paiFolder();
    await writeFile(join(root, "events"), "a file");
    await create("build", 4, { eventsDir: join(root, "events") });
    expect(await files()).toHaveLength(1);
    expect(logger.lines).toMatchObject([{ level: "warn", message: expect.stringContaining("was not logged") }]);
  });
});

describe("a caller's logEvent", () => {
  it.each([
    [
      "throws",
      () => {
        throw new Error("no log");
      },
    ],
    ["rejects", () => Promise.reject(new Error("no log"))],
  ])("that %s is reported and fails nothing", async (_what, logEvent) => {
    const { options, logger } = await paiFolder();
    const result = await createCheckpoint("build", 4, "t", [], {}, { ...options, logEvent });
    expect(result.ok).toBe(true);
    expect(logger.lines).toMatchObject([
      { level: "warn", message: "The checkpoint is safe, but its event checkpoint_created was not logged" },
    ]);
  });
});
