// The command on idle threads of LangGraph, and copies of threads.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { encrypt } from "waymark";
import { stopClock } from "../support/stopped-clock.js";
import { agentOn, answers, fill, saverOn, thread } from "./langgraph-agent.js";
import { served } from "./ui/served.js";
import { newPlace } from "./waymark.js";

const URL = "sqlite:agent.db";
const DAY_MS = 86_400_000;

let filled: Promise<Buffer> | undefined;

/** A database with three threads, one of which is done. It is made once, because that takes long. */
async function fillDatabase(): Promise<Buffer> {
  const { cwd, manager } = await newPlace(URL);
  await manager.save("build-42", "a state");
  await manager.close();
  const saver = saverOn(cwd, URL);
  await fill(saver);
  await saver.close();
  return readFileSync(join(cwd, "agent.db"));
}

/** Three threads of 31 days ago, one of which is done, and one of now. */
async function placeWithThreads() {
  filled ??= fillDatabase();
  const place = await newPlace(URL);
  writeFileSync(join(place.cwd, "agent.db"), await filled);
  const saver = saverOn(place.cwd, URL);
  const clock = stopClock();
  clock.pass(31 * DAY_MS);
  await agentOn(saver).invoke({ log: ["new"] }, thread("new"));
  const idsOf = async () => (await saver.threads()).map(({ id }) => id).sort();
  const prune = (...args: string[]) => place.run("langgraph", "prune", ...args);
  return { ...place, saver, clock, idsOf, prune };
}

describe("waymark show of a thread", () => {
  it("shows a whole pending write that contains its checkpoint's values", async () => {
    const { run, cwd } = await newPlace(URL);
    const saver = saverOn(cwd, URL);
    const log = Array.from({ length: 100 }, (_, line) => `line ${line} of a log`);
    const send = { lg_name: "Send", node: "tool", args: { log: [...log, "the newest"] } };
    const checkpoint = { ...emptyCheckpoint(), channel_values: { log }, channel_versions: { log: 1 } };
    const config = await saver.put(thread("t"), checkpoint, { source: "loop", step: 0, parents: {} }, { log: 1 });
    await saver.putWrites(config, [["__pregel_tasks", send]], "task");
    const { state } = JSON.parse((await run("show", "t", "--json")).stdout);
    expect(state.pendingWrites).toEqual([{ taskId: "task", channel: "__pregel_tasks", value: send }]);
    const { stdout } = await run("export", "t");
    const [write] = stdout.split("\n").filter((line) => line.includes('"kind":"step"'));
    expect(JSON.parse(write ?? "").record.payload.body).toMatch(/"marks":\{"[0-9a-f]{64}":"log"\}/);
  });
});

it("the page counts each thread under the status that its list shows", async () => {
  const { cwd } = await placeWithThreads();
  const page = await served(URL, { cwd });
  const { tasks } = await page.ask("tasks", { order: "taskId", offset: 0, limit: 10 });
  const statuses = tasks.map(({ name, status }) => [name, status]);
  expect(statuses).toEqual(
    expect.arrayContaining([
      ["waits", "waiting"],
      ["done", "completed"],
    ]),
  );
  const { byStatus } = await page.ask("counts", {});
  const counted = Object.entries(byStatus).flatMap(([status, count]) => Array<string>(count).fill(status));
  expect(counted.sort()).toEqual(tasks.map(({ status }) => status).sort());
});

describe("waymark langgraph prune", () => {
  it("shows the idle threads with --dry-run, and removes them after yes", async () => {
    const { prune, idsOf, manager } = await placeWithThreads();
    const dry = await prune("--idle", "30d", "--dry-run");
    expect([dry.code, dry.stderr]).toEqual([0, ""]);
    const rows = dry.stdout.split("\n").map((line) => line.split(/ {2,}/));
    expect(rows[0]).toEqual(["PLAN", "THREAD", "CHECKPOINTS", "STATUS", "WRITTEN", "SIZE"]);
    expect(rows.slice(1, 4).map((row) => row.filter((_, i) => i !== 5))).toEqual([
      ["remove", "branched", "7", "running", "31 days ago"],
      ["remove", "done", "9", "completed", "31 days ago"],
      ["remove", "waits", "6", "paused", "31 days ago"],
    ]);
    expect(dry.stdout).toMatch(
      /\n3 threads \(22 checkpoints, [\d.]+ KiB\) would go\.\nThese are bytes of whole states\./,
    );
    expect(await idsOf()).toHaveLength(4);

    expect(await prune("--idle", "30d")).toMatchObject({ code: 4, stderr: expect.stringContaining("Pass --yes") });
    const { code, stdout } = await prune("--idle", "30d", "--yes");
    expect([code, stdout]).toEqual([0, expect.stringMatching(/Removed 3 threads \(22 checkpoints, .*\)\.\n$/)]);
    expect(await idsOf()).toEqual(["new"]);
    expect(await manager.has("build-42")).toBe(true);
    expect((await prune("--idle", "30d", "--yes")).stdout).toBe("0 threads (0 checkpoints, 0 B) would go.\n");
  });

  it("accepts a status and a prefix, and prints JSON for programs", async () => {
    const { prune, idsOf } = await placeWithThreads();
    const { threads } = JSON.parse((await prune("--status", "paused", "--dry-run", "--json")).stdout);
    expect(threads).toMatchObject([
      { id: "new", status: "paused", stage: "loop", checkpoints: 6, bytes: expect.any(Number) },
      { id: "waits", writtenAt: expect.stringMatching(/Z$/) },
    ]);
    const removed = await prune("--idle", "1w", "--prefix", "d", "--yes", "--json");
    expect(JSON.parse(removed.stdout)).toEqual({ threads: 1, checkpoints: 9, bytes: expect.any(Number), kept: [] });
    expect(await idsOf()).toEqual(["branched", "new", "waits"]);
  });

  it("keeps a thread that a process runs under its lease", async () => {
    const { prune, idsOf, saver } = await placeWithThreads();
    await using _lease = await saver.lease("waits");
    const { code, stderr } = await prune("--idle", "30d", "--yes");
    expect([code, stderr]).toEqual([0, expect.stringContaining("1 thread kept, because a program")]);
    expect(await idsOf()).toEqual(["new", "waits"]);
  });

  it.each(["--dry-run", "--idle soon", "--status asleep"])("refuses %s as wrong usage", async (args) => {
    const { run, manager } = await newPlace(URL);
    await manager.save("build-42", "a state");
    expect((await run("langgraph", "prune", ...args.split(" "))).code).toBe(2);
  });
});

