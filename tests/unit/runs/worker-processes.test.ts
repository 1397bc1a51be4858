// Tests workers in separate processes with real signals.
import { expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { connect, newStore } from "../adapters/sqlite/support.js";
import { startWorker } from "./worker-process.js";

const DAMAGE = `UPDATE waymark_payloads SET body = '{"x' WHERE number = (SELECT max(number) FROM waymark_checkpoints)`;
const STILL_DUE = "UPDATE waymark_tasks SET due_at = newest_created_at";

it.each([
  ["whose newer record is damaged", DAMAGE],
  ["that is still in the list of due tasks", STILL_DUE],
])("a worker tells of a completed task %s, runs the next one, and hears SIGTERM", async (_, sql) => {
  const { adapter, path } = await newStore();
  const manager = new CheckpointManager({ storage: adapter });
  await manager.run("q/1", async (run) => (run.state === undefined ? run.next({ n: 1 }) : 1));
  const [first] = await manager.list("q/1", { order: "oldest" });
  if (sql === DAMAGE) await manager.rewind("q/1", first!.id);
  connect(path).exec(sql);
  await manager.enqueue("q/2");
  const worker = startWorker(path);
  await worker.line("q/2: Run completed");
  expect(await worker.ends("SIGTERM")).toEqual([null, "SIGTERM"]);
  expect(worker.lines.filter((line) => line.startsWith("q/1"))).toEqual(["q/1: CHECKPOINT_CORRUPT"]);
});
