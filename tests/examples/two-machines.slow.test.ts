// Runs the example as a person would: on a user's database, on the server that it starts, and with Ctrl-C. The tests
// check the stored checkpoints and remaining processes as well as the output.
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { collect, newSchema, openAdapter } from "../support/postgres.js";
import { processesIn } from "../support/processes-in.js";
import { runExample } from "../support/run-example.js";
import { tempFolder } from "../support/temp-folder.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "two-machines");
const RESULTS = ["step 1, by A", "step 2, by A", "step 3, by B", "step 4, by B", "step 5, by A", "step 6, by A"];
/** A test takes some seconds, and longer on a machine that is busy with other tests. */
const timeout = 300_000;

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-two-machines"], { cwd: root });
}, timeout);

it("hands the task from machine to machine; no result is lost or stored twice", { timeout }, async () => {
  const place = await newSchema();
  const { exitCode, output } = await demonstrate(await tempFolder(), place);
  expect(exitCode, output).toBe(0);

  const adapter = openAdapter(place);
  const manager = new CheckpointManager({ storage: adapter, ownsStorage: false });
  const tasks = await manager.tasks();
  expect(tasks).toMatchObject([{ count: 6, newest: { status: "completed" } }]);
  const [{ taskId }] = tasks as [(typeof tasks)[number]];
  const states = (await collect(manager.history(taskId, { order: "oldest" }))).map(({ state }) => state);
  expect(states).toEqual(RESULTS.map((_result, index) => RESULTS.slice(0, index + 1)));
  // Three workers have claimed the task, and the last of them has released it.
  expect(await adapter.leases.claim(taskId, "test", 1000)).toMatchObject({ isGranted: true, token: 4 });
});

it("prints what its README shows, and leaves nothing of the server that it starts", { timeout }, async () => {
  const folder = await tempFolder();
  const { exitCode, output } = await demonstrate(folder);
  expect(exitCode, output).toBe(0);
  const [, shown = ""] = /```text\n(.*?)```/s.exec(readFileSync(join(example, "README.md"), "utf8")) ?? [];
  expect(withoutTimes(output)).toEqual(withoutTimes(shown));
  expect(output).not.toContain("\u001b");
  expect(output.split("\n").filter((line) => line.length > 80)).toEqual([]);
  expect([readdirSync(folder), processesIn(folder)]).toEqual([[], []]);
});

it("leaves no process and no file after Ctrl-C while a worker is stopped", { timeout }, async () => {
  const folder = await tempFolder();
  const { exitCode, output } = await demonstrate(folder, undefined, "‖ stopped");
  expect(exitCode, output).toBe(130);
  expect([readdirSync(folder), processesIn(folder)]).toEqual([[], []]);
});

it("leaves no process and no checkpoint in a user's database after Ctrl-C", { timeout }, async () => {
  const [folder, place] = [await tempFolder(), await newSchema()];
  const { exitCode, output } = await demonstrate(folder, place, "step 2 saved");
  expect(exitCode, output).toBe(130);
  expect(processesIn(folder)).toEqual([]);
  expect(await collect(openAdapter(place).tasks({ order: "taskId" }))).toEqual([]);
});

/**
 * Runs the demonstration from its start to its end. Sends SIGINT at the first line that contains `interruptedAt`.
 *
 * @param folder - The processes' working folder and their folder for temporary files.
 */
async function demonstrate(
  folder: string,
  place?: { readonly url: string; readonly schema: string },
  interruptedAt?: string,
) {
  // If the example runs as root, it starts its server as another user, who must be able to enter the folder.
  chmodSync(folder, 0o755);
  const url = place && new URL(place.url);
  url?.searchParams.set("schema", place?.schema ?? "");
  const program = [join(example, "dist", "main.js")];
  const options = {
    cwd: folder,
    env: { ...process.env, TMPDIR: folder, DATABASE_URL: url?.href },
  };
  return runExample(program, options, interruptedAt);
}

/** Removes times and waits, which differ from run to run. */
function withoutTimes(output: string): string[] {
  const lines = output.trim().split("\n");
  return lines.filter((line) => !line.includes("waits:")).map((line) => line.replace(/^ +\d+\.\d s/, ""));
}
