import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { bundled } from "../support/bundled.mjs";
import { administer, serverUrl } from "../support/postgres.js";
import { SEED } from "../support/seeded.js";
import { tempFolder } from "../support/temp-folder.js";
import { executeInProcesses } from "./fleet.js";

const SECONDS = Number(process.env["WAYMARK_PROGRAM_SECONDS"] ?? 60);
const STORAGES = (["json-file", "sqlite", "postgres"] as const).filter((storage) =>
  storage.includes(process.env["WAYMARK_PROGRAM_STORAGE"] ?? ""),
);
const program = fileURLToPath(await bundled("tests/programs/process.ts"));

it(
  `random programs in killed, stopped and drained processes keep what a run promises: ${SECONDS} seconds on each storage`,
  async () => {
    const places = await Promise.all(STORAGES.map(async (storage) => ({ storage, ...(await newPlace(storage)) })));
    // Side by side: the processes mostly wait.
    const outcomes = await executeInProcesses(
      places.map((place) => ({ ...place, program, seed: SEED, seconds: SECONDS })),
    );
    for (const [at, { violations, counts, seen }] of outcomes.entries()) {
      // No other run is the same, so the message has everything, the violations first: a log may show only its start.
      const lines = [violations, counts, ...seen].map((line) => JSON.stringify(line)).join("\n");
      expect(violations, `${STORAGES[at]}: ${lines}`).toEqual([]);
      // On a busy machine, few.
      expect(counts.lives).toBeGreaterThan(SECONDS / 10);
    }
  },
  // On a busy machine, the tasks that are left take minutes.
  SECONDS * 1000 + 600_000,
);

async function newPlace(storage: (typeof STORAGES)[number]) {
  const folder = await tempFolder();
  return { folder, place: storage === "postgres" ? await newDatabase() : join(folder, "store") };
}

/** The URL of an empty database. */
async function newDatabase(): Promise<string> {
  const url = new URL(await serverUrl());
  await administer(url.href, "CREATE DATABASE random_programs");
  onTestFinished(async () => void (await administer(url.href, "DROP DATABASE random_programs WITH (FORCE)")));
  const own = new URL(url);
  own.pathname = "random_programs";
  return own.href;
}
