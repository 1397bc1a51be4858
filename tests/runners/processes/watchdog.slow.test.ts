import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { describe, expect, it, onTestFinished } from "vitest";
import { bundled } from "../../support/bundled.mjs";
import { tempFolder } from "../../support/temp-folder.js";
import { LifeLine, run, WatchedSink } from "./processes.js";

const RUNNER = fileURLToPath(await bundled("tests/fixtures/processes/run-until-killed.mjs"));

/**
 * Runs a command in a process of its own. The command's processes hold `$alive` open for writing as long as they live.
 */
async function spawnRunner(command: string, killGraceMs = 30_000) {
  const alive = await LifeLine.create();
  const args = [RUNNER, `exec 9>${alive.path}; ${command}`, String(killGraceMs)];
  const runner = execa(process.execPath, args, { reject: false });
  const output = new WatchedSink();
  runner.stdout.on("data", (chunk: Buffer) => output.write(chunk));
  onTestFinished(() => void runner.kill("SIGKILL"));
  return { runner, output, alive };
}

describe("a runner that dies takes its command with it", () => {
  it.each(["SIGKILL", "SIGTERM", "SIGHUP"] as const)(
    "by %s, with every process that the command has started",
    async (signal) => {
      const { runner, output, alive } = await spawnRunner("sleep 1000 & sh -c 'echo ready; sleep 1000' & wait");
      await output.until(/ready/);
      runner.kill(signal);

      expect((await runner).signal).toBe(signal);
      await alive.closed;
    },
  );

  it("also if the command ignores SIGTERM: then by SIGKILL, after the grace", async () => {
    const { runner, output, alive } = await spawnRunner("trap '' TERM; echo ready; sleep 1000; sleep 1000", 40);
    await output.until(/ready/);
    runner.kill("SIGKILL");

    await alive.closed;
  });

  it("but leaves it the grace to end well", async () => {
    const folder = await tempFolder();
    const { runner, output, alive } = await spawnRunner(
      `trap 'echo well > ${folder}/ended; exit' TERM; sh -c 'echo ready; exec sleep 1000' & wait`,
    );
    await output.until(/ready/);
    runner.kill("SIGKILL");

    await alive.closed;
    expect(await readFile(join(folder, "ended"), "utf8")).toBe("well\n");
  });

  it("also if the leader of the command's group was killed before it", async () => {
    const { runner, output, alive } = await spawnRunner("sleep 1000 & echo $$; wait");
    const leader = await output.until(/(\d+)/);
    // The watchdog doesn't notice the leader's end.
    runner.kill("SIGSTOP");
    process.kill(Number(leader), "SIGKILL");
    runner.kill("SIGKILL");

    await alive.closed;
  });

  it("even while the command's leftovers are being ended", async () => {
    const folder = await tempFolder();
    const left = "trap 'echo told to end' TERM; echo > begun; while :; do sleep 1000; done";
    const command = `cd ${folder}; mkfifo begun; (${left}) & read line < begun`;
    const { runner, output, alive } = await spawnRunner(command, 400);
    await output.until(/told to end/);
    runner.kill("SIGKILL");

    await alive.closed;
  });
});

describe("a watchdog", () => {
  it("outlives a signal that the command sends to its own group", async () => {
    const { result } = run("trap '' TERM HUP INT; kill -TERM 0; kill -HUP 0; kill -INT 0; echo fine");

    expect(await result).toMatchObject({ exitCode: 0, stdout: "fine\n" });
  });

  it.runIf(process.platform === "linux")(
    "that is killed takes the command with it: nobody would end it with the runner (needs /proc to find it)",
    async () => {
      const { stdout, result } = run("sleep 1000 & echo ready; wait");
      await stdout.until(/ready/);
      for (const pid of readdirSync("/proc").filter(isOurWatchdog)) process.kill(Number(pid), "SIGKILL");

      expect(await result).toMatchObject({ exitCode: null });
    },
  );
});

function isOurWatchdog(pid: string): boolean {
  try {
    const parent = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ")[1];
    return Number(parent) === process.pid && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("waymark-watchdog");
  } catch {
    return false;
  }
}