describe("waymark prune --all", () => {
  it("reports that it leaves threads out, and which command removes them", async () => {
    const { run, idsOf } = await placeWithThreads();
    const { code, stderr } = await run("prune", "--all", "--keep-last", "1", "--yes");
    expect(code).toBe(0);
    expect(stderr).toBe(
      'warning: 4 threads of LangGraph left out: "waymark langgraph prune" removes idle ones, WaymarkSaver.prune removes old checkpoints\n',
    );
    expect(await idsOf()).toHaveLength(4);
  });
});

describe("waymark fork of a thread", () => {
  it("makes a thread that asks the same and continues by itself", async () => {
    const { run, saver } = await placeWithThreads();
    const forked = await run("fork", "waits", "@latest", "waits/2");
    expect([forked.code, forked.stdout]).toEqual([
      0,
      expect.stringMatching(
        /^Thread "waits\/2" begins at @\d+ \S+ \(loop\) of thread "waits", with 3 checkpoints\.\n$/,
      ),
    ]);
    const { log } = await agentOn(saver).invoke(
      new Command({ resume: await answers(saver, "waits/2") }),
      thread("waits/2"),
    );
    expect(log.at(-1)).toBe("sum");
    expect((await saver.threads({ prefix: "waits" })).map(({ id, status }) => [id, status])).toEqual([
      ["waits/2", "completed"],
      ["waits", "paused"],
    ]);
  });

  it("at an older checkpoint ends there: the nodes that follow run again", async () => {
    const { run, saver } = await placeWithThreads();
    const { stdout } = await run("list", "done", "--json");
    const second = JSON.parse(stdout).at(-2);
    const forked = await run("fork", "done", `@${second.sequence}`, "again", "--json");
    expect(JSON.parse(forked.stdout)).toMatchObject({ thread: "again", taskId: "langgraph/again/c/", checkpoints: 2 });
    const agent = agentOn(saver);
    expect((await agent.getState(thread("again"))).next).toEqual(["think"]);
    await agent.updateState(thread("again"), { log: ["changed"] });
    await agent.invoke(null, thread("again"));
    const resume = await answers(saver, "again");
    expect(Object.keys(resume)).toHaveLength(2);
    const { log } = await agent.invoke(new Command({ resume }), thread("again"));
    expect(log.slice(0, 3)).toEqual(["done", "changed", "think"]);
    expect(log.at(-1)).toBe("sum");
    expect((await agent.getState(thread("done"))).values.log).not.toContain("changed");
  });

  it("is refused if a thread or task has that name, and for a part of a thread", async () => {
    const { run, idsOf } = await placeWithThreads();
    for (const [args, code] of [
      [["waits", "@latest", "done"], 6],
      [["waits", "@latest", "build-42"], 6],
      [["waits", "@999", "more"], 3],
      [["langgraph/waits/c/mail", "@1", "more"], 2],
      [["waits", "@latest", "langgraph/more/c/"], 2],
    ] as const) {
      const { code: actual, stdout } = await run("fork", ...args);
      expect([actual, stdout], args.join(" ")).toEqual([code, ""]);
    }
    expect(await idsOf()).toHaveLength(4);
  });

  it("of an encrypted one is encrypted for the new thread", async () => {
    const place = await newPlace(URL);
    const keys = { one: Buffer.alloc(32, 1).toString("base64") };
    const options = { transforms: [encrypt({ keys: { one: Buffer.alloc(32, 1) }, current: "one" })] };
    const saver = saverOn(place.cwd, URL, options);
    await agentOn(saver).invoke({ log: ["hello"] }, thread("secret"));
    const config = `import { encrypt } from "waymark"; export default { storage: "${URL}",
      transforms: [encrypt({ keys: { one: Buffer.from("${keys.one}", "base64") }, current: "one" })] };`;
    writeFileSync(join(place.cwd, "waymark.config.js"), config);
    expect((await place.run("fork", "secret", "@latest", "secret 2")).code).toBe(0);
    const { tasks } = await agentOn(saver).getState(thread("secret 2"));
    expect(tasks.flatMap(({ interrupts }) => interrupts)).toHaveLength(2);
  });
});
