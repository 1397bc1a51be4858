import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type CheckpointOptions,
  type CheckpointResult,
  cleanupCheckpoints,
  completeCheckpoint,
  listCheckpoints,
  loadCheckpoint,
} from "waymark/phase-checkpoints";
import { tempFolder } from "../../support/temp-folder.js";
import { visibleIn } from "../../support/visible-files.js";
import { CRITERIA, daysAgo, paiFolder, SEED } from "./pai-folder.js";

const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/${name}`, import.meta.url));

interface Start {
  readonly times?: number;
  readonly preload?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A process that calls a function of the system, and its output line by line. */
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

/** Checks what must be true at any time, after any kill. */
async function assertSound(pai: Awaited<ReturnType<typeof paiFolder>>): Promise<void> {
  await listCheckpoints(pai.options);
  expect(pai.invalid).toEqual([]);
  expect((await pai.seed()).identity).toEqual(JSON.parse(SEED).identity);
}

describe("without options", () => {
  it("keeps checkpoints, seed.json and the event log in ~/.pai", async () => {
    const home = await tempFolder();
    const pai = join(home, ".pai");
    await mkdir(pai);
    await writeFile(join(pai, "seed.json"), SEED);
    const { results, ended } = start("createCheckpoint", ["build", 4, "t", [], {}], { env: { HOME: home } });
    await ended;
    const { checkpointId, file } = results[0] as { checkpointId: string; file: string };
    expect(await visibleIn(pai)).toEqual(["checkpoints", "checkpoints.events.jsonl", "seed.json"]);
    expect(await visibleIn(join(pai, "checkpoints"))).toEqual([file]);
    expect(JSON.parse(await readFile(join(pai, "seed.json"), "utf8")).state.checkpointRef).toBe(checkpointId);
  });
});

describe("many processes", () => {
  it("saving one phase at the same time each get a file for every checkpoint", async () => {
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

  it("create, complete and clean up at the same time and lose nothing", async () => {
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

describe("a process killed with SIGKILL", () => {
  it("loses no acknowledged checkpoint and leaves no partial one", async () => {
    const pai = await paiFolder(SEED);
    const acknowledged: string[] = [];
    for (let round = 1; round <= 3; round++) {
      const { child, results, lines, ended } = start("createCheckpoint", creation(pai.options), { times: 1000 });
      while (results.length < round) await once(lines, "line");
      child.kill("SIGKILL");
      await ended;
      for (const result of results as CheckpointResult[]) acknowledged.push(result.ok ? result.checkpointId : "");
      await assertSound(pai);
    }
    const ids = (await listCheckpoints(pai.options)).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(acknowledged));
    // The next process works as usual.
    const next = await pai.create("verify", 6);
    expect((await pai.seed()).state.checkpointRef).toBe(next);
    expect((await pai.files()).filter((name) => !name.startsWith("ckpt-"))).toEqual([]);
  });

  const killed = (n: number): Start => ({
    preload: "phase-checkpoints/kill-before-rename.mjs",
    env: { KILL_BEFORE_RENAME: String(n) },
  });

  it("at each step of a creation leaves no checkpoint or a whole one", async () => {
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

  it("at each step of a completion leaves it undone or done; the next call finishes it", async () => {
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

  it("in the middle of a cleanup has removed final-phase checkpoints (completed work) first", async () => {
    // Killed before the commit of seed.json, and before the third of the four removals.
    for (const [n, left] of [
      [1, ["A", "b", "C", "d"]],
      [4, ["b", "d"]],
    ] as const) {
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
      await start("cleanupCheckpoints", [30, { checkpointsDir }], killed(n)).ended;
      const phases = (await listCheckpoints(pai.options)).map(({ phase }) => phase);
      expect(phases).toEqual(left);
      // seed.json never names a removed checkpoint.
      expect("checkpointRef" in (await pai.seed()).state).toBe(n === 1);
      await assertSound(pai);
      expect(await cleanupCheckpoints(30, pai.options)).toEqual({ deleted: left.length });
    }
  });
});
