import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { bundled } from "../support/bundled.mjs";
import { administer, serverUrl } from "../support/postgres.js";
import { SEED } from "../support/seeded.js";
import { tempFolder } from "../support/temp-folder.js";
import { executeInProcesses } from "./fleet.js";

const SECONDS = Number(process.env["WAYMARK_PROGRAM_SECONDS"] ?? 60);
/** The longest time on one store. Later, listing its tasks takes too long. Then new stores and another seed are used. */
const ROUND_SECONDS = 180;
const STORAGES = (["json-file", "sqlite", "postgres"] as const).filter((storage) =>
  storage.includes(process.env["WAYMARK_PROGRAM_STORAGE"] ?? ""),
);
const program = fileURLToPath(await bundled("tests/programs/process.ts"));

it(
  `random programs in killed, stopped and drained processes keep what a run promises: ${SECONDS} seconds on each storage`,
  async () => {
    for (let [left, seed] = [SECONDS, SEED]; left > 0; left -= ROUND_SECONDS, seed += 1)
      await tryFor(Math.min(left, ROUND_SECONDS), seed);
  },
  // On a busy machine, the remaining tasks of a round take minutes.
  SECONDS * 1000 + 600_000 * Math.ceil(SECONDS / ROUND_SECONDS),
);

async function tryFor(seconds: number, seed: number): Promise<void> {
  const places = await Promise.all(STORAGES.map(async (storage) => ({ storage, ...(await newPlace(storage)) })));
  // The storages run in parallel, because the processes mostly wait.
  const outcomes = await executeInProcesses(places.map((place) => ({ ...place, program, seed, seconds })));
  for (const [at, { violations, counts, seen }] of outcomes.entries()) {
    // Runs can't be repeated, so the message has everything. The violations come first: a log may show only the
    // start.
    const lines = [violations, counts, ...seen].map((line) => JSON.stringify(line)).join("\n");
    expect(violations, `${STORAGES[at]}, seed ${seed}: ${lines}`).toEqual([]);
    // A busy machine may have only a few lives.
    expect(counts.lives).toBeGreaterThan(seconds / 10);
  }
}

async function newPlace(storage: (typeof STORAGES)[number]) {
  const folder = await tempFolder();
  return { folder, place: storage === "postgres" ? await newDatabase() : join(folder, "store") };
}

/** Creates an empty database. Returns its URL. */
async function newDatabase(): Promise<string> {
  const url = new URL(await serverUrl());
  const name = `random_programs_${randomUUID().replaceAll("-", "")}`;
  await administer(url.href, `CREATE DATABASE ${name}`);
  onTestFinished(async () => void (await administer(url.href, `DROP DATABASE ${name} WITH (FORCE)`)));
  const own = new URL(url);
  own.pathname = name;
  return own.href;
}
