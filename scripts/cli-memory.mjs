// @ts-check
// Checks that `waymark list`, `export`, `import`, `copy` and `prune` over 20,000 checkpoints stay under 180 MB of
// memory, from and into each kind of storage. Takes minutes and needs a build. Part of `npm run check`, where files:
// and tasks: have fewer checkpoints, because a disk takes milliseconds for each of their saves. With `--full`, each
// storage has 100,000, which is best done in memory (TMPDIR=/dev/shm).
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs, { mkdtempSync, rmSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const isFull = process.argv.includes("--full");
const CHECKPOINTS = isFull ? 100_000 : 20_000;
const IN_FILES = isFull ? CHECKPOINTS : 5_000;
const IN_TASKS = isFull ? CHECKPOINTS : 2_000;
const PER_TASK_FILE = 100;
// On SQLite, some 30 MB belong to the thread that copies its log.
const LIMIT_KB = 180_000;
/** A plan has all checkpoints of one task in memory. With `--full`, the largest task has 50,000 of a kilobyte each. */
const PRUNE_LIMIT_KB = LIMIT_KB + (isFull ? 50_000 : 0);

/** Skips syncs of files, because only memory is measured. (SQLite syncs its files itself.) */
fs.fsync = Object.assign(
  (/** @type {number} */ _file, /** @type {(error: Error | null) => void} */ done) => void setImmediate(done, null),
  { __promisify__: async () => {} },
);
syncBuiltinESMExports();
const unsynced = `
  import fs from "node:fs";
  import { syncBuiltinESMExports } from "node:module";
  fs.fsync = (_file, done) => void setImmediate(done, null);
  syncBuiltinESMExports();`;
/** Code for the command's process that prints the process's peak memory at its end. */
const reporter = 'process.on("exit", () => process._rawDebug("maxRSS=" + process.resourceUsage().maxRSS));';
const preload = `data:text/javascript,${encodeURIComponent(unsynced + reporter)}`;

// Imported only now, after the file system's functions have been replaced.
const { SqliteAdapter } = await import("waymark/adapters/sqlite");
const { openStorage } = await import("waymark/adapters");

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "waymark-memory-"));
try {
  await fromSqlite();
  await fromFiles();
  await fromTasks();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Tests a SQLite store with half of the checkpoints in one task. */
async function fromSqlite() {
  const adapter = new SqliteAdapter({ path: join(folder, "from.db"), durability: "normal" });
  await fill("sqlite:from.db", adapter, CHECKPOINTS, (n) => (n % 2 === 0 ? 0 : n % 499));
  run("sqlite:from.db", ["list", "task-0"]);
  run("sqlite:from.db", ["list", "task-0", "--json"]);
  run("sqlite:from.db", ["export", "--out", "all.ndjson"]);
  run("sqlite:imported.db", ["import", "all.ndjson"]);
  run("sqlite:from.db", ["copy", "--to", "sqlite:copy.db"], identical(CHECKPOINTS));
  run("sqlite:from.db", ["prune", "--all", "--keep-last", "10", "--all-rows", "--dry-run"]);
  run("sqlite:from.db", ["prune", "--all", "--keep-last", "10", "--plan-out", "plan.ndjson"]);
  run("sqlite:from.db", ["prune", "--plan-in", "plan.ndjson", "--yes"]);
  run("sqlite:copy.db", ["prune", "--all", "--keep-last", "10", "--yes"]);
}

/** Tests JSON files. Only a tenth of the checkpoints are in one task, because each save lists its task's folder. */
async function fromFiles() {
  const storage = openStorage("files:from-files", { relativeTo: folder });
  await fill("files:from-files", storage, IN_FILES, (n) => (n % 10 === 0 ? 0 : 1 + (n % 997)));
  run("files:from-files", ["list", "task-0"]);
  run("files:from-files", ["list", "task-0", "--json"]);
  run("files:from-files", ["export", "--out", "files.ndjson"]);
  run("files:from-files", ["copy", "--to", "files:copy-files"], identical(IN_FILES));
}

/** Tests a file per task. Each task has few checkpoints, because each save writes its whole file. */
async function fromTasks() {
  const storage = openStorage("tasks:from-tasks", { relativeTo: folder });
  await fill("tasks:from-tasks", storage, IN_TASKS, (n) => Math.floor(n / PER_TASK_FILE));
  run("tasks:from-tasks", ["tasks", "--json"]);
  run("tasks:from-tasks", ["list", "task-0"]);
  run("tasks:from-tasks", ["export", "--out", "tasks.ndjson"]);
  run("tasks:from-tasks", ["copy", "--to", "tasks:copy-tasks"], identical(IN_TASKS));
}

/** @param {number} count */
function identical(count) {
  return `${count} of ${count} identical\n`;
}

/**
 * @param {string} url
 * @param {import("waymark").StorageAdapter} adapter
 * @param {number} count
 * @param {(n: number) => number} taskOf - Returns the number of the nth checkpoint's task.
 */
async function fill(url, adapter, count, taskOf) {
  const startedMs = Date.now();
  for (let n = 0; n < count; n++) {
    const body = JSON.stringify({ n, filler: "x".repeat(500) });
    await adapter.append({
      taskId: `task-${taskOf(n)}`,
      id: `id-${n}`,
      createdAt: new Date(n * 1000).toISOString(),
      stage: `stage-${n % 7}`,
      label: `After step ${n}`,
      status: "running",
      stateVersion: 1,
      sizeBytes: body.length,
      payload: { encoding: "json", body, sha256: createHash("sha256").update(body).digest("hex") },
    });
  }
  await adapter.close();
  console.log(`${url}: ${count} checkpoints, ${secondsSince(startedMs)} s`);
}

/** @param {string} url @param {string[]} args @param {string} [ending] - The expected end of the output. */
function run(url, args, ending = "") {
  const startedMs = Date.now();
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", preload, join(root, "cli", "bin", "waymark.js"), ...args],
    {
      cwd: folder,
      env: { ...process.env, WAYMARK_STORAGE: url },
      encoding: "utf8",
      maxBuffer: 2 ** 30,
    },
  );
  const [, kilobytes = "none"] = /maxRSS=(\d+)/.exec(stderr) ?? [];
  console.log(`waymark ${args.join(" ")}, ${url}: ${kilobytes} KB at most, ${secondsSince(startedMs)} s`);
  const isRight = status === 0 && stdout !== "" && stdout.endsWith(ending);
  const limit = args[0] === "prune" ? PRUNE_LIMIT_KB : LIMIT_KB;
  if (isRight && Number(kilobytes) <= limit) return;
  console.error(isRight ? `More than ${limit} KB, or not measured.` : `It ended with ${status}: ${stderr}`);
  process.exitCode = 1;
}

/** @param {number} startedMs */
function secondsSince(startedMs) {
  return Math.round((Date.now() - startedMs) / 1000);
}
