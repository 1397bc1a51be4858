// Storages with runs that were killed, failed, rewound, cancelled or that wait.
import { join } from "node:path";
import { execa } from "execa";
import { onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { deferred } from "../../support/deferred.js";
import { tempFolder } from "../../support/temp-folder.js";
import type { Place } from "../waymark.js";

const root = join(import.meta.dirname, "..", "..", "..");
const RELEASE = join(root, "tests", "fixtures", "release-until-killed.mjs");

/** The checkpoints that the example of `npm start` leaves. */
export async function exampleStore(): Promise<Place> {
  await execa("npm", ["run", "build", "-w", "waymark-example-prp-pipeline"], { cwd: root });
  const main = join(root, "examples", "prp-pipeline", "dist", "main.js");
  const { all } = await execa("node", [main], { cwd: root, env: { INIT_CWD: root, CI: "true" }, all: true });
  const [, folder = ""] = /^ {2}\$ node \S+ (\S+)$/m.exec(all) ?? [];
  return { cwd: root, env: { WAYMARK_STORAGE: `tasks:${join(folder, "session", "artifacts")}` } };
}

/** A release that was killed and then failed, an import with a rewind, and some others. */
export async function releaseStore(): Promise<Place> {
  const cwd = await tempFolder();
  const path = join(cwd, "checkpoints.db");
  for (const attempt of ["1", "2"]) await execa("node", [RELEASE, path, attempt], { reject: false });
  let nowMs = Date.UTC(2026, 10, 23, 2);
  const storage = openStorage(`sqlite:${path}`);
  await using manager = new CheckpointManager({ storage, ownsStorage: true, clock: () => nowMs });
  for (let batch = 1; batch <= 16; batch += 1) {
    nowMs += 60_000 + ((batch * 7919) % 240_000);
    if (batch === 11) {
      const seventh = (await manager.list("nightly-import")).find(({ sequence }) => sequence === 7);
      if (seventh) await manager.rewind("nightly-import", seventh.id);
      continue;
    }
    const rows = Array.from({ length: batch * 3 }, (_, row) => ({ row, amount: (row * 7919) % 1000 }));
    await manager.save(
      "nightly-import",
      { batch, rows, source: "s3://exports/2026-11-23.csv" },
      { stage: `batch ${batch}` },
    );
  }
  nowMs = Date.UTC(2026, 10, 24, 12);
  await manager.save("release-4.1", { version: "4.1.0" }, { stage: "published", status: "completed" });
  await manager.save("docs-site", { pages: 48 }, { stage: "links", label: "Links are checked", status: "paused" });
  await manager.save("agent/ann", { turn: 12 }, { stage: "turn" });
  return { cwd, env: { WAYMARK_STORAGE: `sqlite:${path}` } };
}

/**
 * A worker's refunds: one is cancelled, one waits, and one runs until the end of the test, so that another one is due.
 */
export async function workOnRefunds(place: Place): Promise<void> {
  const manager = await managerOf(place);
  const isPaid = deferred<void>();
  const stopping = new AbortController();
  const options = { prefix: "refund/", signal: stopping.signal, leaseOptions: { holder: "worker-2" } };
  const working = manager.work(options, async (run) => {
    await run.step("read the order", () => ({ order: run.input, isPaid: true }));
    if (run.taskId !== "refund/2288") await run.waitFor("approve", { timeoutMs: 3 * 24 * 3_600_000 });
    await run.step("pay back", () => isPaid.promise);
  });
  onTestFinished(async () => {
    stopping.abort();
    isPaid.resolve();
    await working;
    await manager.close();
  });
  for (const order of [2280, 2291, 2288]) {
    const stands = new Promise<void>((resolve) => {
      manager.on("runPaused", () => resolve());
      manager.on("stepStarted", ({ step }) => step === "pay back" && resolve());
    });
    await manager.enqueue(`refund/${order}`, { order, euros: 412 });
    await stands;
  }
  await manager.cancel("refund/2280", "The customer keeps it");
  await manager.send("refund/2291", "note", { text: "Asked the warehouse" }, { by: "ada@example.org" });
  await manager.enqueue("refund/2295", { order: 2295, euros: 80 });
}

export async function managerOf({ env }: Place): Promise<CheckpointManager> {
  return new CheckpointManager({ storage: openStorage(String(env?.["WAYMARK_STORAGE"])), ownsStorage: true });
}
