import { appendFile, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type CheckpointData, CheckpointFileSchema } from "waymark/prp";
import { CommandOutput } from "../../../runners/src/processes/command-output.js";
import { progressText, saveProgress } from "../../../runners/src/prp/work-progress.js";
import { bundled } from "../../support/bundled.mjs";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { isAlive, WatchedSink } from "../processes/processes.js";
import { blocked, countingCoder, documentOf, Session } from "./session.js";

const GATES = ["gate-1", "gate-2", "gate-3", "gate-4"];
/** Saves as soon as there is any output. */
const SOON = { autoSaveIntervalMs: 5 };

describe("the output of a command that is killed with its executor", () => {
  it.each([
    { work: "code", stage: "pre-execution", kind: "coder", who: "The coder" },
    { work: "gate-2", stage: "validation-gate-1", kind: "gate", who: "Gate 2" },
    { work: "fix", stage: "validation-gate-2", kind: "coder", who: "Fix attempt 1" },
  ])("is in the newest checkpoint: $work", async ({ work, stage, kind, who }) => {
    const session = await Session.createWithGit();
    await session.write("fail-gate-2");
    await session.write("block", work);
    const run = session.spawn({ ...SOON, killAtLabel: `${who} so far` });
    const pid = await blocked(run);
    expect((await run).signal).toBe("SIGKILL");

    const { label, state } = await session.latest();
    expect(label).toMatch(new RegExp(`^${who} so far: \\d+ bytes in [\\d.]+ m?s`));
    expect(state.stage).toBe(stage);
    expect(state.waymark?.progress).toMatchObject({ kind, stdout: `blocked: ${work} by ${pid}\n`, stderr: "" });
    expect(state.waymark?.progress?.bytes).toBe(`blocked: ${work} by ${pid}\n`.length);
    expect(state.waymark?.progress?.lastOutputAt).toBeInstanceOf(Date);
    expect(state.waymark?.work).toMatchObject({ kind });
  });

  it("doesn't count as a response: the coder is ended, and asked again", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "code");
    const run = session.spawn({ ...SOON, killAtLabel: "The coder so far" });
    const pid = await blocked(run);
    await run;
    expect((await session.latest()).state.coderResponse).toBeUndefined();
    await session.remove("block");
    const before = await session.latest();

    const result = await session.executor().execute(session.prpPath);

    expect(isAlive(pid)).toBe(false);
    expect(result).toMatchObject({ success: true, resumedFrom: { id: before.id, stage: "pre-execution" } });
    expect(await session.log()).toEqual(["code", "code", ...GATES]);
  });

  it("doesn't count as a response even if it ends in a result", async () => {
    const session = await Session.createWithGit();
    const coder = `echo '{"result":"success","message":"not yet"}'; ./work code`;
    await session.write("block", "code");
    const run = session.spawn({ ...SOON, coder, killAtLabel: "The coder so far" });
    await run;
    await session.remove("block");
    await session.executor().execute(session.prpPath);

    expect((await session.log()).slice(-5)).toEqual(["code", ...GATES]);
    expect((await session.latest()).state.coderResponse).toContain('"done"');
  });

  it("satisfies the schema of the file", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "code");
    await session.spawn({ ...SOON, killAtLabel: "The coder so far" });
    const text = await readFile(join(session.path, "artifacts", session.taskId, "checkpoints.json"), "utf8");

    expect(CheckpointFileSchema.parse(JSON.parse(text)).checkpoints.at(-1)?.label).toMatch(/^The coder so far/);
  });

  it("stays beside the checkpoint before it if the kill came between the two, and is resumed from", async () => {
    const session = await Session.createWithGit();
    const coder = "echo one; until grep -q 'so far' artifacts/*/checkpoints.json; do :; done; ./work code";
    await session.write("block", "code");
    expect((await session.spawn({ ...SOON, coder, killAfterSave: 3 })).signal).toBe("SIGKILL");
    await session.remove("block");

    expect(labels(await session.checkpoints())).toEqual([
      "Before the coder",
      expect.stringMatching(/^The coder so far: 4 bytes/),
      expect.stringMatching(/^The coder so far: \d+ bytes/),
    ]);
    expect((await session.executor().execute(session.prpPath)).success).toBe(true);
  });
});

