// Tests pauseOnSignal: a signal to the process pauses its runs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { tempFolder } from "../../support/temp-folder.js";
import { managerOn, runOf } from "./run-support.js";

const PROGRAM = fileURLToPath(new URL("../../fixtures/run-until-signal.mjs", import.meta.url));

/** Starts the program, sends it a signal once enough runs wait, and returns how the program ended. */
async function signalled(how: string, runs: number, signal: NodeJS.Signals) {
  const path = await tempFolder();
  const child = spawn(process.execPath, [PROGRAM, path, how], { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const exited = once(child, "exit");
  let ready = 0;
  for await (const line of createInterface(child.stdout)) {
    if (line !== "ready") lines.push(line);
    else if (++ready === runs) child.kill(signal);
  }
  const [code, endedBy] = await exited;
  return { manager: managerOn(new JsonFileAdapter({ path })).manager, lines, code, endedBy };
}

it.each([
  ["SIGINT", "two", 2],
  ["SIGTERM", "two", 2],
  ["SIGHUP", "two", 2],
  ["SIGINT", "nested", 1],
] as const)(
  "%s pauses the runs (%s), frees their leases, and ends the process as without Waymark",
  async (signal, how, waiting) => {
    const { manager, lines, code, endedBy } = await signalled(how, waiting, signal);
    expect({ lines, code, endedBy }).toEqual({ lines: [], code: null, endedBy: signal });
    for (const taskId of ["one", "two"]) {
      expect(await manager.latest(taskId)).toMatchObject({ status: "paused" });
      expect(await runOf(manager, taskId)).toMatchObject({ steps: [{ name: "first" }] });
      expect(await manager.leaseOf(taskId)).toBeUndefined();
    }
  },
);

it("a program that listens to the signal itself gets the RunPausedError, and decides", async () => {
  const { manager, lines, code } = await signalled("own-listener", 1, "SIGTERM");
  expect(lines).toEqual(["heard", "RUN_PAUSED"]);
  expect(code).toBe(7);
  expect(await manager.latest("one")).toMatchObject({ status: "paused" });
});
