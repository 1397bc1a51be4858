import { hash } from "node:crypto";
import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, it } from "vitest";
import { CheckpointNotFoundError, CheckpointStaleError, StateInvalidError } from "waymark";
import { CheckpointRepository, type OneshotCheckpoint, OneshotFileSchema } from "waymark/oneshot";
import { tempFolder } from "../../support/temp-folder.js";
import { visibleIn } from "../../support/visible-files.js";

const SAVE_MANY = new URL("../../fixtures/oneshot/save-many.mjs", import.meta.url).pathname;
const DAY = 24 * 60 * 60 * 1000;
const NOW = Date.parse("2026-02-05T10:30:00Z");
const clock = () => NOW;

/** The spec's own example. */
const SPEC_FILE = `{
  "feature_id": "F01",
  "agent_id": "abc123xyz",
  "status": "running",
  "completed_ws": ["00-001-01", "00-001-04"],
  "current_ws": "00-001-02",
  "start_time": "2026-02-05T10:00:00Z",
  "last_update": "2026-02-05T10:30:00Z"
}
`;
const SPEC_CHECKPOINT: OneshotCheckpoint = {
  featureId: "F01",
  agentId: "abc123xyz",
  status: "running",
  completedWs: ["00-001-01", "00-001-04"],
  currentWs: "00-001-02",
  startTime: new Date("2026-02-05T10:00:00Z"),
  lastUpdate: new Date("2026-02-05T10:30:00Z"),
};

async function newRepository(options = {}) {
  const base = await tempFolder();
  const repository = new CheckpointRepository(base, { clock, ...options });
  const path = join(base, ".sdp", "checkpoints", "F01.json");
  /** Writes a file as another program would. */
  const put = async (text: string | Uint8Array, name = "F01.json") => {
    await mkdir(repository.checkpointDir, { recursive: true });
    await writeFile(join(repository.checkpointDir, name), text);
  };
  const onDisk = async () => JSON.parse(await readFile(path, "utf8"));
  return { base, repository, path, put, onDisk };
}

