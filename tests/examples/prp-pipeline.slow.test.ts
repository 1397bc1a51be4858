// Runs `npm start` as a person would: twice, and once more with Ctrl-C in the middle. The tests check the files that it
// leaves as well as its output.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { execa } from "execa";
import { beforeAll, describe, expect, it } from "vitest";
import { type CheckpointData, PrpCheckpointManager } from "waymark/prp";
import { processesIn } from "../support/processes-in.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "prp-pipeline");
/** The environment of npm start, with colours forced on. */
const env = { INIT_CWD: root, CI: "true" };

interface Demonstration {
  readonly exitCode: number | undefined;
  readonly output: string;
  readonly folder: string;
  readonly checkpoints: readonly CheckpointData[];
}

/** A test takes some seconds, and longer on a machine that is busy with other tests. */
const TIMEOUT_MS = 300_000;
const runs: Demonstration[] = [];

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-prp-pipeline"], { cwd: root });
  runs.push(await demonstrate());
  runs.push(await demonstrate());
}, TIMEOUT_MS);

describe("the PRP pipeline example", () => {
  it("can be run again and again, each time in a new folder", () => {
    for (const { exitCode, output } of runs) expect(exitCode, output).toBe(0);
    expect(new Set(runs.map(({ folder }) => folder)).size).toBe(2);
    expect(existsSync(join(example, "project", "src", "report.ts"))).toBe(false);
  });

  it("calls the coder twice: once for the PRP, and once for the mistake that the unit tests find", () => {
    for (const { folder, checkpoints } of runs) {
      expect(coderCalls(folder)).toBe(2);
      const failed = checkpoints.filter(({ state }) => state.validationResults.at(-1)?.success === false);
      expect(failed.map(({ state }) => state.stage)).toEqual(["validation-gate-2"]);
    }
  });

  it("doesn't repeat a gate that had passed before the kill", () => {
    for (const { checkpoints } of runs) {
      expect(gatesByRun(checkpoints)).toEqual([[1, 2, 1, 2, 3, 4], [4]]);
    }
  });

  it("resumes a PRP whose boxes the coder has ticked, only in the run's copy", () => {
    for (const { output, folder, checkpoints } of runs) {
      const text = readFileSync(join(folder, "PRP.md"), "utf8");
      expect(text.match(/^- \[.\]/gm)).toEqual([...Array(5).fill("- [x]"), "- [ ]", "- [ ]"]);
      expect(text.replaceAll("- [x]", "- [ ]")).toBe(readFileSync(join(example, "PRP.md"), "utf8"));
      expect(output).toMatch(/^ +the PRP +5 of the 7 boxes /m);
      expect(output).toMatch(/^ +↻ validation-gate-3 +resumes from here$/m);
      expect(checkpoints.at(-1)?.state.validationResults[2]?.command).toMatch(/^cd dist && node /);
    }
  });

  it("saves a checkpoint at every point, and draws a timeline of them with the kill and the resume", () => {
    for (const { output, checkpoints } of runs) {
      const stages = checkpoints.map(({ state }) => state.stage);
      expect(stages).toEqual([
        "pre-execution",
        "coder-response",
        "validation-gate-1",
        "validation-gate-2",
        "coder-response",
        "validation-gate-1",
        "validation-gate-2",
        "validation-gate-3",
        "validation-gate-3",
        "validation-gate-4",
        "complete",
      ]);
      const drawn = [...output.matchAll(/^ +\d+\.\d s {2}(\S) (\S+) /gm)].map(
        ([, symbol, name]) => `${symbol} ${name}`,
      );
      const marks = ["●", "✎", "✓", "✗", "✎", "✓", "✓", "✓", "↻", "✓", "■"];
      const expected = stages.map((stage, index) => `${marks[index]} ${stage}`);
      expect(drawn).toEqual(expected.toSpliced(8, 0, "╳ SIGKILL"));
    }
  });

  it("leaves no process behind", () => {
    for (const { output, folder } of runs) {
      expect(output).toMatch(/^ +left behind +nothing: gate 4 \(process \d+\) has ended with it$/m);
      expect(processesIn(folder)).toEqual([]);
    }
  });

  it("ends with the command that shows its checkpoints in a browser", async () => {
    for (const { output, folder } of runs) {
      const [, command] = /^ {2}npx (waymark ui .+)$/m.exec(output) ?? expect.fail(output);
      // In the repository, this file stands in for `npx waymark`.
      const [, ...args] = command!.split(" ");
      const page = execa("node", ["bin/waymark.js", ...args, "--no-open"], { cwd: root, reject: false });
      const [printed] = await once(page.stdout, "data");
      const url = new URL(/http:\S+/.exec(String(printed))?.[0] ?? expect.fail(String(printed)));
      const token = url.hash.slice("#token=".length);
      const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
      const request = { method: "POST", headers, body: JSON.stringify({ taskId: "P1.M1.T2.S1" }) };
      expect(await (await fetch(new URL("/api/task", url), request)).json()).toMatchObject({
        task: { status: "completed", count: (await checkpointsIn(folder)).length },
      });
      page.kill("SIGINT");
      expect((await page).signal).toBe("SIGINT");
    }
  });

  it("writes plain text into a pipe, and no line is longer than a terminal", () => {
    for (const { output } of runs) {
      expect(output).not.toContain("\u001b");
      expect(output.split("\n").filter((line) => line.length > 80)).toEqual([]);
    }
  });

  it(
    "stops at Ctrl-C, ends running work, and prints how to continue",
    async () => {
      const demonstration = spawn(process.execPath, [join(example, "dist", "main.js")], {
        cwd: root,
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "inherit"],
      });
      const exit = once(demonstration, "exit");
      let output = "";
      for await (const line of createInterface({ input: demonstration.stdout })) {
        output += `${line}\n`;
        if (line.includes("✎ coder-response")) demonstration.kill("SIGINT");
      }

      expect(await exit).toEqual([130, null]);
      const folder = folderIn(output);
      const paused = await checkpointsIn(folder);
      expect(processesIn(folder)).toEqual([]);
      expect(paused.at(-1)?.label).toMatch(/^Paused: /);

      const command = output.trim().split("\n").at(-1)?.trim() ?? "";
      expect((await execa(command, { cwd: root, shell: true, reject: false })).exitCode).toBe(0);
      expect((await checkpointsIn(folder)).at(-1)?.state.stage).toBe("complete");
      expect(coderCalls(folder)).toBe(2);
    },
    TIMEOUT_MS,
  );
});