describe("a run that is paused while a command runs", () => {
  it("by SIGTERM reports how far the command came", async () => {
    const session = await Session.createWithGit();
    await session.write("block", "code");
    const run = session.spawn();
    const pid = await blocked(run);
    run.kill("SIGTERM");
    await run;

    const { label, state } = await session.latest();
    expect(label).toMatch(/^Paused: Before the coder \(the coder so far: \d+ bytes in [\d.]+ \w+\)$/);
    expect(state.stage).toBe("pre-execution");
    expect(state.coderResponse).toBeUndefined();
    expect(state.waymark?.progress?.stdout).toContain(`blocked: code by ${pid}\n`);
    expect(state.waymark?.work).toBeUndefined();
  });
});

describe("saving how far a command has come", () => {
  /** A coder that writes the given lines. */
  async function toldCoder(options: object = {}) {
    const session = await Session.createWithGit();
    await execa("sh", ["-c", "mkfifo told"], { cwd: session.path });
    await writeFile(
      join(session.path, "steps"),
      '#!/bin/sh\nexec 3<>told\nwhile read -r line <&3; do [ "$line" = end ] && break; echo "$line"; done\n',
      { mode: 0o755 },
    );
    const saved = new WatchedSink();
    const lines = recordingLogger();
    const logger = {
      ...lines,
      debug: (details: object) => saved.write(Buffer.from("label" in details ? `${details.label}\n` : "")),
      error: (details: object, message: string) => {
        lines.error(details, message);
        saved.write(Buffer.from(`error: ${message}\n`));
      },
    };
    const coder = `cat > prompt; ./steps; grep -q 'fix attempt' prompt && rm -f fail-gate-*; echo '{"result":"success","message":"done"}'`;
    const executor = session.executor({ ...SOON, coder, logger, ...options });
    /** Lets the coder write more bytes. */
    const tell = (text: string) => appendFile(join(session.path, "told"), `${text}\n`);
    return { session, executor, tell, saved, lines };
  }

  it("replaces the progress saved before, pushes out no other checkpoint, and is removed with the response", async () => {
    const { session, executor, tell, saved } = await toldCoder({ checkpoints: { maxCheckpoints: 4 } });
    await session.write("fail-gate-2");
    const result = executor.execute(session.prpPath);
    for (const [i, text] of ["12345", "12345", "12345"].entries()) {
      await tell(text);
      await saved.until(new RegExp(`^The coder so far: (${6 * (i + 1)}) bytes`, "m"));
    }
    await tell("end");
    await saved.until(/^(Gate 2 failed)$/m);
    for (const [i, text] of ["12345", "12345", "12345", "12345", "12345"].entries()) {
      await tell(text);
      await saved.until(new RegExp(`^Fix attempt 1 so far: (${6 * (i + 1)}) bytes`, "m"));
    }
    const stored = labels(await session.checkpoints());
    const isProgress = (label: string) => label.includes("so far");
    expect(stored.filter((label) => !isProgress(label))).toEqual([
      "Before the coder",
      "The coder's response",
      "Gate 1 passed",
      "Gate 2 failed",
    ]);
    expect(stored.at(-1)).toMatch(/^Fix attempt 1 so far: 30 bytes/);
    // The previous checkpoint is removed once this one is stored.
    expect(stored.filter(isProgress).length).toBeLessThanOrEqual(2);
    await tell("end");

    expect((await result).success).toBe(true);
    expect(labels(await session.checkpoints())).toEqual([
      "Gate 2 passed",
      "Gate 3 passed",
      "Gate 4 passed",
      "Complete",
    ]);
  });

  it("is tried again if it fails, and the run continues", async () => {
    const { session, executor, tell, saved, lines } = await toldCoder();
    const folder = join(session.path, "artifacts", session.taskId);
    const result = executor.execute(session.prpPath);
    await tell("one");
    await saved.until(/^The coder so far: (4) bytes/m);
    await rename(folder, join(session.path, "moved"));
    await writeFile(folder, "in the way");
    await tell("two");
    await saved.until(/^(error: .*Its progress could not be saved)/m);
    await rename(folder, join(session.path, "in-the-way"));
    await rename(join(session.path, "moved"), folder);
    await saved.until(/^The coder so far: (8) bytes/m);
    await tell("end");

    expect((await result).success).toBe(true);
    expect(lines.lines.filter(({ level }) => level === "error").length).toBeGreaterThan(0);
    expect(labels(await session.checkpoints())).not.toContainEqual(expect.stringMatching(/so far/));
  });

  it("keeps as much as maxOutputBytes allows, and counts everything", async () => {
    const { session, executor, tell, saved } = await toldCoder({ maxOutputBytes: 100 });
    const result = executor.execute(session.prpPath);
    await tell("é".repeat(1_000));
    await saved.until(/^The coder so far: (2,001) bytes/m);
    const { progress } = (await session.latest()).state.waymark ?? {};
    await tell("end");
    await result;

    expect(progress?.bytes).toBe(2_001);
    expect(Buffer.byteLength(progress?.stdout ?? "")).toBeLessThan(200);
    expect(progress?.stdout).toMatch(/^é+\n\[… .* bytes cut …\]\né+\n$/);
  });

  it("is never done for a coder that is a function", async () => {
    const session = await Session.createWithGit();
    const executor = session.executor({ autoSaveIntervalMs: 1, coder: countingCoder() });
    await executor.execute(documentOf("true"));

    expect(labels(await session.checkpoints("T"))).toEqual([
      "Before the coder",
      "The coder's response",
      "Gate 1 passed",
      "Complete",
    ]);
  });

  it.each([-1, 1.5, Number.NaN, 2 ** 31])("is refused at an interval of %d ms", async (autoSaveIntervalMs) => {
    const session = await Session.createWithGit();

    expect(() => session.executor({ autoSaveIntervalMs })).toThrow(/autoSaveIntervalMs/);
  });

  it.each([0, Number.POSITIVE_INFINITY])("never happens at an interval of %d", async (autoSaveIntervalMs) => {
    const session = await Session.createWithGit();
    await session.executor({ autoSaveIntervalMs }).execute(session.prpPath);

    expect(await session.checkpoints()).toHaveLength(7);
  });
});

