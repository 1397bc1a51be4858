// @ts-check
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { bundled } from "../tests/support/bundled.mjs";
import { medians } from "./compare.mjs";
import { printHeading, printRow } from "./report.mjs";
import { benchPage } from "./ui-page.mjs";

const TASKS = 100_000;
const AT_ONCE = 1_000;
const ROUNDS = 20;
const WAYMARK = fileURLToPath(new URL("../cli/bin/waymark.js", import.meta.url));
const STATUSES = /** @type {const} */ (["running", "paused", "completed", "failed"]);
const STAGES = ["plan", "build", "test"];

/**
 * Measures how long the server of `waymark ui` takes to answer over HTTP with 100,000 tasks.
 *
 * @param {string} folder
 */
export async function benchUi(folder) {
  await benchOn("SQLite", `sqlite:${join(folder, "ui.db")}`);
  const given = process.env["DATABASE_URL"];
  const server = given
    ? undefined
    : await (await import(await bundled("examples/two-machines/src/postgres-server.ts"))).startPostgres();
  const schema = `bench_${randomUUID().replaceAll("-", "_")}`;
  try {
    const url = new URL(given ?? server.url);
    url.searchParams.set("schema", schema);
    await benchOn("PostgreSQL", url.href);
  } finally {
    if (given !== undefined) await dropSchema(given, schema);
    await server?.stop();
  }
}

/**
 * @param {string} name
 * @param {string} url
 */
async function benchOn(name, url) {
  console.log(`\nFilling ${name} with ${TASKS.toLocaleString("en")} tasks …`);
  await fill(url);
  const page = await openPage(url);
  try {
    printHeading(`waymark ui: ${name}, 100,000 tasks`);
    const list = { order: "recent", offset: 0, limit: 200 };
    /** @param {object} more */
    const tasks = (more) => () => page.ask("tasks", { ...list, ...more });
    const { first, byStatus, byPrefix, both, narrow, byId, task } = await medians(
      {
        first: tasks({}),
        byStatus: tasks({ status: ["failed"], limit: 50 }),
        byPrefix: tasks({ prefix: "tenant-7/", limit: 50 }),
        both: tasks({ status: ["interrupted", "paused"], prefix: "tenant-7/", limit: 50 }),
        narrow: tasks({ prefix: "tenant-7/build-000", limit: 50 }),
        byId: tasks({ order: "taskId" }),
        task: () => page.ask("task", { taskId: "tenant-7/build-50007" }),
      },
      { rounds: ROUNDS },
    );
    printRow({ what: "tasks: the first 200, the last saved first", measuredMs: first, limit: 200 });
    printRow({ what: "tasks: the first 200 by id", measuredMs: byId, limit: 200 });
    printRow({ what: "tasks: 50 that failed", measuredMs: byStatus, limit: 50 });
    printRow({ what: "tasks: 50 of 2,000 with a prefix", measuredMs: byPrefix, limit: 50 });
    printRow({ what: "tasks: 50 interrupted or paused with a prefix", measuredMs: both, limit: 50 });
    printRow({ what: "tasks: with a prefix that few have", measuredMs: narrow, limit: 50 });
    printRow({ what: "task: one of them", measuredMs: task, limit: 50 });
    const start = performance.now();
    await page.ask("counts", {});
    printRow({ what: "counts: all tasks by status", measuredMs: performance.now() - start });
    await benchPage(page.address);
    console.log(`The server takes ${page.megabytes()} MB.`);
  } finally {
    await page.close();
  }
}

/** @param {string} url */
async function fill(url) {
  const manager = new CheckpointManager({ storage: openStorage(url) });
  for (let from = 0; from < TASKS; from += AT_ONCE) {
    const saves = Array.from({ length: AT_ONCE }, (_, at) => {
      const n = from + at;
      const status = STATUSES[(n * 7 + (n >> 3)) % STATUSES.length];
      const taskId = `tenant-${n % 50}/build-${String(n).padStart(5, "0")}`;
      return manager.save(taskId, { n }, { stage: STAGES[n % STAGES.length], status });
    });
    await Promise.all(saves);
  }
  await manager.close();
}

/** @param {string} url */
async function openPage(url) {
  const child = spawn(process.execPath, [WAYMARK, "ui", "--no-open", "--storage", url], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = await once(createInterface(child.stdout), "line");
  const { origin, hash } = new URL(line);
  const headers = { Authorization: `Bearer ${new URLSearchParams(hash.slice(1)).get("token")}` };
  return {
    address: String(line),
    /**
     * @param {string} name
     * @param {object} request
     */
    async ask(name, request) {
      const response = await fetch(`${origin}/api/${name}`, { method: "POST", headers, body: JSON.stringify(request) });
      if (!response.ok) throw new Error(await response.text());
      return response.json();
    },
    megabytes() {
      const [, kilobytes = ""] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8")) ?? [];
      return Math.round(Number(kilobytes) / 1024);
    },
    async close() {
      child.kill("SIGINT");
      await once(child, "close");
    },
  };
}

/**
 * @param {string} url
 * @param {string} schema
 */
async function dropSchema(url, schema) {
  const client = new pg.Client(url);
  await client.connect();
  await client.query(`DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`);
  await client.end();
}
