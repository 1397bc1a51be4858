// The server itself is killed: nothing that was acknowledged is missing, and the writers continue by themselves.
import { execFileSync } from "node:child_process";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { PostgresAdapter } from "waymark/adapters/postgres";
import { type PostgresServer, startPostgres } from "../../examples/two-machines/src/postgres-server.js";
import { draft } from "../../src/conformance/drafts.js";
import { collect } from "../support/postgres.js";

const KILLS = 3;
const WRITERS = 8;

// DATABASE_URL is somebody's server: this test kills one of its own.
it("survives kills (SIGKILL) of the server while eight writers save", { timeout: 300_000 }, async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const adapters = Array.from({ length: WRITERS }, () => new PostgresAdapter({ url: server.url, retryForMs: 120_000 }));
  onTestFinished(async () => void (await Promise.all(adapters.map((adapter) => adapter.close()))));
  const acknowledged = new Map<string, number>();
  let isOver = false;
  let saved = deferredCount();
  const writing = adapters.map(async (adapter, writer) => {
    for (let number = 0; !isOver; number++) {
      const taskId = `task-${writer % 4}`;
      const sequence = await adapter.append(draft(taskId, `w${writer}-${number}`));
      acknowledged.set(`${taskId} w${writer}-${number}`, sequence);
      saved.add();
    }
  });
  for (let kill = 0; kill < KILLS; kill++) {
    await saved.reach(200);
    await killAll(server);
    await server.restart();
    saved = deferredCount();
  }
  await saved.reach(200);
  isOver = true;
  await Promise.all(writing);

  const stored = new Map<string, number>();
  for (const taskId of ["task-0", "task-1", "task-2", "task-3"]) {
    for (const item of await collect(adapters[0]!.list({ taskId, order: "oldest" }))) {
      if ("corrupt" in item) throw new Error(item.reason);
      stored.set(`${taskId} ${item.id}`, item.sequence);
    }
  }
  expect([...stored].sort()).toEqual([...acknowledged].sort());
  expect(await collect(adapters[0]!.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: true }))).toEqual([]);
  process.stdout.write(`postgres: ${KILLS} kills of the server, ${acknowledged.size} saves acknowledged, 0 lost\n`);
});

/** Kills all processes of a server (SIGKILL). */
async function killAll({ pid = 0 }: PostgresServer): Promise<void> {
  const listed = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" });
  const all = [pid, ...listed.split("\n").filter(Boolean).map(Number)];
  for (const one of all) process.kill(one, "SIGKILL");
  // The memory that they share is free once the last has ended; nobody tells of that.
  while (all.some(isRunning)) await nextTurn();
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Counts, and tells when it has come to a number. */
function deferredCount() {
  let count = 0;
  let wake: () => void = () => undefined;
  return {
    add: () => {
      count += 1;
      wake();
    },
    reach: (wanted: number) =>
      new Promise<void>((resolve) => {
        wake = () => {
          if (count >= wanted) resolve();
        };
        wake();
      }),
  };
}
