// @ts-check
// Runs all benchmarks (`npm run bench`) or the named ones (`node bench/run.mjs sqlite importing`). Needs a build. A
// missed limit is printed but isn't a failure, because the machine may be busy.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { benchAdapters } from "./adapters.mjs";
import { benchEventLoop } from "./event-loop.mjs";
import { benchEvents } from "./events.mjs";
import { benchFiles } from "./files.mjs";
import { benchFleet } from "./fleet.mjs";
import { benchFollow } from "./follow.mjs";
import { benchHistories } from "./histories.mjs";
import { benchImporting } from "./importing.mjs";
import { benchLanggraph } from "./langgraph.mjs";
import { benchLog } from "./log.mjs";
import { benchPhaseCheckpoints } from "./phase-checkpoints.mjs";
import { benchPostgres } from "./postgres.mjs";
import { printMachine } from "./report.mjs";
import { benchRuns } from "./runs.mjs";
import { benchSlowDisk } from "./slow-disk.mjs";
import { benchSqlite } from "./sqlite.mjs";
import { benchSyncs } from "./syncs.mjs";
import { benchTracing } from "./tracing.mjs";
import { benchUi } from "./ui.mjs";
import { benchWorkers } from "./workers.mjs";

const benchmarks = {
  importing: benchImporting,
  adapters: benchAdapters,
  files: benchFiles,
  sqlite: benchSqlite,
  syncs: benchSyncs,
  "slow-disk": benchSlowDisk,
  histories: benchHistories,
  "event-loop": benchEventLoop,
  postgres: benchPostgres,
  log: benchLog,
  runs: benchRuns,
  events: benchEvents,
  follow: benchFollow,
  workers: benchWorkers,
  fleet: benchFleet,
  tracing: benchTracing,
  langgraph: benchLanggraph,
  "phase-checkpoints": benchPhaseCheckpoints,
  ui: benchUi,
};

// The stores are on the project's disk, because the system's temporary folder may be in memory, where fsync is free.
const cache = fileURLToPath(new URL("../node_modules/.cache", import.meta.url));
mkdirSync(cache, { recursive: true });
const folder = mkdtempSync(join(cache, "waymark-bench-"));
const chosen = process.argv.slice(2);
const unknown = chosen.find((name) => !(name in benchmarks));
try {
  if (unknown !== undefined)
    throw new RangeError(`There is no benchmark "${unknown}", only ${Object.keys(benchmarks).join(", ")}.`);
  printMachine(folder);
  for (const [name, run] of Object.entries(benchmarks)) {
    if (chosen.length === 0 || chosen.includes(name)) await run(folder);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