describe("CheckpointRepository", () => {
  it("AC1, TestSaveCheckpoint: saves to .sdp/checkpoints/<feature>.json, and makes the folder", async () => {
    const { base, repository, path, onDisk } = await newRepository();

    await repository.save(SPEC_CHECKPOINT);

    expect(repository.checkpointDir).toBe(join(base, ".sdp", "checkpoints"));
    expect(await onDisk()).toMatchObject({
      feature_id: "F01",
      agent_id: "abc123xyz",
      status: "running",
      completed_ws: ["00-001-01", "00-001-04"],
      current_ws: "00-001-02",
      start_time: "2026-02-05T10:00:00.000Z",
      last_update: "2026-02-05T10:30:00.000Z",
    });
    expect(await visibleIn(repository.checkpointDir)).toEqual(["F01.json"]);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(repository.checkpointDir)).mode & 0o777).toBe(0o700);
  });

  it("AC2, TestLoadCheckpoint: loads a feature's checkpoint unchanged", async () => {
    const { base, repository } = await newRepository();
    await repository.save(SPEC_CHECKPOINT);

    expect(await repository.load("F01")).toEqual(SPEC_CHECKPOINT);
    expect(await new CheckpointRepository(base, { clock }).load("F01")).toEqual(SPEC_CHECKPOINT);
  });

  it("TestLoadNonExistent: a missing checkpoint is CHECKPOINT_NOT_FOUND, and nothing is created", async () => {
    const { base, repository } = await newRepository();

    const error = await repository.load("F01").catch((thrown: unknown) => thrown);

    expect(error).toBeInstanceOf(CheckpointNotFoundError);
    expect(error).toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
      taskId: "F01",
      message: expect.stringContaining("F01"),
    });
    expect(await visibleIn(base)).toEqual([]);
  });

  it.each([
    ["AC3, TestUpdateCompletedWS", { completedWs: ["00-001-01", "00-001-04", "00-001-02"] }],
    ["AC4, TestUpdateCurrentWS", { currentWs: "00-001-03" }],
    ["TestUpdateStatus", { status: "paused" as const }],
  ])("%s: a save replaces the one before", async (_name, change) => {
    const { repository } = await newRepository();
    await repository.save(SPEC_CHECKPOINT);

    await repository.save({ ...(await repository.load("F01")), ...change });

    expect(await repository.load("F01")).toEqual({ ...SPEC_CHECKPOINT, ...change });
  });

  it("AC6, TestDeleteCheckpoint: deletes, and ignores a missing checkpoint", async () => {
    const { base, repository } = await newRepository();
    await repository.delete("F01");
    expect(await visibleIn(base)).toEqual([]);
    await repository.save(SPEC_CHECKPOINT);

    expect(await repository.exists("F01")).toBe(true);
    await repository.delete("F01");
    expect(await repository.exists("F01")).toBe(false);
    await repository.delete("F01");
    expect(await visibleIn(repository.checkpointDir)).toEqual([]);
  });

  it("TestListCheckpoints: lists features by id, including damaged ones, and no other files", async () => {
    const { repository, put } = await newRepository();
    expect(await repository.list()).toEqual([]);
    for (const featureId of ["F03", "F01", "F02"]) await repository.save({ ...SPEC_CHECKPOINT, featureId });
    await put("{", "F04.json");
    await put("", "notes.txt");
    await put("", ".hidden.json");
    await mkdir(join(repository.checkpointDir, "folder"));

    expect(await repository.list()).toEqual(["F01", "F02", "F03", "F04"]);
  });

  it("keeps runOneshot's notes beyond the spec's schema", async () => {
    const { repository, onDisk } = await newRepository();
    const waymark = {
      plan: "plan.yaml",
    };
    await repository.save({ ...SPEC_CHECKPOINT, waymark });

    expect(await repository.load("F01")).toEqual({ ...SPEC_CHECKPOINT, waymark });
    await repository.save({ ...(await repository.load("F01")), status: "paused" });
    expect(await onDisk()).toMatchObject({ status: "paused", waymark });
  });
});

describe("a file of the spec's own program", () => {
  it("can be loaded and saved", async () => {
    const { repository, put, onDisk } = await newRepository();
    await put(SPEC_FILE);

    expect(await repository.load("F01")).toEqual(SPEC_CHECKPOINT);
    await repository.save({ ...SPEC_CHECKPOINT, completedWs: [] });
    expect(await onDisk()).toMatchObject({ feature_id: "F01", completed_ws: [] });
  });

  it("can have Go's nanoseconds, offsets and nil slices, and no final line break", async () => {
    const { repository, put } = await newRepository();
    await put(
      '{"feature_id":"F01","agent_id":"","status":"paused","completed_ws":null,"current_ws":"",' +
        '"start_time":"0001-01-01T00:00:00Z","last_update":"2026-02-05T11:30:00.123456789+01:00"}',
    );

    expect(await repository.load("F01")).toEqual({
      featureId: "F01",
      agentId: "",
      status: "paused",
      completedWs: [],
      currentWs: "",
      startTime: new Date("0001-01-01T00:00:00Z"),
      lastUpdate: new Date("2026-02-05T10:30:00.123Z"),
    });
  });

  it("may replace ours at any time", async () => {
    const { repository, put } = await newRepository();
    await repository.save({ ...SPEC_CHECKPOINT, completedWs: [] });
    await put(SPEC_FILE);

    expect(await repository.load("F01")).toEqual(SPEC_CHECKPOINT);
  });

  it("has the same keys and types as ours, which has one more key", async () => {
    const { repository, onDisk } = await newRepository();
    await repository.save({ ...SPEC_CHECKPOINT, completedWs: [] });
    const written = await onDisk();
    const spec = JSON.parse(SPEC_FILE);

    const { waymark, ...ofSpec } = written;
    expect(waymark).toEqual({ sha256: hash("sha256", JSON.stringify(ofSpec), "hex") });
    expect(Object.keys(ofSpec)).toEqual(Object.keys(spec));
    for (const [key, value] of Object.entries(spec)) {
      expect(Array.isArray(ofSpec[key])).toBe(Array.isArray(value));
      expect(typeof ofSpec[key]).toBe(typeof value);
    }
    // Go's time.Time accepts only RFC 3339.
    const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
    expect(ofSpec.start_time).toMatch(rfc3339);
    expect(ofSpec.last_update).toMatch(rfc3339);
    expect(OneshotFileSchema.safeParse(spec).success).toBe(true);
    expect(OneshotFileSchema.safeParse(written).success).toBe(true);
  });
});

