// @ts-check
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCheckpoint, detectIncompleteCheckpoint } from "waymark/phase-checkpoints";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";
import { agentState } from "./state.mjs";

const FILES = 500;

/**
 * Measures against the time limits in the spec of `waymark/phase-checkpoints`: 50 ms for a new checkpoint with its note
 * in seed.json and its event, and 100 ms to find the newest incomplete checkpoint at the start of a session.
 *
 * @param {string} folder
 */
export async function benchPhaseCheckpoints(folder) {
  const checkpointsDir = join(folder, "phase-checkpoints");
  const seedPath = join(folder, "seed.json");
  writeFileSync(seedPath, JSON.stringify({ version: "1.0", state: {} }, null, 2));
  const metadata = { state: agentState(0) };
  const criteria = [{ id: "c1", subject: "Tests pass for all modules", status: /** @type {const} */ ("pending") }];
  const create = async () => {
    const result = await createCheckpoint("build", 4, "Refactor the login flow", criteria, metadata, {
      checkpointsDir,
      seedPath,
    });
    if (!result.ok) throw new Error(result.error);
  };
  for (let file = 0; file < FILES; file++) await create();

  const { save } = await medians({ save: create }, { rounds: 40 });
  const { detect } = await medians({ detect: () => detectIncompleteCheckpoint({ checkpointsDir }) }, { rounds: 40 });
  printHeading(`Phase checkpoints, a folder of ${FILES} files, metadata of 9 KB`);
  printRow({ what: "createCheckpoint, with seed.json and event log", measuredMs: save, limit: 50 });
  printRow({ what: "detectIncompleteCheckpoint", measuredMs: detect, limit: 100 });
}
