import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type CheckpointConfig,
  type CheckpointData,
  type CheckpointExecutionState,
  CheckpointFileSchema,
  PrpCheckpointManager,
} from "waymark/prp";
import { z } from "zod";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";

const TASK = "P1.M1.T1.S1";

/** The spec's own schema, word for word. It can't read its own output until the dates are revived. */
const SpecStateSchema = z.object({
  prpPath: z.string(),
  stage: z.enum([
    "pre-execution",
    "coder-response",
    "validation-gate-1",
    "validation-gate-2",
    "validation-gate-3",
    "validation-gate-4",
    "complete",
    "failed",
  ]),
  coderResponse: z.string().optional(),
  coderResult: z.object({ result: z.enum(["success", "error", "issue"]), message: z.string() }).optional(),
  validationResults: z.array(
    z.object({
      level: z.number().int().min(1).max(4),
      description: z.string(),
      success: z.boolean(),
      command: z.string().nullable(),
      stdout: z.string(),
      stderr: z.string(),
      exitCode: z.number().nullable(),
      skipped: z.boolean(),
    }),
  ),
  fixAttempt: z.number().int().min(0).optional(),
  timestamp: z.date(),
});
const SpecFileSchema = z.object({
  version: z.literal("1.0"),
  checkpoints: z.array(
    z.object({
      id: z.string(),
      taskId: z.string(),
      label: z.string(),
      state: SpecStateSchema,
      createdAt: z.date(),
      error: z.object({ message: z.string(), code: z.string().optional(), stack: z.string().optional() }).optional(),
    }),
  ),
  lastModified: z.date(),
});

const DATES = ["createdAt", "timestamp", "lastModified"];

function reviveDates(text: string): unknown {
  return JSON.parse(text, (key, value) => (DATES.includes(key) ? new Date(value) : value));
}

function stateOf(changes: Partial<CheckpointExecutionState> = {}): CheckpointExecutionState {
  return { prpPath: "prps/x.md", stage: "pre-execution", validationResults: [], timestamp: new Date(), ...changes };
}

const FULL = stateOf({
  stage: "validation-gate-1",
  coderResponse: 'ok\n{"result":"success"}',
  coderResult: { result: "success", message: "done" },
  validationResults: [
    {
      level: 1,
      description: "Types",
      success: false,
      command: "npx tsc",
      stdout: "",
      stderr: "TS2307\n",
      exitCode: 2,
      skipped: false,
    },
    {
      level: 2,
      description: "By hand",
      success: true,
      command: null,
      stdout: "",
      stderr: "",
      exitCode: null,
      skipped: true,
    },
  ],
  fixAttempt: 1,
  timestamp: new Date("2026-01-24T13:20:00.123Z"),
});

async function open(config?: Partial<CheckpointConfig>, sessionPath?: string) {
  const path = sessionPath ?? (await tempFolder());
  const manager = new PrpCheckpointManager(path, config, { logger: recordingLogger() });
  onTestFinished(() => manager.close());
  return manager;
}

function fileOf(manager: PrpCheckpointManager, taskId = TASK): string {
  return join(manager.sessionPath, "artifacts", taskId, "checkpoints.json");
}

/** Writes a file as the spec's program does. */
async function writeForeign(
  manager: PrpCheckpointManager,
  ...checkpoints: Partial<CheckpointData>[]
): Promise<string[]> {
  const createdAt = new Date("2026-01-24T13:20:00.000Z");
  const whole = checkpoints.map((checkpoint, i) => ({
    id: `${TASK}_1706102400000_pre-execution_0a1b2c3${i}`,
    taskId: TASK,
    label: `Foreign ${i}`,
    state: stateOf(),
    createdAt,
    ...checkpoint,
  }));
  const file = { version: "1.0", checkpoints: whole, lastModified: createdAt };
  await mkdir(dirname(fileOf(manager)), { recursive: true });
  await writeFile(fileOf(manager), JSON.stringify(file, null, 2));
  return whole.map(({ id }) => id);
}

