// Workers that are processes of their own, with real signals.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { connect, newStore } from "../adapters/sqlite-support.js";

const PROGRAM = fileURLToPath(new URL("../../fixtures/work-on-sqlite.mjs", import.meta.url));

/** Starts a worker. `line` resolves once it has printed that line. */
function started(path: string, how = "quick") {
  const child = spawn(process.execPath, [PROGRAM, path, how], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const lines: string[] = [];
  const printed = createInterface(child.stdout).on("line", (line) => lines.push(line));
  const line = async (wanted: string) => {
    while (!lines.includes(wanted)) await once(printed, "line");
  };
  const ends = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    return exited;
  };
  return { child, lines, line, ends };
}

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
  const worker = started(path);
  await worker.line("q/2: Run completed");
  expect(await worker.ends("SIGTERM")).toEqual([null, "SIGTERM"]);
  expect(worker.lines.filter((line) => line.startsWith("q/1"))).toEqual(["q/1: CHECKPOINT_CORRUPT"]);
});

it("attempts that are killed while they drain don't count, those that are killed before do", async () => {
  const { adapter, path } = await newStore();
  const manager = new CheckpointManager({ storage: adapter });
  const countDrains = async (taskId: string) => {
    let count = 0;
    for await (const record of manager.records(taskId, { kinds: ["mark"] })) {
      if ("name" in record && record.name === "pausing") count += 1;
    }
    return count;
  };
  const killed = async (taskId: string, drains: boolean) => {
    const drainsBefore = await countDrains(taskId);
    const worker = started(path, "deaf");
    await worker.line(`${taskId} began`);
    if (drains) {
      worker.child.kill("SIGTERM");
      await expect.poll(() => countDrains(taskId)).toBe(drainsBefore + 1);
    }
    expect(await worker.ends("SIGKILL")).toEqual([null, "SIGKILL"]);
  };
  // The worker fails a task after two attempts.
  await manager.enqueue("q/drained");
  for (let n = 0; n < 3; n += 1) await killed("q/drained", true);
  await killed("q/drained", false);
  await killed("q/drained", true);
  const healthy = started(path);
  await healthy.line("q/drained: Run completed");
  expect(await healthy.ends("SIGTERM")).toEqual([null, "SIGTERM"]);

  await manager.enqueue("q/poison");
  for (const drains of [false, true, false]) await killed("q/poison", drains);
  const last = started(path);
  await last.line("q/poison: Run failed");
  expect(await last.ends("SIGTERM")).toEqual([null, "SIGTERM"]);
});
