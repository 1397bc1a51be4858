// Every acceptance criterion of the spec, and every test that it names.
import { readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import {
  checkpointFilename,
  checkpointStateSchema,
  cleanupCheckpoints,
  completeCheckpoint,
  createCheckpoint,
  detectIncompleteCheckpoint,
  iscCriterionSnapshotSchema,
  listCheckpoints,
  loadCheckpoint,
  resolveCheckpointsDir,
  sessionEndCleanup,
  sessionStartContext,
} from "waymark/phase-checkpoints";
import { visibleIn } from "../../support/visible-files.js";
import { CRITERIA, daysAgo, paiFolder, SEED, SpecSchema } from "./pai-folder.js";

describe("the spec's tests of resolveCheckpointsDir", () => {
  it("default is ~/.pai/checkpoints", () => {
    expect(resolveCheckpointsDir()).toBe(join(homedir(), ".pai", "checkpoints"));
  });

  it("accepts an override", () => {
    expect(resolveCheckpointsDir("/custom/dir")).toBe("/custom/dir");
    expect(resolveCheckpointsDir("custom")).toBe(resolve("custom"));
  });
});

describe("the spec's tests of createCheckpoint", () => {
  it("creates file", async () => {
    const { options, create, files } = await paiFolder();
    await create();
    const [file = ""] = await files();
    expect(await files()).toEqual([file]);
    expect(SpecSchema.parse(JSON.parse(await readFile(join(options.checkpointsDir, file), "utf8")))).toMatchObject({
      phase: "build",
      phaseNumber: 4,
      completed: false,
    });
  });

  it("atomic write: leaves nothing but the whole file, and nothing of one that failed", async () => {
    const { options, create, files } = await paiFolder();
    await create();
    const before = await files();
    // More bytes than metadata may take.
    const tooMuch = { text: "x".repeat(65 * 1024 * 1024) };
    expect(await createCheckpoint("build", 4, "t", [], tooMuch, options)).toMatchObject({ ok: false });
    expect(await files()).toEqual(before);
    expect(await listCheckpoints(options)).toHaveLength(1);
  });

  it("returns result", async () => {
    const { options, files } = await paiFolder();
    const result = await createCheckpoint("think", 2, "Design the API", [], {}, options);
    expect(result).toEqual({ ok: true, checkpointId: expect.stringMatching(/^.{21}$/), file: (await files())[0] });
  });

  it("updates seedRef", async () => {
    const { create, seed } = await paiFolder(SEED);
    const id = await create();
    expect((await seed()).state.checkpointRef).toBe(id);
  });

  it("logs event", async () => {
    const { create, events } = await paiFolder();
    const checkpointId = await create();
    const [event] = await events();
    expect(event).toMatchObject({
      type: "custom",
      data: { action: "checkpoint_created", checkpointId, phase: "build" },
    });
  });
});

describe("the spec's tests of loadCheckpoint", () => {
  it("loads by ID", async () => {
    const { options, create } = await paiFolder();
    const ids = [await create("observe", 1), await create("execute", 5), await create("learn", 7)];
    const loaded = await Promise.all(ids.map((id) => loadCheckpoint(id, options)));
    expect(loaded.map((checkpoint) => checkpoint?.phase)).toEqual(["observe", "execute", "learn"]);
    expect(loaded[1]).toMatchObject({ id: ids[1], sessionId: "s1", iscCriteria: CRITERIA, metadata: { step: 3 } });
  });

  it("returns null for missing", async () => {
    const { options, create } = await paiFolder();
    expect(await loadCheckpoint("nonexistent", options)).toBeNull();
    await create();
    expect(await loadCheckpoint("nonexistent", options)).toBeNull();
  });

  it("validates schema", async () => {
    const { options, create, edit } = await paiFolder();
    const id = await create();
    await edit({ phaseNumber: 8 });
    expect(await loadCheckpoint(id, options)).toBeNull();
  });
});

describe("the spec's tests of listCheckpoints", () => {
  async function oneCompletedOfThree() {
    const pai = await paiFolder();
    await pai.create("observe", 1);
    const id = await pai.create("think", 2);
    await pai.create("plan", 3);
    await completeCheckpoint(id, pai.options);
    return pai.options;
  }
  const phases = (checkpoints: readonly { readonly phase: string }[]) => checkpoints.map(({ phase }) => phase);

  it("lists all", async () => {
    expect(phases(await listCheckpoints(await oneCompletedOfThree()))).toEqual(["plan", "think", "observe"]);
  });

  it("filters completed", async () => {
    expect(phases(await listCheckpoints({ ...(await oneCompletedOfThree()), completed: true }))).toEqual(["think"]);
  });

  it("filters incomplete", async () => {
    const incomplete = await listCheckpoints({ ...(await oneCompletedOfThree()), completed: false });
    expect(phases(incomplete)).toEqual(["plan", "observe"]);
  });

  it("empty dir", async () => {
    const { root, options } = await paiFolder();
    expect(await listCheckpoints(options)).toEqual([]);
    expect(await listCheckpoints({ checkpointsDir: root })).toEqual([]);
    // Reading creates nothing.
    expect(await visibleIn(root)).toEqual([]);
  });
});

describe("the spec's tests of detectIncompleteCheckpoint", () => {
  it("finds most recent incomplete", async () => {
    const { options, create, writeAsSpec } = await paiFolder();
    await create("observe", 1);
    await create("think", 2);
    await writeAsSpec({ phase: "plan", createdAt: daysAgo(1) });
    expect(await detectIncompleteCheckpoint(options)).toMatchObject({ phase: "think", phaseNumber: 2 });
  });

  it("returns null when none", async () => {
    const { options, create } = await paiFolder();
    expect(await detectIncompleteCheckpoint(options)).toBeNull();
    await completeCheckpoint(await create(), options);
    expect(await detectIncompleteCheckpoint(options)).toBeNull();
  });

  it("ignores completed", async () => {
    const { options, create } = await paiFolder();
    await create("observe", 1);
    await completeCheckpoint(await create("think", 2), options);
    expect(await detectIncompleteCheckpoint(options)).toMatchObject({ phase: "observe" });
  });
});

describe("the spec's tests of completeCheckpoint", () => {
  it("marks completed", async () => {
    const { options, create } = await paiFolder();
    const id = await create();
    const before = await loadCheckpoint(id, options);
    expect(await completeCheckpoint(id, options)).toEqual({ ok: true });
    expect(await loadCheckpoint(id, options)).toEqual({ ...before, completed: true });
  });

  it("clears seedRef", async () => {
    const { options, create, seed } = await paiFolder(SEED);
    await completeCheckpoint(await create(), options);
    expect((await seed()).state).not.toHaveProperty("checkpointRef");
  });

  it("error on missing", async () => {
    const { options } = await paiFolder();
    const result = await completeCheckpoint("nonexistent", options);
    expect(result).toEqual({ ok: false, error: expect.stringContaining('"nonexistent" was not found') });
  });
});

describe("the spec's tests of cleanupCheckpoints", () => {
  it("deletes old", async () => {
    const { options, create, edit, files } = await paiFolder();
    await create();
    await edit({ createdAt: daysAgo(60) });
    expect(await cleanupCheckpoints(30, options)).toEqual({ deleted: 1 });
    expect(await files()).toEqual([]);
  });

  it("preserves recent", async () => {
    const { options, create, writeAsSpec } = await paiFolder();
    await create();
    await writeAsSpec({ createdAt: daysAgo(29.9) });
    await writeAsSpec({ createdAt: daysAgo(30.1) });
    // The default is 30 days.
    expect(await cleanupCheckpoints(undefined, options)).toEqual({ deleted: 1 });
    expect(await listCheckpoints(options)).toHaveLength(2);
  });

  it("clears stale seedRef", async () => {
    const { options, create, edit, seed } = await paiFolder(SEED);
    await create();
    await edit({ createdAt: daysAgo(60) });
    await cleanupCheckpoints(30, options);
    expect((await seed()).state).not.toHaveProperty("checkpointRef");
  });
});

describe("scenario 1: checkpoint creation at phase transition", () => {
  it("createCheckpoint saves a JSON snapshot to the checkpoints' folder, pretty-printed as the spec's program does", async () => {
    const { options, create, files } = await paiFolder();
    await create();
    const text = await readFile(join(options.checkpointsDir, (await files())[0]!), "utf8");
    expect(text).toBe(JSON.stringify(JSON.parse(text), null, 2));
  });

  it("the filename includes timestamp and phase: ckpt-<timestamp>-<phase>.json", async () => {
    const { options, create, files } = await paiFolder();
    const id = await create("build", 4);
    const { createdAt } = (await loadCheckpoint(id, options))!;
    expect(await files()).toEqual([checkpointFilename(createdAt, "build")]);
    expect(checkpointFilename("2026-02-01T12:34:56.789Z", "build")).toBe("ckpt-2026-02-01T12-34-56-789Z-build.json");
  });

  it("the checkpoint contains phase, sessionId, task context, timestamp and metadata", async () => {
    const { options, create } = await paiFolder();
    const id = await create();
    expect(await loadCheckpoint(id, options)).toEqual({
      id,
      sessionId: "s1",
      phase: "build",
      phaseNumber: 4,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      completed: false,
      taskSummary: "Refactor the login flow",
      iscCriteria: CRITERIA,
      metadata: { step: 3 },
    });
  });

  it("seed.json's state.checkpointRef is updated with each new checkpoint's reference", async () => {
    const { create, seed } = await paiFolder(SEED);
    await create("observe", 1);
    const newest = await create("think", 2);
    expect((await seed()).state).toEqual({ lastSession: "s0", note: "kept", checkpointRef: newest });
  });

  it("a checkpoint event goes to logEvent, with the arguments of the spec's logEvent", async () => {
    const { create } = await paiFolder();
    const calls: unknown[][] = [];
    const checkpointId = await create("build", 4, { logEvent: (...call) => calls.push(call) });
    expect(calls).toEqual([["custom", { action: "checkpoint_created", checkpointId, phase: "build" }]]);
  });
});

describe("scenario 2: resume detection at session start", () => {
  it("detectIncompleteCheckpoint finds unfinished checkpoints of any session", async () => {
    const { options, create } = await paiFolder();
    await create("plan", 3, { sessionId: "another" });
    expect(await detectIncompleteCheckpoint(options)).toMatchObject({ sessionId: "another" });
  });

  it("returns the checkpoint with phase info and task context", async () => {
    const { options, create } = await paiFolder();
    await create("plan", 3);
    expect(await detectIncompleteCheckpoint(options)).toMatchObject({
      phase: "plan",
      phaseNumber: 3,
      taskSummary: "Refactor the login flow",
      iscCriteria: CRITERIA,
    });
  });

  it("the session context includes 'Checkpoint: Resume from Phase N? (<task summary>)'", async () => {
    const { options, create } = await paiFolder();
    await create("plan", 3);
    expect(await sessionStartContext(options)).toBe("Checkpoint: Resume from Phase 3? (Refactor the login flow)");
  });

  it("no output if no incomplete checkpoint exists", async () => {
    const { options, create } = await paiFolder();
    expect(await sessionStartContext(options)).toBeUndefined();
    await completeCheckpoint(await create(), options);
    expect(await sessionStartContext(options)).toBeUndefined();
  });
});

describe("scenario 3: checkpoint cleanup", () => {
  it("cleanupCheckpoints(olderThanDays) removes checkpoints older than that, incomplete ones too", async () => {
    const { options, writeAsSpec } = await paiFolder();
    await writeAsSpec({ createdAt: daysAgo(8), completed: true });
    await writeAsSpec({ createdAt: daysAgo(8) });
    const recent = await writeAsSpec({ createdAt: daysAgo(6) });
    expect(await cleanupCheckpoints(7, options)).toEqual({ deleted: 2 });
    expect(await listCheckpoints(options)).toEqual([recent]);
  });

  it("cleanup runs at session end and never throws there", async () => {
    const { root, options, writeAsSpec } = await paiFolder();
    await writeAsSpec();
    expect(await sessionEndCleanup(undefined, options)).toEqual({ ok: true, deleted: 1 });
    const failed = await sessionEndCleanup(30, { checkpointsDir: join(root, "checkpoints", "\0") });
    expect(failed).toEqual({ ok: false, error: expect.stringContaining("checkpointsDir") });
  });

  it("seed.json's checkpointRef stays if a checkpoint that it doesn't name is deleted", async () => {
    const { options, create, writeAsSpec, seed } = await paiFolder(SEED);
    const id = await create();
    await writeAsSpec({ createdAt: daysAgo(60) });
    expect(await cleanupCheckpoints(30, options)).toEqual({ deleted: 1 });
    expect((await seed()).state.checkpointRef).toBe(id);
  });
});

describe("scenario 4: explicit checkpoint completion", () => {
  it("completeCheckpoint marks a checkpoint as finished and logs checkpoint_completed, once", async () => {
    const { options, create, events } = await paiFolder();
    const checkpointId = await create();
    await completeCheckpoint(checkpointId, options);
    expect(await completeCheckpoint(checkpointId, options)).toEqual({ ok: true });
    expect((await events()).map(({ data }) => data)).toEqual([
      { action: "checkpoint_created", checkpointId, phase: "build" },
      { action: "checkpoint_completed", checkpointId, phase: "build" },
    ]);
  });

  it("seed.json's checkpointRef stays if it names a newer checkpoint", async () => {
    const { options, create, seed } = await paiFolder(SEED);
    const older = await create("observe", 1);
    const newer = await create("think", 2);
    await completeCheckpoint(older, options);
    expect((await seed()).state.checkpointRef).toBe(newer);
  });

  it("called again after an interruption, it clears seed.json", async () => {
    const { options, create, seed, seedPath } = await paiFolder(SEED);
    const id = await create();
    const withReference = await readFile(seedPath, "utf8");
    await completeCheckpoint(id, options);
    await writeFile(seedPath, withReference);
    await completeCheckpoint(id, options);
    expect((await seed()).state).not.toHaveProperty("checkpointRef");
  });

  it("withEarlier completes the session's earlier checkpoints too, and no others", async () => {
    const { options, create, events } = await paiFolder(SEED);
    await create("observe", 1, { sessionId: "other" });
    await create("think", 2);
    const last = await create("build", 4);
    await create("verify", 6);
    expect(await completeCheckpoint(last, { ...options, withEarlier: true })).toEqual({ ok: true });
    const left = await listCheckpoints({ ...options, completed: false });
    expect(left.map(({ phase }) => phase)).toEqual(["verify", "observe"]);
    const completed = (await events()).filter(({ data }) => data.action === "checkpoint_completed");
    expect(completed.map(({ data }) => data.phase)).toEqual(["think", "build"]);
  });
});

describe("the schemas", () => {
  const whole = {
    ...{ id: "a", sessionId: "s", phase: "p", phaseNumber: 1, createdAt: "2026-02-01T12:00:00Z", completed: false },
    ...{ taskSummary: "", iscCriteria: CRITERIA, metadata: {} },
  };

  it.each([
    ["an empty id", { id: "" }],
    ["a phase below 1", { phaseNumber: 0 }],
    ["a phase above 7", { phaseNumber: 8 }],
    ["a date that is not a date", { createdAt: "yesterday" }],
    ["a local time", { createdAt: "2026-02-01T12:00:00" }],
    ["a criterion of another status", { iscCriteria: [{ id: "c", subject: "s", status: "failed" }] }],
    ["metadata that is a list", { metadata: [] }],
    ["no task summary", { taskSummary: undefined }],
  ])("refuse %s, as the spec's do", (_what, change) => {
    expect(SpecSchema.safeParse({ ...whole, ...change }).success).toBe(false);
    expect(checkpointStateSchema.safeParse({ ...whole, ...change }).success).toBe(false);
  });

  it("accept what the spec's accept", () => {
    expect(checkpointStateSchema.parse(whole)).toEqual(SpecSchema.parse(whole));
    expect(iscCriterionSnapshotSchema.parse(CRITERIA[0])).toEqual(CRITERIA[0]);
  });
});
