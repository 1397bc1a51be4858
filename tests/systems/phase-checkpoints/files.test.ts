import { mkdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  type CheckpointState,
  checkpointFilename,
  cleanupCheckpoints,
  completeCheckpoint,
  createCheckpoint,
  detectIncompleteCheckpoint,
  listCheckpoints,
  loadCheckpoint,
} from "waymark/phase-checkpoints";
import { visibleIn } from "../../support/visible-files.js";
import { CRITERIA, daysAgo, paiFolder, SEED, SpecSchema } from "./pai-folder.js";

afterEach(() => {
  vi.useRealTimers();
});

const HOSTILE = [
  "../x",
  "a/b",
  "..",
  ".",
  "C:\\x",
  "x".repeat(300),
  "a\0b",
  "con",
  "é 🙂",
  "a%2Fb",
  "\ud800",
  "~",
  "\n",
];

describe("a folder that the spec's program wrote", () => {
  it("can be listed, searched and cleaned up", async () => {
    const { options, writeAsSpec } = await paiFolder();
    const old = await writeAsSpec({ createdAt: daysAgo(60) });
    const done = await writeAsSpec({ createdAt: daysAgo(1), completed: true });
    const open = await writeAsSpec({ createdAt: daysAgo(2), phase: "think", phaseNumber: 2 });
    expect(await listCheckpoints(options)).toEqual([done, open, old]);
    expect(await loadCheckpoint(open.id, options)).toEqual(open);
    expect(await detectIncompleteCheckpoint(options)).toEqual(open);
    expect(await cleanupCheckpoints(30, options)).toEqual({ deleted: 1 });
    expect(await listCheckpoints(options)).toEqual([done, open]);
  });

  it("a completed file keeps its name, its other keys and its permissions", async () => {
    const { options, writeAsSpec, files } = await paiFolder();
    const added = { note: "kept", big: { nested: true } };
    const { id } = await writeAsSpec({ ...added, metadata: { completed: false } } as Partial<CheckpointState>);
    const [name = ""] = await files();
    const path = join(options.checkpointsDir, name);
    const before = { text: await readFile(path, "utf8"), mode: (await stat(path)).mode };
    expect(await completeCheckpoint(id, options)).toEqual({ ok: true });
    expect(await files()).toEqual([name]);
    expect(await readFile(path, "utf8")).toBe(before.text.replace('\n  "completed": false', '\n  "completed": true'));
    expect((await stat(path)).mode).toBe(before.mode);
  });

  it("can hold our files too: all are ordered by createdAt, then by name", async () => {
    const { options, create, writeAsSpec } = await paiFolder();
    await writeAsSpec({ createdAt: daysAgo(1), phase: "spec-earlier" });
    await create("ours", 2);
    expect(await detectIncompleteCheckpoint(options)).toMatchObject({ phase: "ours" });
    // The file has a time without milliseconds and a name without meaning.
    const later = `${new Date(Date.now() + 60_000).toISOString().slice(0, 19)}Z`;
    await writeAsSpec({ createdAt: later, phase: "a" }, "ckpt-a.json");
    await writeAsSpec({ createdAt: later, phase: "b" }, "ckpt-b.json");
    expect((await listCheckpoints(options)).map(({ phase }) => phase)).toEqual(["b", "a", "ours", "spec-earlier"]);
  });

  it("may hold copies of one checkpoint: all of them are completed", async () => {
    const { options, writeAsSpec } = await paiFolder();
    const state = await writeAsSpec({}, "ckpt-1.json");
    await writeAsSpec(state, "ckpt-2.json");
    await completeCheckpoint(state.id, options);
    expect(await detectIncompleteCheckpoint(options)).toBeNull();
  });
});