describe("the timer of saving how far a command has come", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function watched(save: () => Promise<void>, intervalMs = 30_000) {
    const failed = vi.fn();
    const output = new CommandOutput(100);
    const write = (text: string) => output.push("stdout", Buffer.from(text));
    return { stop: saveProgress(output, { intervalMs, save, failed }), write, failed };
  }

  it("saves only if there is something new", async () => {
    const save = vi.fn(async () => {});
    const { stop, write } = watched(save);
    await vi.advanceTimersByTimeAsync(90_000);
    expect(save).not.toHaveBeenCalled();
    write("new");
    await vi.advanceTimersByTimeAsync(30_000);
    expect(save).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(90_000);
    expect(save).toHaveBeenCalledTimes(1);
    await stop();
    write("newer");
    await vi.advanceTimersByTimeAsync(90_000);
    expect(save).toHaveBeenCalledTimes(1);
  });

  it("never saves twice at once, and stop waits for the save under way", async () => {
    const under = deferred();
    const save = vi.fn(() => under.promise);
    const { stop, write } = watched(save);
    write("new");
    await vi.advanceTimersByTimeAsync(30_000);
    write("newer");
    await vi.advanceTimersByTimeAsync(90_000);
    expect(save).toHaveBeenCalledTimes(1);
    let stopped = false;
    const stopping = stop().then(() => {
      stopped = true;
    });
    await vi.advanceTimersByTimeAsync(1);
    expect(stopped).toBe(false);
    under.resolve();
    await stopping;
  });

  it("tries again after a failure, and reports it", async () => {
    const save = vi.fn(async () => {}).mockRejectedValueOnce(new Error("disk full"));
    const { stop, write, failed } = watched(save);
    write("new");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(save).toHaveBeenCalledTimes(2);
    expect(failed).toHaveBeenCalledTimes(1);
    await stop();
  });

  it("doesn't exist at an interval of 0", async () => {
    const save = vi.fn(async () => {});
    const { stop, write } = watched(save, 0);
    write("new");

    expect(vi.getTimerCount()).toBe(0);
    await stop();
    expect(save).not.toHaveBeenCalled();
  });
});

describe("the timer", () => {
  it("never keeps a process alive", async () => {
    const module = await bundled("runners/src/prp/work-progress.ts");
    const program = `import { saveProgress } from ${JSON.stringify(module)};
      saveProgress({ bytes: 0 }, { intervalMs: 2 ** 31 - 1, save() {}, failed() {} });`;

    expect((await execa(process.execPath, ["--input-type=module", "-e", program])).exitCode).toBe(0);
  });
});

it("the words for how far a command has come name who, how much and how long", () => {
  const progress = { kind: "coder", bytes: 12_345, ranMs: 180_000, stdout: "", stderr: "" } as const;

  expect(progressText(progress)).toBe("the coder so far: 12,345 bytes in 3 minutes");
});

function labels(checkpoints: readonly CheckpointData[]): string[] {
  return checkpoints.map(({ label }) => label);
}
