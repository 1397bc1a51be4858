// Runs the example as a person would, and kills it at every step. The tests check the ledger and the stored
// checkpoints.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { rehearse } from "waymark/testing";
import { Ledger } from "../../examples/agent/src/ledger.js";
import { agent, Chat } from "../../examples/agent/src/loop.js";
import { model } from "../../examples/agent/src/model.js";
import { toolsOver } from "../../examples/agent/src/tools.js";
import { ranAfterTheirRecord, runKilledAt } from "../support/killed-example.js";
import { runExample } from "../support/run-example.js";
import { tempFolder } from "../support/temp-folder.js";

const root = join(import.meta.dirname, "..", "..");
const example = join(root, "examples", "agent");
const program = [join(example, "dist", "agent.js"), "ann"];
/** A test takes some seconds, and longer on a machine that is busy with other tests. */
const timeout = 300_000;

beforeAll(async () => {
  // The example is always rebuilt, because an existing build may be from older sources.
  await execa("npm", ["run", "build", "-w", "waymark-example-agent"], { cwd: root });
}, timeout);

it("prints what its README shows, in at most 90 columns, each time that it is started", { timeout }, async () => {
  const [, shown = ""] = /```text\n(.*?)```/s.exec(readFileSync(join(example, "README.md"), "utf8")) ?? [];
  for (const _start of [1, 2]) {
    const { exitCode, output } = await runExample([join(example, "dist", "main.js")], { cwd: root }, undefined);
    expect(exitCode, output).toBe(0);
    expect(output.trim()).toBe(shown.trim());
    expect(output.split("\n").filter((line) => line.length > 90)).toEqual([]);
  }
});

it("does everything once, wherever it is killed in or between its steps", { timeout }, async () => {
  const undisturbed = await tempFolder();
  await runKilledAt(program, { folder: undisturbed, env: { AGENT_FOLDER: undisturbed } });
  const expected = await lookAt(undisturbed);
  expect(expected.deeds).toEqual(["reorder  mug", "mail     Ann: a new mug is on its way"]);

  let kills = 0;
  for (let moment = 1; ; moment++) {
    const folder = await tempFolder();
    const env = { AGENT_FOLDER: folder };
    const { isKilled } = await runKilledAt(program, { folder, moment, env });
    if (!isKilled) break;
    kills += 1;
    const { output } = await runKilledAt(program, { folder, env });
    expect(output).toMatch(/^answer A new mug is on its way to Ann\.$/m);
    expect(await lookAt(folder), `killed at moment ${moment}`).toEqual(expected);
    expect(ranAfterTheirRecord(folder), `killed at moment ${moment}`).toEqual([]);
  }
  // The moments are the beginning, the end and the record of six steps, and the saves of turns and answer.
  expect(kills).toBeGreaterThanOrEqual(20);
});

it("returns the same result in a rehearsal, and its tools use their keys", { timeout }, async () => {
  const ledger = new Ledger(":memory:");
  const initialState: Chat = { messages: [{ role: "user", content: "My mug came broken." }] };
  const { problems, ranTwice, result, text } = await rehearse(agent(model, toolsOver(ledger)), {
    schema: Chat,
    initialState,
  });
  ledger.close();
  expect(problems, text).toEqual([]);
  expect(result).toBe("A new mug is on its way to Ann.");
  const tools = ranTwice.filter(({ step }) => !step.startsWith("model"));
  expect(tools.map(({ step, usesKey }) => [step, usesKey]).sort()).toEqual([
    ["find_order c1", true],
    ["mail c3, turn 2", true],
    ["reorder c2, turn 2", true],
  ]);
});

/** Returns the deeds and the task's milestones. */
async function lookAt(folder: string) {
  const ledger = new Ledger(join(folder, "ledger.db"));
  const deeds = ledger.deeds().map(({ what }) => what);
  ledger.close();
  await using manager = new CheckpointManager({
    storage: new SqliteAdapter({ path: join(folder, "agent.db") }),
    schema: Chat,
  });
  const milestones = [];
  for await (const { stage, status, state } of manager.history("ann", { order: "oldest" })) {
    milestones.push({ stage, status, messages: state.messages });
  }
  return { deeds, milestones };
}
