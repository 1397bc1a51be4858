// @ts-check
import { hash } from "node:crypto";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { openBareStores } from "./bare-stores.mjs";
import { median, medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const ROUNDS = 300;
/** Warm-up rounds of a step, in which V8 compiles the hot code, because a program that stores steps runs for hours. */
const WARMUP = 2000;
const TURNS = 1000;
/** The number of first turns and of last turns that are compared. */
const COMPARED = 50;
/** The number of steps in one long turn. */
const LONG = 10_000;
/** The duration of a call whose result a step records. */
const CALL_MS = 2;
/** The limit for the time of a step, as a multiple of a bare insert's time. */
const LIMITS = { full: 1.8, normal: 4, files: 2.5, postgres: 2 };

/**
 * Measures steps of runs against saves of the same states on SQLite, and on each storage against bare inserts of the
 * steps' results.
 *
 * @param {string} folder
 */
export async function benchRuns(folder) {
  printHeading("Runs on SQLite, synchronous FULL, results of 1 KB");
  // Nothing is logged, because the resumed run ends with an error each time.
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const open = (/** @type {string} */ name) =>
    new CheckpointManager({ storage: new SqliteAdapter({ path: join(folder, `runs-${name}.db`) }), logger });
  const [runs, saves] = [open("steps"), open("saves")];
  const step = await stepBesideSave(runs, saves);
  printRow({ what: "a step, to a save of the same state", measuredMs: step.ours, againstMs: step.save, limit: 1.2 });
  console.log(`${TURNS} turns with a state of 0.5 MB …`);
  const turns = await stepsOfTurns(runs);
  printRow({
    what: `a step of turn ${TURNS}, to one of turn 1; the state has 0.5 MB in each`,
    measuredMs: turns.last,
    againstMs: turns.first,
    limit: 1.2,
  });

  await Promise.all([runs.close(), saves.close()]);

  for await (const store of openBareStores(folder, "runs")) await compareStore(store, logger);
}

/**
 * @param {import("./bare-stores.mjs").BareStore} store
 * @param {import("waymark").Logger} logger
 */
async function compareStore(store, logger) {
  printHeading(`Steps with results of 1 KB on ${store.title}`);
  const manager = new CheckpointManager({ storage: store.open(), logger });
  let number = 0;
  const [step, added] = await manager.run("compared", async (run) => {
    const ours = () => run.step(`step ${++number}`, () => kilobyte(number));
    const bare = () => store.insert(JSON.stringify(kilobyte(++number)));
    const times = await medians({ ours, bare }, { rounds: 2 * ROUNDS, warmup: WARMUP });
    return [times, await addedTimes(run, bare)];
  });
  const limit = LIMITS[store.kind];
  printRow({
    what: `a step, to ${store.baseline} of its result`,
    measuredMs: step.ours,
    againstMs: step.bare,
    limit,
  });
  const what = `what a step with its mark adds to a call of ${CALL_MS} ms, to the same`;
  printRow({ what, measuredMs: added.ours, againstMs: added.bare, limit });

  /** @type {number[]} */
  const times = [];
  /** Runs the steps, or reuses their results, and ends with an error, so that it is run again. */
  const run = () =>
    manager
      .run("long", async ({ step: record }) => {
        for (let index = 0; index < LONG; index++) {
          const start = performance.now();
          await record(`step ${index}`, () => kilobyte(index));
          times.push(performance.now() - start);
        }
        throw new Error("This error lets the run be resumed.");
      })
      .catch(() => undefined);
  await run();
  const eighth = `the last eighth of ${LONG.toLocaleString("en")} steps, to the first`;
  const [first, last] = [median(times.slice(0, LONG / 8)), median(times.slice(-LONG / 8))];
  printRow({ what: eighth, measuredMs: last, againstMs: first, limit: 1.3 });

  await fillBare(store);
  const resumed = await medians({ ours: run, bare: () => loopOver(store) }, { rounds: 7, warmup: 2 });
  const loop = `resuming ${LONG.toLocaleString("en")} steps, to a bare loop over rows`;
  printRow({ what: loop, measuredMs: resumed.ours, againstMs: resumed.bare, limit: 2.5 });
  await manager.close();
}

/**
 * Measures the time that a step adds to a call of some duration, for which the step is marked as running. Work on the
 * mark that is done while the call waits isn't counted.
 *
 * @param {import("waymark").Run} run
 * @param {() => unknown} bare
 */
async function addedTimes(run, bare) {
  /** @type {{ ours: number[], bare: number[] }} */
  const samples = { ours: [], bare: [] };
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    const calledMs = await run.step(`call ${round}`, async () => {
      const calledAt = performance.now();
      await delay(CALL_MS);
      return { ...kilobyte(round), ms: performance.now() - calledAt };
    });
    samples.ours.push(performance.now() - start - calledMs.ms);
    // The pause makes the caches as cold as after a call.
    await delay(CALL_MS);
    const before = performance.now();
    await bare();
    samples.bare.push(performance.now() - before);
  }
  return { ours: median(samples.ours), bare: median(samples.bare) };
}

/** @param {import("./bare-stores.mjs").BareStore} store */
async function fillBare(store) {
  for (let index = 0; index < LONG; index++) await store.insert(JSON.stringify(kilobyte(index)), "steps");
}

/**
 * Does the minimum work of a resume for each row: two digests, parsing the value, and a turn of the event loop.
 *
 * @param {import("./bare-stores.mjs").BareStore} store
 */
async function loopOver(store) {
  for (const row of await store.readAll("steps")) {
    const text = String(row);
    hash("sha256", text, "hex");
    hash("sha256", text.slice(0, 300), "hex");
    JSON.parse(text);
    await nextTurn();
  }
}

/**
 * @param {CheckpointManager} runs
 * @param {CheckpointManager} saves
 */
async function stepBesideSave(runs, saves) {
  /** @type {number[]} */
  const ours = [];
  /** @type {number[]} */
  const plain = [];
  for (let round = -ROUNDS / 10; round < ROUNDS; round++) {
    const once = async (/** @type {number[]} */ samples, /** @type {() => Promise<unknown>} */ work) => {
      const start = performance.now();
      await work();
      if (round >= 0) samples.push(performance.now() - start);
    };
    await runs.run(
      "step",
      async (run) => {
        const both = [
          () => once(ours, () => run.step("one", () => kilobyte(round))),
          () => once(plain, () => saves.save("step", kilobyte(round))),
        ];
        for (const work of Math.random() < 0.5 ? both : both.reverse()) await work();
      },
      { restart: true },
    );
  }
  return { ours: median(ours), save: median(plain) };
}

/** @param {CheckpointManager} runs */
async function stepsOfTurns(runs) {
  const messages = Array.from({ length: 500 }, (_, index) => kilobyte(index));
  /** @type {number[]} */
  const times = [];
  await runs.run(
    "turns",
    async (run) => {
      const { turn, messages: before } = run.state;
      /** @type {number[]} */
      const samples = [];
      for (let step = 0; step < 3; step++) {
        const start = performance.now();
        await run.step(`step ${step}`, () => kilobyte(step));
        samples.push(performance.now() - start);
      }
      times.push(median(samples));
      const next = { turn: turn + 1, messages: [...before.slice(1), kilobyte(turn)] };
      return next.turn < TURNS ? run.next(next) : undefined;
    },
    { initialState: { turn: 0, messages } },
  );
  return { first: median(times.slice(0, COMPARED)), last: median(times.slice(-COMPARED)) };
}

/** @param {number} number */
function kilobyte(number) {
  return { number, text: `${number} `.padEnd(1000, "lorem ipsum ") };
}