describe("a stale checkpoint", () => {
  const old = (days: number) => ({ ...SPEC_CHECKPOINT, lastUpdate: new Date(NOW - days * DAY) });

  it("is refused, with its age, and left untouched", async () => {
    const { repository } = await newRepository();
    await repository.save(old(9));

    const error = await repository.load("F01").catch((thrown: unknown) => thrown);

    expect(error).toBeInstanceOf(CheckpointStaleError);
    expect(error).toMatchObject({ code: "CHECKPOINT_STALE", ageMs: 9 * DAY });
    expect((error as Error).message).toMatch(/"F01" is stale.* 9 days ago .*at most 7 days.*force/);
    expect(await repository.exists("F01")).toBe(true);
  });

  it("is accepted with force, or a greater maxAgeMs", async () => {
    const { base, repository } = await newRepository();
    await repository.save(old(9));

    expect(await repository.load("F01", { force: true })).toEqual(old(9));
    expect(await repository.load("F01", { maxAgeMs: 9 * DAY })).toEqual(old(9));
    expect(await repository.load("F01", { maxAgeMs: Number.POSITIVE_INFINITY })).toEqual(old(9));
    const patient = new CheckpointRepository(base, { clock, maxAgeMs: 10 * DAY });
    expect(await patient.load("F01")).toEqual(old(9));
    await expect(patient.load("F01", { maxAgeMs: DAY })).rejects.toThrow("at most 1 day are accepted");
  });

  it("doesn't include one from the near future, because clocks differ", async () => {
    const { repository } = await newRepository();
    await repository.save(old(-1));

    expect(await repository.load("F01", { maxAgeMs: 0 })).toEqual(old(-1));
  });

  it("includes one from the far future, because its age is unknown", async () => {
    const { repository } = await newRepository();
    await repository.save(old(-9));

    const error = await repository.load("F01").catch((thrown: unknown) => thrown);

    expect(error).toMatchObject({ code: "CHECKPOINT_STALE", ageMs: -9 * DAY });
    expect((error as Error).message).toMatch(/may be stale.* 9 days ahead of this machine's clock.*at most 7 days/);
    expect(await repository.load("F01", { maxAgeMs: 9 * DAY })).toEqual(old(-9));
    expect(await repository.load("F01", { force: true })).toEqual(old(-9));
  });
});

describe("a corrupt checkpoint", () => {
  // Waymark recognizes its files by this key. A person who edited the file has removed the checksum.
  const ours = { ...JSON.parse(SPEC_FILE), waymark: {} };
  const without = (key: string) => JSON.stringify({ ...ours, [key]: undefined });
  const withValue = (key: string, value: unknown) => JSON.stringify({ ...ours, [key]: value });

  it.each([
    ["cut short", SPEC_FILE.slice(0, 90)],
    ["empty", ""],
    ["not JSON", `${JSON.stringify(ours)},`],
    ["not UTF-8", Buffer.concat([Buffer.from(SPEC_FILE), Buffer.from([0xff])])],
    ["without its agent", without("agent_id")],
    ["without a status", without("status")],
    ["of an unknown status", withValue("status", "done")],
    ["without the completed workstreams", without("completed_ws")],
    ["whose completed workstreams are numbers", withValue("completed_ws", [1])],
    ["without the current workstream", without("current_ws")],
    ["without a start", without("start_time")],
    ["whose last update is not a time", withValue("last_update", "yesterday")],
    ["whose checksum is empty", withValue("waymark", { sha256: "" })],
    ["whose plan is a number", withValue("waymark", { plan: 5 })],
  ])("%s: the error names the file, which is left untouched", async (_what, text) => {
    const { repository, path, put } = await newRepository();
    await put(text);

    await expect(repository.load("F01")).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringContaining(path),
    });
    await expect(repository.save(SPEC_CHECKPOINT)).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringContaining(path),
    });
    expect(await readFile(path)).toEqual(Buffer.from(text));
    expect(await repository.exists("F01")).toBe(true);
    await repository.delete("F01");
    expect(await repository.list()).toEqual([]);
  });

  it("includes one of ours that was changed", async () => {
    const { repository, path, put } = await newRepository();
    await repository.save(SPEC_CHECKPOINT);
    const text = await readFile(path, "utf8");
    const changed = text.replace("00-001-04", "00-001-05");
    expect(changed).not.toBe(text);
    await put(changed);

    await expect(repository.load("F01")).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPT",
      message: expect.stringMatching(/F01\.json.*checksum.*waymark\.sha256/),
    });
  });

  it("that a person edited can be loaded without its waymark.sha256; its layout doesn't matter", async () => {
    const { repository, onDisk, put } = await newRepository();
    await repository.save(SPEC_CHECKPOINT);
    const { waymark: _waymark, ...edited } = await onDisk();
    await put(JSON.stringify(await onDisk()));
    expect(await repository.load("F01")).toEqual(SPEC_CHECKPOINT);
    await put(JSON.stringify({ ...edited, completed_ws: [] }));

    expect(await repository.load("F01")).toEqual({ ...SPEC_CHECKPOINT, completedWs: [] });
  });
});

