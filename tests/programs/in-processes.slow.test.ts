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
    // The storages run in parallel, because the processes mostly wait.
    const outcomes = await executeInProcesses(
      places.map((place) => ({ ...place, program, seed: SEED, seconds: SECONDS })),
    );
    for (const [at, { violations, counts, seen }] of outcomes.entries()) {
      // Runs can't be repeated, so the message has everything. The violations come first: a log may show only the
      // start.
      const lines = [violations, counts, ...seen].map((line) => JSON.stringify(line)).join("\n");
      expect(violations, `${STORAGES[at]}: ${lines}`).toEqual([]);
      // A busy machine may have only a few lives.
      expect(counts.lives).toBeGreaterThan(SECONDS / 10);
    }
  },
  // On a busy machine, the remaining tasks take minutes.
  SECONDS * 1000 + 600_000,
);

async function newPlace(storage: (typeof STORAGES)[number]) {
  const folder = await tempFolder();
  return { folder, place: storage === "postgres" ? await newDatabase() : join(folder, "store") };
}

/** Creates an empty database. Returns its URL. */
async function newDatabase(): Promise<string> {
  const url = new URL(await serverUrl());
  await administer(url.href, "CREATE DATABASE random_programs");
  onTestFinished(async () => void (await administer(url.href, "DROP DATABASE random_programs WITH (FORCE)")));
  const own = new URL(url);
  own.pathname = "random_programs";
  return own.href;
}
