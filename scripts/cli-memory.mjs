// @ts-check
// `waymark list`, `export`, `import` and `copy` over 100,000 checkpoints stay under 150 MB. Takes minutes: each of 200,000
// records is synced to the disk by itself. Part of `npm run check`; run after `npm run build`.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SqliteAdapter } from "waymark/adapters/sqlite";

const CHECKPOINTS = 100_000;
const LIMIT_KB = 150_000;

/** Loaded into the command's process: tells at its end how much memory it had at most. */
const reporter = `data:text/javascript,${encodeURIComponent(
  'process.on("exit", () => process._rawDebug("maxRSS=" + process.resourceUsage().maxRSS));',
)}`;
const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "waymark-memory-"));
try {
  await fill(join(folder, "from.db"));
  run(["list", "task-0"]);
  run(["list", "task-0", "--json"]);
  run(["export", "--out", "all.ndjson"]);
  run(["import", "all.ndjson", "--storage", "sqlite:imported.db"]);
  run(["copy", "--to", "sqlite:copy.db"], `${CHECKPOINTS} of ${CHECKPOINTS} identical\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Half of them in one task. @param {string} path */
async function fill(path) {
  const adapter = new SqliteAdapter({ path, durability: "normal" });
  for (let n = 0; n < CHECKPOINTS; n++) {
    const body = JSON.stringify({ n, filler: "x".repeat(500) });
    await adapter.append({
      taskId: `task-${n % 2 === 0 ? 0 : n % 499}`,
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
}

/** @param {string[]} args @param {string} [ending] what it must print last */
function run(args, ending = "") {
  const startedMs = Date.now();
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", reporter, join(root, "cli", "bin", "waymark.js"), ...args],
    {
      cwd: folder,
      env: { ...process.env, WAYMARK_STORAGE: "sqlite:from.db" },
      encoding: "utf8",
      maxBuffer: 2 ** 30,
    },
  );
  const [, kilobytes = "none"] = /maxRSS=(\d+)/.exec(stderr) ?? [];
  const seconds = Math.round((Date.now() - startedMs) / 1000);
  console.log(`waymark ${args.join(" ")}: ${kilobytes} KB at most, ${seconds} s`);
  const isRight = status === 0 && stdout !== "" && stdout.endsWith(ending);
  if (isRight && Number(kilobytes) <= LIMIT_KB) return;
  console.error(isRight ? `More than ${LIMIT_KB} KB, or not measured.` : `It ended with ${status}: ${stderr}`);
  process.exitCode = 1;
}