describe("a feature's name", () => {
  it.each([
    "../../outside",
    "a/b",
    ".",
    "..",
    ".hidden",
    "con",
    "ü ñ",
    "x".repeat(500),
    "F01.json",
    "F01+lock",
    "%2e",
    "-rf",
  ])("is data: %j has its own file inside the folder", async (featureId) => {
    const { base, repository } = await newRepository();
    const checkpoint = { ...SPEC_CHECKPOINT, featureId };
    await repository.save(SPEC_CHECKPOINT);
    await repository.save(checkpoint);

    expect(await repository.load(featureId)).toEqual(checkpoint);
    expect((await repository.list()).sort()).toEqual(["F01", featureId].sort());
    expect(await visibleIn(base)).toEqual([".sdp"]);
    expect(await visibleIn(repository.checkpointDir)).toHaveLength(2);
    await repository.delete(featureId);
    expect(await visibleIn(repository.checkpointDir)).toEqual(["F01.json"]);
  });

  it("must be the one in the file", async () => {
    const { repository, put } = await newRepository();
    await put(SPEC_FILE, "F02.json");

    const foreign = {
      code: "UNSUPPORTED_FORMAT",
      message: expect.stringContaining('it is the checkpoint of feature "F01"'),
    };
    await expect(repository.load("F02")).rejects.toMatchObject(foreign);
    await expect(repository.save({ ...SPEC_CHECKPOINT, featureId: "F02" })).rejects.toMatchObject(foreign);
  });
});