describe("a file that Waymark wrote", () => {
  it("satisfies the spec's schema for any phase name, before and after completion", async () => {
    const { options, create, files } = await paiFolder();
    for (const phase of HOSTILE.filter((name) => name.isWellFormed())) {
      await completeCheckpoint(await create(phase, 7), options);
      await create(phase, 1);
    }
    for (const name of await files()) {
      const read = SpecSchema.parse(JSON.parse(await readFile(join(options.checkpointsDir, name), "utf8")));
      expect(name).toBe(checkpointFilename(read.createdAt, read.phase));
    }
  });

  it("has only the spec's keys if the metadata is plain JSON", async () => {
    const { options, create, files } = await paiFolder();
    await create();
    const raw = JSON.parse(await readFile(join(options.checkpointsDir, (await files())[0]!), "utf8"));
    expect(Object.keys(raw)).toEqual(Object.keys(SpecSchema.shape));
  });

  it("has mode 0600, and its folder 0700", async () => {
    const { options, create, files } = await paiFolder();
    await create();
    const file = await stat(join(options.checkpointsDir, (await files())[0]!));
    expect([file.mode & 0o777, (await stat(options.checkpointsDir)).mode & 0o777]).toEqual([0o600, 0o700]);
  });
});

describe("two checkpoints in one millisecond", () => {
  it("of one phase are two files, in call order", async () => {
    const { options, create, files } = await paiFolder();
    vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-02-01T12:00:00.000Z") });
    const ids = [await create("build"), await create("build"), await create("build")];
    expect(new Set(await files()).size).toBe(3);
    expect((await listCheckpoints(options)).map(({ id }) => id)).toEqual(ids.toReversed());
    expect(await detectIncompleteCheckpoint(options)).toMatchObject({ id: ids[2] });
  });

  it("of two phases are listed in call order, not by phase name", async () => {
    const { options, create } = await paiFolder();
    vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-02-01T12:00:00.000Z") });
    for (const phase of ["think", "observe", "build", "plan"]) await create(phase);
    const phases = (await listCheckpoints(options)).map(({ phase }) => phase);
    expect(phases).toEqual(["plan", "build", "observe", "think"]);
  });

  it("made concurrently by one process are in call order, and seed.json has the last", async () => {
    const { options, create, seed } = await paiFolder(SEED);
    const ids = await Promise.all(Array.from({ length: 20 }, () => create()));
    expect((await listCheckpoints(options)).map(({ id }) => id)).toEqual(ids.toReversed());
    expect((await seed()).state.checkpointRef).toBe(ids.at(-1));
  });
});

describe("a phase's name", () => {
  it.each(HOSTILE)("never leads out of the folder: %j", async (phase) => {
    const { root, options, files } = await paiFolder();
    const result = await createCheckpoint(phase, 1, "t", [], {}, options);
    // A lone surrogate has no UTF-8 form and is refused.
    expect(result.ok).toBe(phase.isWellFormed());
    expect((await visibleIn(root)).filter((name) => !name.startsWith("checkpoints"))).toEqual([]);
    if (!result.ok) return;
    expect(await files()).toEqual([result.file]);
    expect(result.file).toMatch(/^ckpt-[\dTZ-]+-[\w.%~-]+\.json$/);
    expect(await loadCheckpoint(result.checkpointId, options)).toMatchObject({ phase });
  });

  it("gives each phase its own file name", () => {
    const names = [...HOSTILE.filter((name) => name.isWellFormed()), `${"x".repeat(299)}y`, "build", ""];
    const files = names.map((phase) => checkpointFilename("2026-02-01T12:00:00.000Z", phase));
    expect(new Set(files).size).toBe(names.length);
    for (const file of files) expect(Buffer.byteLength(file)).toBeLessThanOrEqual(255);
  });

  it.each(["../../etc", "a/b", "\0"])("a timestamp never leads out of the folder: %j", (timestamp) => {
    expect(checkpointFilename(timestamp, "p")).toMatch(/^ckpt-[0-9A-Za-z-]*-p\.json$/);
  });
});