async function demonstrate(): Promise<Demonstration> {
  const main = join(example, "dist", "main.js");
  const { exitCode, all: output } = await execa("node", [main], { cwd: root, env, all: true, reject: false });
  const folder = folderIn(output);
  return { exitCode, output, folder, checkpoints: await checkpointsIn(folder) };
}

function folderIn(output: string): string {
  const [, path] = /^ {2}\$ node \S+ (\S+)$/m.exec(output) ?? expect.fail(`no command in:\n${output}`);
  return join(root, path!);
}

async function checkpointsIn(folder: string): Promise<CheckpointData[]> {
  await using manager = new PrpCheckpointManager(join(folder, "session"));
  return await manager.listCheckpoints("P1.M1.T2.S1");
}

function coderCalls(folder: string): number {
  return readFileSync(join(folder, "coder.log"), "utf8").trimEnd().split("\n").length;
}

/** Returns the levels that each run has started, in order, from the checkpoints that name them. */
function gatesByRun(checkpoints: readonly CheckpointData[]): number[][] {
  const resumedAt = checkpoints.findIndex(({ label }) => label.startsWith("Resumed: "));
  return [checkpoints.slice(0, resumedAt), checkpoints.slice(resumedAt)].map((run) =>
    run.flatMap(({ state }) => state.waymark?.work?.level ?? []),
  );
}