describe("an invalid checkpoint", () => {
  it.each([
    [{ ...SPEC_CHECKPOINT, status: "done" }],
    [{ ...SPEC_CHECKPOINT, completedWs: "a" }],
    [{ ...SPEC_CHECKPOINT, completedWS: [] }],
    [{ ...SPEC_CHECKPOINT, startTime: "2026-02-05T10:00:00Z" }],
    [{ ...SPEC_CHECKPOINT, lastUpdate: new Date(Number.NaN) }],
  ])("is refused, and nothing is saved: %j", async (checkpoint) => {
    const { repository } = await newRepository();

    await expect(repository.save(checkpoint as never)).rejects.toBeInstanceOf(StateInvalidError);
    expect(await repository.exists("F01")).toBe(false);
  });

  it("is refused by name, as are misspelled options", async () => {
    const { repository } = await newRepository();
    expect(() => new CheckpointRepository(".", { maxAge: 5 } as never)).toThrow('"maxAge"');
    expect(() => new CheckpointRepository("")).toThrow("baseDir");
    expect(() => new CheckpointRepository(".", { maxAgeMs: -1 })).toThrow("maxAgeMs");
    await expect(repository.load("F01", { forced: true } as never)).rejects.toThrow('"forced"');
    await expect(repository.save(null as never)).rejects.toBeInstanceOf(TypeError);
    await expect(repository.save({} as never)).rejects.toThrow("A checkpoint's featureId must be a string");
    await expect(repository.save({ feature_id: "F01" } as never)).rejects.toThrow("only its file has feature_id");
    await expect(repository.load("")).rejects.toThrow("A featureId must not be empty");
  });
});

describe("the disk", () => {
  it("with a file in the folder's place: the error names it", async () => {
    const { base, repository } = await newRepository();
    await writeFile(join(base, ".sdp"), "");

    for (const call of [
      () => repository.save(SPEC_CHECKPOINT),
      () => repository.load("F01"),
      () => repository.list(),
      () => repository.exists("F01"),
      () => repository.delete("F01"),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: "STORAGE_FAILED", message: expect.stringContaining(".sdp") });
    }
  });

  // Permissions wouldn't help, because tests also run as root.
  it("if the folder can't be made: an error, and nothing is created elsewhere", async () => {
    const { base, repository } = await newRepository();
    const nowhere = join(await tempFolder(), "nowhere");
    await symlink(nowhere, join(base, ".sdp"));

    await expect(repository.save(SPEC_CHECKPOINT)).rejects.toMatchObject({ code: "STORAGE_FAILED" });
    await expect(stat(nowhere)).rejects.toThrow("ENOENT");
  });

  it("may have the folder elsewhere, through a link; a link in a file's place is not followed", async () => {
    const { base, repository, path } = await newRepository();
    const elsewhere = await tempFolder();
    await mkdir(join(base, ".sdp"));
    await symlink(elsewhere, repository.checkpointDir);
    await repository.save(SPEC_CHECKPOINT);
    expect(await visibleIn(elsewhere)).toEqual(["F01.json"]);

    await repository.delete("F01");
    await symlink("/etc/hostname", path);
    await expect(repository.load("F01")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
  });
});

describe("several processes at once", () => {
  it("each save is whole, and the last one stays", async () => {
    const { base, repository } = await newRepository();
    const savers = ["x", "y", "z"].map((agent) => execa(process.execPath, [SAVE_MANY, base, "F01", agent, "8"]));
    const done = Promise.all(savers);
    let isDone = false;
    void done.finally(() => {
      isDone = true;
    });
    const found: OneshotCheckpoint[] = [];
    while (!isDone) {
      if (await repository.exists("F01")) found.push(await repository.load("F01", { force: true }));
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    await done;
    found.push(await repository.load("F01", { force: true }));

    for (const { agentId, completedWs } of found) {
      expect(completedWs.length % 10).toBe(0);
      expect(completedWs.every((id, n) => id === `${agentId}-${n}`)).toBe(true);
    }
    expect(found.at(-1)?.completedWs).toHaveLength(80);
    expect(await visibleIn(repository.checkpointDir)).toEqual(["F01.json"]);
  });
});