describe("invalid files", () => {
  it("are skipped, left as they are, and reported through onInvalidFile", async () => {
    const { root, options, invalid, logger, create, files, writeAsSpec } = await paiFolder();
    const id = await create();
    const outside = join(root, "outside.json");
    const linked = await writeAsSpec({}, "ckpt-link.json");
    await writeFile(outside, JSON.stringify(linked));
    const at = (name: string) => join(options.checkpointsDir, name);
    await rm(at("ckpt-link.json"));
    await symlink(outside, at("ckpt-link.json"));
    await writeFile(at("ckpt-empty.json"), "");
    await writeFile(at("ckpt-cut.json"), '{"id":"a","phase":');
    await writeFile(at("ckpt-array.json"), "[]");
    await writeFile(at("ckpt-latin1.json"), Buffer.from([0x22, 0xe9, 0x22]));
    await mkdir(at("ckpt-folder.json"));
    await writeAsSpec({ phaseNumber: 9 }, "ckpt-phase-9.json");
    // This name isn't a checkpoint's.
    await writeFile(at("notes.json"), "?");
    const before = await files();

    expect((await listCheckpoints(options)).map((checkpoint) => checkpoint.id)).toEqual([id]);
    expect(invalid.map(({ path, reason }) => [path.slice(options.checkpointsDir.length + 1), reason]).sort()).toEqual([
      ["ckpt-array.json", "it is not a JSON object"],
      ["ckpt-cut.json", "it is cut short or isn't JSON"],
      ["ckpt-empty.json", "it is cut short or isn't JSON"],
      ["ckpt-folder.json", "it is a folder"],
      ["ckpt-latin1.json", "it is cut short or isn't JSON"],
      ["ckpt-link.json", "it is a symbolic link, and links are not followed"],
      ["ckpt-phase-9.json", expect.stringContaining("phaseNumber")],
    ]);
    expect(await loadCheckpoint(linked.id, options)).toBeNull();
    expect(await completeCheckpoint(linked.id, options)).toMatchObject({ ok: false });
    expect(await cleanupCheckpoints(0, options)).toEqual({ deleted: 1 });
    expect(await files()).toEqual(before.filter((name) => !name.endsWith("-build.json")));
    expect(JSON.parse(await readFile(outside, "utf8"))).toEqual(linked);
    expect(logger.lines).toEqual([]);
  });

  it("are skipped if onInvalidFile throws, which is logged", async () => {
    const { options, logger, writeAsSpec } = await paiFolder();
    await writeAsSpec({ phaseNumber: 9 });
    const onInvalidFile = () => {
      throw new Error("my mistake");
    };
    expect(await listCheckpoints({ ...options, onInvalidFile })).toEqual([]);
    expect(logger.lines).toMatchObject([{ level: "error", message: "onInvalidFile threw" }]);
  });
});

describe("a folder that can't be used", () => {
  it("is an error with its path in the answer, or in the log if the answer has no place for it", async () => {
    const { root, options, logger } = await paiFolder();
    await writeFile(join(root, "checkpoints"), "a file where the folder belongs");
    for (const dir of [options.checkpointsDir, join(options.checkpointsDir, "below")]) {
      const here = { ...options, checkpointsDir: dir };
      const before = logger.lines.length;
      expect(await listCheckpoints(here)).toEqual([]);
      expect(await loadCheckpoint("x", here)).toBeNull();
      expect(await detectIncompleteCheckpoint(here)).toBeNull();
      const message = expect.stringMatching(/ENOTDIR at .*checkpoints/);
      expect(logger.lines.slice(before)).toMatchObject(
        [
          "listCheckpoints failed and returned []",
          "loadCheckpoint failed and returned null",
          "detectIncompleteCheckpoint failed and returned null",
        ].map((said) => ({ level: "error", message: said, details: { error: { message } } })),
      );
      expect(await cleanupCheckpoints(30, here)).toEqual({ deleted: 0, ok: false, error: message });
      const created = await createCheckpoint("build", 4, "t", CRITERIA, {}, here);
      expect(created).toEqual({ ok: false, error: expect.stringMatching(/ENOTDIR at .*A part of the path/) });
      expect(await completeCheckpoint("x", here)).toMatchObject({ ok: false });
    }
  });

  it("is an error if it is a dangling link, or below one", async () => {
    const { root, options } = await paiFolder();
    await symlink(join(root, "nowhere"), options.checkpointsDir);
    const at = await createCheckpoint("build", 4, "t", [], {}, options);
    expect(at).toMatchObject({ ok: false });
    const checkpointsDir = join(options.checkpointsDir, "below");
    const below = await createCheckpoint("build", 4, "t", [], {}, { ...options, checkpointsDir });
    expect(below).toMatchObject({ ok: false });
    expect(await visibleIn(root)).toEqual(["checkpoints"]);
  });

  it("isn't created by a read, a completion or a cleanup", async () => {
    const { root, options } = await paiFolder();
    expect(await completeCheckpoint("x", options)).toMatchObject({ ok: false });
    expect(await cleanupCheckpoints(30, options)).toEqual({ deleted: 0 });
    expect(await visibleIn(root)).toEqual([]);
  });
});
