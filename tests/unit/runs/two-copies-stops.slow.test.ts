// Tests two copies of the package in one process, such as a globally installed `waymark work` and a project's copy.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { tempFolder } from "../../support/temp-folder.js";
import { newStore } from "../adapters/sqlite/support.js";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PROGRAM = join(ROOT, "tests/fixtures/work-with-two-copies.mjs");

/** Makes a copy of the built package with its own better-sqlite3. */
async function anotherCopy(): Promise<string> {
  const packages = join(await tempFolder(), "node_modules");
  await mkdir(packages);
  for (const name of await readdir(join(ROOT, "node_modules"))) {
    const [from, to] = [join(ROOT, "node_modules", name), join(packages, name)];
    if (name === "better-sqlite3")
      await cp(from, to, { recursive: true, filter: (file) => !/[/\\](deps|src)$/.test(file) });
    else if (name !== "waymark") await symlink(from, to);
  }
  const copy = join(packages, "waymark");
  await cp(join(ROOT, "dist"), join(copy, "dist"), { recursive: true });
  await cp(join(ROOT, "package.json"), join(copy, "package.json"));
  return copy;
}

async function twoCopies() {
  const [copy, { adapter, path }] = await Promise.all([anotherCopy(), newStore()]);
  const manager = new CheckpointManager({ storage: adapter });
  await manager.enqueue("q/t");
  const started = (how: "waiting" | "listening" | "quick") => {
    const child = spawn(process.execPath, [PROGRAM, path, copy, how], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const exited = once(child, "exit");
    const lines: string[] = [];
    const printed = createInterface(child.stdout).on("line", (line) => lines.push(line));
    const line = async (wanted: string) => {
      while (!lines.includes(wanted)) await once(printed, "line");
    };
    const ended = (signal: NodeJS.Signals) => {
      child.kill(signal);
      return exited;
    };
    return { lines, line, ended };
  };
  return { manager, started };
}

const WHOLE = ["worker runs q/t", "child run, 1 SQLite", "q/t is done"];

it.each(["waiting", "listening"] as const)(
  "SIGTERM pauses a run and the %s run of another copy within it, ends the process, and both continue",
  async (how) => {
    const { manager, started } = await twoCopies();
    const first = started(how);
    await first.line("child run, 1 SQLite");
    expect(await first.ended("SIGTERM")).toEqual([null, "SIGTERM"]);
    for (const taskId of ["q/t", "q/t/inner"]) expect(await manager.latest(taskId)).toMatchObject({ status: "paused" });

    const second = started("quick");
    await second.line("q/t is done");
    expect(await second.ended("SIGTERM")).toEqual([null, "SIGTERM"]);
    expect(second.lines).toEqual(WHOLE);
  },
);

it("after SIGKILL, a worker leaves the run of another copy to the run around it", async () => {
  const { manager, started } = await twoCopies();
  const first = started("waiting");
  await first.line("child run, 1 SQLite");
  expect(await first.ended("SIGKILL")).toEqual([null, "SIGKILL"]);
  expect((await manager.queue({ prefix: "q/" })).tasks).toBe(1);

  const second = started("quick");
  await second.line("q/t is done");
  expect(await second.ended("SIGTERM")).toEqual([null, "SIGTERM"]);
  expect(second.lines).toEqual(WHOLE);
});

it("a run is paused, not failed, if a run of another copy within it can't continue", async () => {
  const { manager, started } = await twoCopies();
  await using _lease = await manager.lease("q/t/inner");
  const worker = started("quick");
  await worker.line("q/t: RUN_PAUSED");
  expect(await worker.ended("SIGTERM")).toEqual([null, "SIGTERM"]);
  expect(await manager.latest("q/t")).toMatchObject({ status: "paused" });
});
