import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  type CheckpointOptions,
  type CheckpointResult,
  cleanupCheckpoints,
  completeCheckpoint,
  listCheckpoints,
  loadCheckpoint,
} from "waymark/phase-checkpoints";
import { tempFolder } from "../../support/temp-folder.js";
import { CRITERIA, daysAgo, paiFolder, SEED } from "./pai-folder.js";

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}`, import.meta.url));

interface Start {
  readonly times?: number;
  readonly preload?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A process that calls a function of the system; what it prints, line by line. */
function start(name: string, args: readonly unknown[], { times = 1, preload, env }: Start = {}) {
  const preloading = preload === undefined ? [] : ["--import", fixture(preload)];
  const call = [fixture("phase-checkpoints/call.mjs"), name, String(times), JSON.stringify(args)];
  const child = spawn(process.execPath, [...preloading, ...call], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  const results: unknown[] = [];
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => results.push(JSON.parse(line)));
  const ended = Promise.all([once(child, "close"), once(lines, "close")]);
  return { child, results, lines, ended };
}

function creation(options: CheckpointOptions, phase = "build") {
  const { checkpointsDir } = options;
  return [phase, 4, "Refactor the login flow", CRITERIA, { text: "x".repeat(5_000) }, { checkpointsDir }];
}

function stateOf({ pid }: ChildProcess): string {
  return execFileSync("ps", ["-o", "state=", "-p", String(pid)], { encoding: "utf8" }).trim()[0] ?? "";
}

/** What holds at any time, whoever was killed. */
async function assertSound(pai: Awaited<ReturnType<typeof paiFolder>>): Promise<void> {
  await listCheckpoints(pai.options);
  expect(pai.invalid).toEqual([]);
  expect((await pai.seed()).identity).toEqual(JSON.parse(SEED).identity);
}

describe("without options", () => {
  it("everything is below ~/.pai: checkpoints, seed.json and the event log", async () => {
    const home = await tempFolder();
    const pai = join(home, ".pai");
    await mkdir(pai);
    await writeFile(join(pai, "seed.json"), SEED);
    const { results, ended } = start("createCheckpoint", ["build", 4, "t", [], {}], { env: { HOME: home } });
    await ended;
    const { checkpointId, file } = results[0] as { checkpointId: string; file: string };
    expect((await readdir(pai)).sort()).toEqual(["checkpoints", "checkpoints.events.jsonl", "seed.json"]);
    expect(await readdir(join(pai, "checkpoints"))).toEqual([file]);
    expect(JSON.parse(await readFile(join(pai, "seed.json"), "utf8")).state.checkpointRef).toBe(checkpointId);
  });
});

describe("many processes", () => {
  it("each get a file for each of their checkpoints, also in one phase and at one time", async () => {
    const pai = await paiFolder(SEED);
    const all = ["a", "b", "c"].map(() => start("createCheckpoint", creation(pai.options), { times: 12 }));
    await Promise.all(all.map(({ ended }) => ended));
    const ids = all.flatMap(({ results }) =>
      results.map((result) => (result as { checkpointId: string }).checkpointId),
    );
    expect(new Set(ids).size).toBe(36);
    expect(await pai.files()).toHaveLength(36);
    const stored = await listCheckpoints(pai.options);
    expect(new Set(stored.map(({ id }) => id))).toEqual(new Set(ids));
    expect(new Set(stored.map(({ createdAt }) => createdAt)).size).toBe(36);
    expect(ids).toContain((await pai.seed()).state.checkpointRef);
    expect((await pai.events()).map(({ data }) => data.checkpointId).sort()).toEqual(ids.sort());
    await assertSound(pai);
  });

  it("create, complete and clean up at once without losing anything", async () => {
    const pai = await paiFolder(SEED);
    const old = await Promise.all(Array.from({ length: 10 }, () => pai.writeAsSpec({ createdAt: daysAgo(60) })));
    const id = await pai.create();
    const { checkpointsDir } = pai.options;
    const all = [
      start("createCheckpoint", creation(pai.options), { times: 8 }),
      start("completeCheckpoint", [id, { checkpointsDir }], { times: 3 }),
      start("cleanupCheckpoints", [30, { checkpointsDir }], { times: 3 }),
    ];
    await Promise.all(all.map(({ ended }) => ended));
    expect(all[1]?.results).toEqual([{ ok: true }, { ok: true }, { ok: true }]);
    const deleted = all[2]?.results as { deleted: number }[];
    expect(deleted.reduce((sum, result) => sum + result.deleted, 0)).toBe(old.length);
    expect(await listCheckpoints(pai.options)).toHaveLength(9);
    expect(await loadCheckpoint(id, pai.options)).toMatchObject({ completed: true });
    await assertSound(pai);
  });
});

describe("a process that was stopped for longer than its lock stays fresh", () => {
  it("writes over nothing that came after it, and its checkpoint is there once it goes on", async () => {
    const pai = await paiFolder();
    const asleep = start("createCheckpoint", creation(pai.options), { preload: "files/park-before-commit.mjs" });
    await vi.waitUntil(() => stateOf(asleep.child) === "T", { timeout: 30_000, interval: 5 });
    const lock = join(pai.options.checkpointsDir, ".lock");
    for (const claim of await readdir(lock)) await utimes(join(lock, claim), 0, 0);
    const thief = await pai.create();
    asleep.child.kill("SIGCONT");
    await asleep.ended;
    const { checkpointId } = asleep.results[0] as { checkpointId: string };
    expect((await listCheckpoints(pai.options)).map(({ id }) => id)).toEqual([thief, checkpointId]);
  });
});

describe("a process that is killed with SIGKILL", () => {
  it("keeps every checkpoint that was acknowledged, whole, and nothing in parts, whenever it comes", async () => {
    const pai = await paiFolder(SEED);
    const acknowledged: string[] = [];
    for (let round = 1; round <= 6; round++) {
      const { child, results, lines, ended } = start("createCheckpoint", creation(pai.options), { times: 1000 });
      while (results.length < round) await once(lines, "line");
      child.kill("SIGKILL");
      await ended;
      for (const result of results as CheckpointResult[]) acknowledged.push(result.ok ? result.checkpointId : "");
      await assertSound(pai);
    }
    const ids = (await listCheckpoints(pai.options)).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(acknowledged));
    // Whoever comes next isn't held up, and works as ever.
    const next = await pai.create("verify", 6);
    expect((await pai.seed()).state.checkpointRef).toBe(next);
    expect((await pai.files()).filter((name) => !name.startsWith("ckpt-"))).toEqual([]);
  });

  const killed = (n: number): Start => ({
    preload: "phase-checkpoints/kill-before-rename.mjs",
    env: { KILL_BEFORE_RENAME: String(n) },
  });

  it("at each step of a creation leaves no checkpoint, or a whole one that is found and offered", async () => {
    for (const [n, expected] of [
      [1, 0],
      [2, 1],
    ] as const) {
      const pai = await paiFolder(SEED);
      await start("createCheckpoint", creation(pai.options), killed(n)).ended;
      expect(await listCheckpoints(pai.options)).toHaveLength(expected);
      expect((await pai.seed()).state).not.toHaveProperty("checkpointRef");
      await assertSound(pai);
      await pai.create();
      expect(await listCheckpoints(pai.options)).toHaveLength(expected + 1);
    }
  });

  it("at each step of a completion leaves it as it was, or done; the next call ends it", async () => {
    for (const [n, completed] of [
      [1, false],
      [2, true],
    ] as const) {
      const pai = await paiFolder(SEED);
      const id = await pai.create();
      const { checkpointsDir } = pai.options;
      await start("completeCheckpoint", [id, { checkpointsDir }], killed(n)).ended;
      expect(await loadCheckpoint(id, pai.options)).toMatchObject({ completed });
      await assertSound(pai);
      expect(await completeCheckpoint(id, pai.options)).toEqual({ ok: true });
      expect((await pai.seed()).state).not.toHaveProperty("checkpointRef");
    }
  });

  it("in the middle of a cleanup has cleaned up final-phase checkpoints (completed work) first", async () => {
    // Before the commit of seed.json, and before each of the four removals.
    const expected = [["A", "b", "C", "d"], ["A", "b", "C", "d"], ["A", "b", "d"], ["b", "d"], ["b"]];
    for (const [index, left] of expected.entries()) {
      const pai = await paiFolder(SEED);
      // Capitals are completed; d is the oldest, A the newest.
      for (const [age, phase] of ["A", "b", "C", "d"].entries()) {
        await pai.create(phase);
        const name = (await pai.files()).find((file) => file.endsWith(`-${phase}.json`)) ?? "";
        const path = join(pai.options.checkpointsDir, name);
        const state = JSON.parse(await readFile(path, "utf8"));
        const changes = { createdAt: daysAgo(60 + age), completed: phase === phase.toUpperCase() };
        await pai.writeAsSpec({ ...state, ...changes }, name);
      }
      const { checkpointsDir } = pai.options;
      await start("cleanupCheckpoints", [30, { checkpointsDir }], killed(index + 1)).ended;
      const phases = (await listCheckpoints(pai.options)).map(({ phase }) => phase);
      expect(phases).toEqual(left);
      // A reference never outlives what it refers to.
      expect("checkpointRef" in (await pai.seed()).state).toBe(index === 0);
      await assertSound(pai);
      expect(await cleanupCheckpoints(30, pai.options)).toEqual({ deleted: left.length });
    }
  });

  it("in the middle of a theft leaves a lock behind, which the next cleanup takes away", async () => {
    const pai = await paiFolder();
    await pai.writeAsSpec({ createdAt: daysAgo(60) });
    await mkdir(join(pai.options.checkpointsDir, ".lock-1@machine+0123", "claim"), { recursive: true });
    expect(await cleanupCheckpoints(30, pai.options)).toEqual({ deleted: 1 });
    expect(await readdir(pai.options.checkpointsDir)).toEqual([]);
  });

  it("with the lock in its hand holds nobody up", async () => {
    const pai = await paiFolder();
    const asleep = start("createCheckpoint", creation(pai.options), { preload: "files/park-before-commit.mjs" });
    await vi.waitUntil(() => stateOf(asleep.child) === "T", { timeout: 30_000, interval: 5 });
    asleep.child.kill("SIGKILL");
    await asleep.ended;
    const startMs = performance.now();
    await pai.create("verify", 6);
    // Far less than the 5 s in which a lock goes stale.
    expect(performance.now() - startMs).toBeLessThan(4_000);
    expect(await readdir(pai.options.checkpointsDir)).toHaveLength(1);
  });
});