describe("the spec's unit tests", () => {
  it("should create checkpoint with valid data", async () => {
    const manager = await open();
    const id = await manager.saveCheckpoint(TASK, "After gate 1", FULL);
    const { createdAt, ...checkpoint } = await manager.restoreCheckpoint(id);

    expect(checkpoint).toEqual({ id, taskId: TASK, label: "After gate 1", state: FULL });
    expect(checkpoint.state.timestamp).toBeInstanceOf(Date);
    expect(createdAt).toBeInstanceOf(Date);
  });

  it("should save checkpoint to correct file path", async () => {
    const manager = await open();
    await manager.saveCheckpoint(TASK, "One", FULL);
    const text = await readFile(join(manager.sessionPath, "artifacts/P1.M1.T1.S1/checkpoints.json"), "utf8");

    expect(JSON.parse(text)).toMatchObject({
      version: "1.0",
      lastModified: expect.stringMatching(/Z$/),
      checkpoints: [{ taskId: TASK, label: "One", state: { ...FULL, timestamp: "2026-01-24T13:20:00.123Z" } }],
    });
  });

  it("should use atomic write pattern", async () => {
    const manager = await open({ maxCheckpoints: 1000 });
    const states = Array.from({ length: 10 }, (_, i) => stateOf({ coderResponse: `${i}`.repeat(10_000) }));
    await manager.saveCheckpoint(TASK, "First", FULL);
    let saving = true;
    const saved = Promise.all(states.map((state) => manager.saveCheckpoint(TASK, "Next", state))).finally(() => {
      saving = false;
    });
    let last = 0;
    // Whenever the file is read, it is whole and contains no less than before.
    while (saving) {
      const { checkpoints } = CheckpointFileSchema.parse(JSON.parse(await readFile(fileOf(manager), "utf8")));
      expect(checkpoints.length).toBeGreaterThanOrEqual(last);
      last = checkpoints.length;
    }
    await saved;

    const names = await readdir(dirname(fileOf(manager)));
    expect(names.filter((name) => name !== ".lock")).toEqual(["checkpoints.json"]);
  });

  it("should validate checkpoint data with Zod", async () => {
    const manager = await open();
    // As in untyped JSON.
    const wrong = { ...stateOf(), stage: "half-way" } as unknown as CheckpointExecutionState;

    await expect(manager.saveCheckpoint(TASK, "Wrong", wrong)).rejects.toMatchObject({
      code: "STATE_INVALID",
      message: expect.stringContaining("$.stage"),
    });
    expect(await manager.hasCheckpoint(TASK)).toBe(false);
  });

  it("should restore checkpoint by ID", async () => {
    const manager = await open();
    const ids = [];
    for (const label of ["a", "b", "c"]) ids.push(await manager.saveCheckpoint(TASK, label, FULL));

    for (const [i, label] of ["a", "b", "c"].entries()) {
      expect((await manager.restoreCheckpoint(ids[i]!)).label).toBe(label);
    }
  });

  it("should get latest checkpoint for task", async () => {
    const manager = await open();
    for (const label of ["a", "b", "c"]) await manager.saveCheckpoint(TASK, label, stateOf());

    expect((await manager.getLatestCheckpoint(TASK))?.label).toBe("c");
    expect(await manager.getLatestCheckpoint("P1.M1.T1.S2")).toBeNull();
  });

  it("should list all checkpoints for task", async () => {
    const manager = await open();
    // The saves are usually within one millisecond, but their order is kept.
    await Promise.all(["a", "b", "c", "d"].map((label) => manager.saveCheckpoint(TASK, label, stateOf())));

    expect((await manager.listCheckpoints(TASK)).map(({ label }) => label)).toEqual(["a", "b", "c", "d"]);
    expect(await manager.listCheckpoints("P1.M1.T1.S2")).toEqual([]);
  });

  it("should cleanup old checkpoints (respect maxCheckpoints)", async () => {
    const manager = await open();
    for (let n = 1; n <= 8; n++) await manager.saveCheckpoint(TASK, `${n}`, stateOf());

    expect((await manager.listCheckpoints(TASK)).map(({ label }) => label)).toEqual(["4", "5", "6", "7", "8"]);
  });

  it("should delete specific checkpoint", async () => {
    const manager = await open();
    const [first, second, third] = await Promise.all(
      ["a", "b", "c"].map((label) => manager.saveCheckpoint(TASK, label, stateOf())),
    );
    await manager.deleteCheckpoint(second!);

    expect((await manager.listCheckpoints(TASK)).map(({ id }) => id)).toEqual([first, third]);
    await expect(manager.deleteCheckpoint(second!)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await expect(manager.restoreCheckpoint(second!)).rejects.toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
      message: expect.stringContaining("listCheckpoints(taskId) shows"),
    });
  });

  it("should check if checkpoint exists", async () => {
    const manager = await open();
    expect(await manager.hasCheckpoint(TASK)).toBe(false);
    const id = await manager.saveCheckpoint(TASK, "One", stateOf());
    expect(await manager.hasCheckpoint(TASK)).toBe(true);
    await manager.deleteCheckpoint(id);
    expect(await manager.hasCheckpoint(TASK)).toBe(false);
  });

  it("should handle invalid checkpoint data (Zod validation)", async () => {
    const manager = await open();
    // Another program could have written this.
    const state = { ...stateOf(), validationResults: "none" } as unknown as CheckpointExecutionState;
    const [id] = await writeForeign(manager, { state });

    await expect(manager.restoreCheckpoint(id!)).rejects.toMatchObject({
      code: "STATE_INVALID",
      message: expect.stringContaining("$.validationResults"),
    });
    await expect(manager.listCheckpoints(TASK)).rejects.toMatchObject({ code: "STATE_INVALID" });
  });

  it("should handle file not found errors", async () => {
    const manager = await open({}, join(await tempFolder(), "not/there"));

    expect(await manager.listCheckpoints(TASK)).toEqual([]);
    expect(await manager.getLatestCheckpoint(TASK)).toBeNull();
    await manager.cleanup(TASK);
    await expect(manager.restoreCheckpoint(`${TASK}_1706102400000_complete`)).rejects.toMatchObject({
      name: "CheckpointNotFoundError",
      taskId: TASK,
    });
  });

  it("should generate unique checkpoint IDs", async () => {
    const manager = await open({ maxCheckpoints: 1000 });
    const ids = await Promise.all(Array.from({ length: 20 }, () => manager.saveCheckpoint(TASK, "x", stateOf())));

    expect(new Set(ids).size).toBe(20);
    for (const id of ids) expect(id).toMatch(/^P1\.M1\.T1\.S1_\d{13}_pre-execution_[a-z0-9]+$/);
  });
});

