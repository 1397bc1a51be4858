// @ts-check
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { median } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const ROUNDS = 300;
const TURNS = 1000;
/** How many of the first and of the last turns are compared. */
const COMPARED = 50;
const STEPS = 1000;

/**
 * Steps of runs on SQLite, compared with saves of the same states in another store.
 *
 * @param {string} folder
 */
export async function benchRuns(folder) {
  printHeading("Runs on SQLite, synchronous FULL, results of 1 KB");
  const open = (/** @type {string} */ name) =>
    new CheckpointManager({ storage: new SqliteAdapter({ path: join(folder, `runs-${name}.db`) }) });
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

  const resumed = await resumeOfSteps(runs);
  printRow({ what: `resuming ${STEPS} recorded steps`, measuredMs: resumed, limit: 20 });
  await Promise.all([runs.close(), saves.close()]);
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

/** @param {CheckpointManager} runs */
async function resumeOfSteps(runs) {
  /** @type {number[]} */
  const times = [];
  for (let attempt = 0; attempt <= 15; attempt++) {
    const start = performance.now();
    const stopped = runs.run("steps", async (run) => {
      for (let step = 0; step < STEPS; step++) await run.step(`step ${step}`, () => kilobyte(step));
      times.push(performance.now() - start);
      throw new Error("It is run once more.");
    });
    await stopped.catch(() => undefined);
  }
  // The first attempt ran the steps, so it doesn't count.
  return median(times.slice(1));
}

/** @param {number} number */
function kilobyte(number) {
  return { number, text: `${number} `.padEnd(1000, "lorem ipsum ") };
}
