// @ts-check
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import Database from "better-sqlite3";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { median, medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";

const ROUNDS = 300;
const TURNS = 1000;
/** How many of the first and of the last turns are compared. */
const COMPARED = 50;
const STEPS = 1000;
/** The steps of one long turn, whose last eighth is compared with the first. */
const LONG = 10_000;

/**
 * Steps of runs on SQLite, compared with bare inserts of their results, and with saves of the same states.
 *
 * @param {string} folder
 */
export async function benchRuns(folder) {
  printHeading("Runs on SQLite, synchronous FULL, results of 1 KB");
  // The resumed run ends with an error each time.
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const open = (/** @type {string} */ name) =>
    new CheckpointManager({ storage: new SqliteAdapter({ path: join(folder, `runs-${name}.db`) }), logger });
  const [runs, saves] = [open("steps"), open("saves")];
  const step = await stepBesideSave(runs, saves);
  printRow({ what: "a step, to a save of the same state", measuredMs: step.ours, againstMs: step.save, limit: 1.2 });
  for (const [durability, limit] of /** @type {const} */ ([
    ["full", 1.8],
    ["normal", 4],
  ])) {
    const { ours, bare, first, last } = await stepBesideInsert(folder, durability);
    const what = `a step with its mark, to a bare insert of its result, ${durability}`;
    printRow({ what, measuredMs: ours, againstMs: bare, limit });
    const eighth = `the last eighth of ${LONG} steps, to the first, ${durability}`;
    printRow({ what: eighth, measuredMs: last, againstMs: first, limit: 1.3 });
  }

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

/**
 * @param {string} folder
 * @param {"full" | "normal"} durability
 */
async function stepBesideInsert(folder, durability) {
  const storage = new SqliteAdapter({ path: join(folder, `steps-${durability}.db`), durability });
  const manager = new CheckpointManager({ storage });
  const database = new Database(join(folder, `bare-${durability}.db`));
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${durability}`);
  database.exec("CREATE TABLE steps (task TEXT, sequence INTEGER, body TEXT, PRIMARY KEY (task, sequence))");
  const insert = database.prepare("INSERT INTO steps VALUES ('t', ?, ?)");
  let number = 0;
  const compared = await manager.run("compared", async (run) => {
    const ours = () => run.step(`step ${++number}`, () => kilobyte(number));
    const bare = () => insert.run(++number, JSON.stringify(kilobyte(number)));
    return await medians({ ours, bare }, { rounds: 3 * ROUNDS });
  });
  database.close();
  const long = await manager.run("long", async (run) => {
    /** @type {number[]} */
    const times = [];
    for (let step = 0; step < LONG; step++) {
      const start = performance.now();
      await run.step(`step ${step}`, () => kilobyte(step));
      times.push(performance.now() - start);
    }
    return { first: median(times.slice(0, LONG / 8)), last: median(times.slice(-LONG / 8)) };
  });
  await manager.close();
  return { ...compared, ...long };
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