describe("the spec's level 3, its integration test", () => {
  it("runs as it is written there", async () => {
    const manager = new PrpCheckpointManager(await tempFolder());
    const state: CheckpointExecutionState = {
      prpPath: "/path/to/prp.md",
      stage: "pre-execution",
      validationResults: [],
      timestamp: new Date(),
    };

    const id = await manager.saveCheckpoint("P1.M1.T1.S1", "Test checkpoint", state);
    const checkpoints = await manager.listCheckpoints("P1.M1.T1.S1");
    const restored = await manager.restoreCheckpoint(id);
    const hasCheck = await manager.hasCheckpoint("P1.M1.T1.S1");

    expect({ listed: checkpoints.map((checkpoint) => checkpoint.id), label: restored.label, hasCheck }).toEqual({
      listed: [id],
      label: "Test checkpoint",
      hasCheck: true,
    });
    expect(restored.state).toEqual(state);
  });
});

describe("checkpoint ids", () => {
  it.each([
    "P1.M1.T1.S1",
    "p1.m1",
    "snake_case_task",
    "feature/login form",
    "T_1706102400000_failed",
    "T_1_failed_2_complete_x",
    "../../up",
    "_",
    "日本語 \n zwei",
  ])("lead back to task %j", async (taskId) => {
    const manager = await open();
    const id = await manager.saveCheckpoint(taskId, "One", stateOf({ stage: "complete" }));
    await manager.saveCheckpoint("T", "Another", stateOf());

    expect(id.startsWith(`${taskId}_`)).toBe(true);
    expect(await manager.restoreCheckpoint(id)).toMatchObject({ id, taskId, label: "One" });
    await manager.deleteCheckpoint(id);
    expect(await manager.hasCheckpoint(taskId)).toBe(false);
  });

  it.each(["", "nothing", `${TASK}_complete`, `${TASK}_17_somewhere`, `${TASK}_x_complete`, "_17_complete"])(
    "that are invalid (%j) are not found",
    async (id) => {
      const manager = await open();
      await expect(manager.restoreCheckpoint(id)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND", id });
      await expect(manager.deleteCheckpoint(id)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND", id });
    },
  );
});

describe("a saved checkpoint", () => {
  it("keeps the error's message, code and stack", async () => {
    const manager = await open();
    const error = Object.assign(new TypeError("no network"), { code: "ENET" });
    const id = await manager.saveCheckpoint(TASK, "Failed", stateOf({ stage: "failed" }), error);
    const plain = await manager.saveCheckpoint(TASK, "Failed", stateOf({ stage: "failed" }), new Error("plain"));

    expect((await manager.restoreCheckpoint(id)).error).toEqual({
      message: "no network",
      code: "ENET",
      stack: error.stack,
    });
    expect((await manager.restoreCheckpoint(plain)).error).toEqual({ message: "plain", stack: expect.any(String) });
  });

  it("is restored as a separate value each time", async () => {
    const manager = await open();
    const id = await manager.saveCheckpoint(TASK, "One", FULL);
    const first = await manager.restoreCheckpoint(id);
    first.state.validationResults.length = 0;
    first.state.timestamp.setTime(0);

    expect((await manager.restoreCheckpoint(id)).state).toEqual(FULL);
  });

  it.each([undefined, null, 7])("has a label: %j is refused, and nothing saved", async (label) => {
    const manager = await open();
    // Untyped code could call it so.
    const wrong = label as unknown as string;

    await expect(manager.saveCheckpoint(TASK, wrong, stateOf())).rejects.toThrow(TypeError);
    expect(await manager.hasCheckpoint(TASK)).toBe(false);
  });

  it("leaves out undefined parts", async () => {
    const manager = await open();
    const state = stateOf({
      coderResponse: undefined,
      coderResult: undefined,
      fixAttempt: undefined,
      waymark: undefined,
    });
    const id = await manager.saveCheckpoint(TASK, "One", state, undefined);

    expect(Object.keys((await manager.restoreCheckpoint(id)).state).sort()).toEqual(Object.keys(stateOf()).sort());
  });

  it("is plain JSON for the spec's program, however deep a value is that JSON lacks", async () => {
    const manager = await open();
    const gate = { ...FULL.validationResults[0]!, exitCode: -0, command: null };
    const asked = stateOf({
      validationResults: [gate],
      fixAttempt: -0,
      waymark: {
        prpDigest: undefined,
        work: { kind: "coder", level: -0 },
        artifacts: undefined,
      },
    });
    const id = await manager.saveCheckpoint(TASK, "One", asked);
    const plain = JSON.parse(JSON.stringify(asked));

    const text = await readFile(fileOf(manager), "utf8");
    expect(JSON.parse(text).checkpoints[0]).toMatchObject({ waymark: { encoding: "json" } });
    expect(JSON.parse(text).checkpoints[0].state).toStrictEqual(plain);
    expect(SpecFileSchema.safeParse(reviveDates(text)).success).toBe(true);
    const { state } = await manager.restoreCheckpoint(id);
    expect(JSON.parse(JSON.stringify(state))).toStrictEqual(plain);
    expect(Object.keys(state.waymark ?? {})).toEqual(["work"]);
  });

  it("is accepted by the spec's own schema, whole", async () => {
    const manager = await open();
    await manager.saveCheckpoint(TASK, "One", FULL);
    await manager.saveCheckpoint(TASK, "Two", stateOf({ stage: "failed" }), new Error("no"));
    const file = SpecFileSchema.parse(reviveDates(await readFile(fileOf(manager), "utf8")));

    expect(file.checkpoints).toEqual(await manager.listCheckpoints(TASK));
    expect(file.checkpoints[0]?.state).toEqual(FULL);
  });
});

describe("a file of the spec's program", () => {
  it("is read, added to, and still its own", async () => {
    const manager = await open();
    const createdAt = (seconds: number) => new Date(Date.UTC(2026, 0, 24, 13, 20, seconds));
    // Its array is in the order of its saves, as its dates show.
    const foreign = await writeForeign(
      manager,
      { id: `${TASK}_1706102400000_pre-execution`, createdAt: createdAt(0) },
      { createdAt: createdAt(1), state: FULL, error: { message: "oops", code: "E1" } },
    );
    expect(await manager.getLatestCheckpoint(TASK)).toEqual({
      id: foreign[1],
      taskId: TASK,
      label: "Foreign 1",
      state: FULL,
      createdAt: createdAt(1),
      error: { message: "oops", code: "E1" },
    });
    expect(await manager.restoreCheckpoint(foreign[0]!)).toMatchObject({ label: "Foreign 0" });

    const own = await manager.saveCheckpoint(TASK, "Own", stateOf({ stage: "complete" }));

    expect((await manager.listCheckpoints(TASK)).map(({ id }) => id)).toEqual([...foreign, own]);
    const file = SpecFileSchema.parse(reviveDates(await readFile(fileOf(manager), "utf8")));
    expect(file.checkpoints).toEqual(await manager.listCheckpoints(TASK));
    await manager.deleteCheckpoint(foreign[0]!);
    await manager.cleanup(TASK, 1);
    expect((await manager.listCheckpoints(TASK)).map(({ id }) => id)).toEqual([own]);
  });

  it("that was cut short is an error, never an empty list, and is left as it is", async () => {
    const manager = await open();
    await writeForeign(manager, {});
    const text = (await readFile(fileOf(manager), "utf8")).slice(0, -40);
    await writeFile(fileOf(manager), text);
    const corrupt = { code: "CHECKPOINT_CORRUPT" };

    await expect(manager.listCheckpoints(TASK)).rejects.toMatchObject(corrupt);
    await expect(manager.getLatestCheckpoint(TASK)).rejects.toMatchObject(corrupt);
    await expect(manager.saveCheckpoint(TASK, "Over it", stateOf())).rejects.toThrow();
    await expect(manager.cleanup(TASK, 2)).rejects.toMatchObject(corrupt);
    await expect(manager.cleanup(TASK, 0)).rejects.toMatchObject(corrupt);
    expect(await readFile(fileOf(manager), "utf8")).toBe(text);
  });
});

describe("the configuration", () => {
  it("can switch checkpoints off: nothing is saved, and existing ones can be read", async () => {
    const enabled = await open();
    const id = await enabled.saveCheckpoint(TASK, "One", FULL);
    const manager = await open({ enabled: false }, enabled.sessionPath);

    expect(await manager.saveCheckpoint(TASK, "Two", FULL)).toBe("");
    expect((await manager.listCheckpoints(TASK)).map((checkpoint) => checkpoint.id)).toEqual([id]);
  });

  it("that switches checkpoints off doesn't hide a call after close", async () => {
    const manager = await open({ enabled: false });
    await manager.close();

    await expect(manager.saveCheckpoint(TASK, "x", stateOf())).rejects.toMatchObject({ code: "CLOSED" });
  });

  it("can leave the cleanup to its user", async () => {
    const manager = await open({ maxCheckpoints: 2, autoCleanup: false });
    for (let n = 1; n <= 6; n++) await manager.saveCheckpoint(TASK, `${n}`, stateOf());
    const labels = async () => (await manager.listCheckpoints(TASK)).map(({ label }) => label);

    expect(await labels()).toHaveLength(6);
    await manager.cleanup(TASK, 4);
    expect(await labels()).toEqual(["3", "4", "5", "6"]);
    await manager.cleanup(TASK);
    expect(await labels()).toEqual(["5", "6"]);
    await manager.cleanup(TASK, 10);
    expect(await labels()).toEqual(["5", "6"]);
    await manager.cleanup(TASK, 0);
    expect(await manager.hasCheckpoint(TASK)).toBe(false);
  });

  it.each([
    [{ maxCheckpoint: 1 }, /has no "maxCheckpoint"/],
    [{ maxCheckpoints: 0 }, /maxCheckpoints/],
    [{ maxCheckpoints: "5" }, /maxCheckpoints/],
    [{ enabled: "no" }, /enabled/],
    [{ autoCleanup: 0 }, /autoCleanup/],
  ])("refuses %j", (config, message) => {
    expect(() => new PrpCheckpointManager("/tmp/s", config as Partial<CheckpointConfig>)).toThrow(message);
  });

  it("refuses a session without a path, a task without a name, and a call after close", async () => {
    const manager = await open();

    expect(() => new PrpCheckpointManager("")).toThrow(/sessionPath/);
    await expect(manager.saveCheckpoint("", "x", stateOf())).rejects.toThrow(RangeError);
    await expect(manager.cleanup(TASK, -1)).rejects.toThrow(/retain/);
    await manager.close();
    await manager.close();
    await expect(manager.listCheckpoints(TASK)).rejects.toMatchObject({ code: "CLOSED" });
    await expect(manager.saveCheckpoint(TASK, "x", stateOf())).rejects.toMatchObject({ code: "CLOSED" });
  });
});
