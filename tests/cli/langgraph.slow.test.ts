// Tests the command on LangGraph threads that WaymarkSaver stores. Each thread is one task.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Annotation, Command, interrupt, StateGraph } from "@langchain/langgraph";
import { ERROR, emptyCheckpoint, INTERRUPT, RESUME, TASKS } from "@langchain/langgraph-checkpoint";
import { describe, expect, it } from "vitest";
import { encrypt } from "waymark";
import { openStorage } from "waymark/adapters";
import type { WaymarkSaverOptions } from "waymark/langgraph";
import { CHANNELS, checkpointsTask } from "waymark/langgraph/records";
import { collect } from "../support/collect.js";
import { stopClock } from "../support/stopped-clock.js";
import { agentOn, saverOn, thread, WITHOUT_LANGGRAPH } from "./langgraph-agent.js";
import { newPlace, waymark, waymarkProcess } from "./waymark.js";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});

/** A storage with two tasks, and a saver on it. */
async function placeWithSaver(options: Omit<WaymarkSaverOptions, "storage"> = {}, url = "sqlite:agent.db") {
  const place = await newPlace(url);
  for (const taskId of ["build-42", "zebra"]) await place.manager.save(taskId, taskId, { label: "After a step" });
  const saver = saverOn(place.cwd, url, options);
  return { ...place, saver, agent: agentOn(saver), json: jsonOf(place.run) };
}

function jsonOf(run: (...args: string[]) => ReturnType<typeof waymark>) {
  return async (...args: string[]) => JSON.parse((await run(...args, "--json")).stdout);
}

/** A thread that waits for two answers. */
async function placeWithThread(...args: Parameters<typeof placeWithSaver>) {
  const place = await placeWithSaver(...args);
  await place.agent.invoke({ log: ["hello"] }, thread("support-42"));
  return place;
}

it("the names of LangGraph's own channels are LangGraph's", () => {
  expect(CHANNELS).toEqual({ error: ERROR, interrupt: INTERRUPT, resume: RESUME, tasks: TASKS });
});

describe("waymark tasks", () => {
  it("reports who runs a thread, and so does show", async () => {
    const { run, saver } = await placeWithThread();
    await using lease = await saver.lease("support-42", { holder: "worker-1" });
    expect((await run("tasks")).stdout).toContain("LangGraph, step 1 · think → approve, look, mail, with mail");
    expect((await run("show", "support-42")).stdout).toMatch(/^run by +worker-1; its lease ends in /m);
    await expect(saver.lease("support-42", { holder: "worker-2" })).rejects.toMatchObject({ code: "LEASE_HELD" });
    expect(lease.token).toBe(1);
  });

  it("shows a thread as one line, with its subgraphs and what it asks, beside other tasks", async () => {
    const { run, json } = await placeWithThread();
    const newest = "LangGraph, step 1 · think → approve, look, mail, with mail";
    const table = await run("tasks");
    expect([table.code, table.stderr]).toEqual([0, ""]);
    expect(
      table.stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.split(/ {2,}/).toSpliced(4, 1)),
    ).toEqual([
      ["TASK", "CHECKPOINTS", "STATUS", "NEWEST", "WHY"],
      ["build-42", "1", "interrupted", "After a step", "no runner known"],
      ["support-42", "6", "waiting", newest, 'asks "Approve?" and {"question":"Send it?"}'],
      ["zebra", "1", "interrupted", "After a step", "no runner known"],
    ]);
    expect(await json("tasks")).toMatchObject([
      { taskId: "build-42", count: 1 },
      {
        taskId: "langgraph/support-42/c/",
        count: 6,
        newest: { status: "paused", stage: "loop", metadata: { source: "loop", step: 1 } },
        thread: {
          id: "support-42",
          namespaces: [
            { namespace: "", taskId: "langgraph/support-42/c/", count: 3 },
            { namespace: "mail", taskId: "langgraph/support-42/c/mail", count: 3 },
          ],
          interrupts: ["Approve?", { question: "Send it?" }],
        },
      },
      { taskId: "zebra" },
    ]);
  });

  it("counts the calls of a subgraph, each of which has a namespace of its own", async () => {
    const { saver, run } = await placeWithSaver();
    const tools = new StateGraph(Log).addNode("search", () => ({ log: ["found"] })).addEdge("__start__", "search");
    const helper = new StateGraph(Log).addNode("tools", tools.compile()).addEdge("__start__", "tools");
    const graph = new StateGraph(Log)
      .addNode("helper", helper.compile())
      .addNode("mail", tools.compile({ checkpointer: true }))
      .addEdge("__start__", "helper")
      .addEdge("helper", "mail")
      .compile({ checkpointer: saver });
    for (let turn = 1; turn <= 3; turn++) await graph.invoke({ log: ["hello"] }, thread("chat"));
    stopClock().pass(3 * 60 * 60_000);
    expect((await run("tasks")).stdout).toMatch(
      /^chat .* LangGraph, step \d+.*, with helper ×3, helper\|tools ×3, mail +3 hours ago$/m,
    );
  });

  it("shows a thread's status from its pending writes: paused, failed, completed", async () => {
    const { agent, run, json } = await placeWithThread();
    const [{ id = "" } = {}] = (await agent.getState(thread("support-42"))).tasks.flatMap((task) => task.interrupts);
    await agent.invoke(new Command({ resume: { [id]: "fail" } }), thread("support-42"));
    const [, paused] = await json("tasks");
    expect(paused).toMatchObject({ newest: { status: "paused" }, thread: { interrupts: [{ question: "Send it?" }] } });

    const failing = agent.invoke(new Command({ resume: "yes" }), thread("support-42"));
    await expect(failing).rejects.toThrow("out of order");
    const [, failed] = await json("tasks", "--incomplete");
    expect(failed.newest).toMatchObject({
      status: "failed",
      error: { name: "TypeError", message: "the tool is out of order" },
    });
    expect(failed.thread.interrupts).toEqual([]);
    stopClock().pass(3 * 60 * 60_000);
    expect((await run("resume")).stdout).toMatch(
      /^support-42 +step 2 · approve, look, mail → sum +3 hours ago +failed +the tool is out of order$/m,
    );

    await agent.updateState(thread("support-42"), { log: ["by hand"] }, "sum");
    const [, updated] = await json("tasks");
    expect(updated.newest).toMatchObject({ status: "running", stage: "update" });
    expect(updated.newest).not.toHaveProperty("error");
  });

  it("still shows what a thread asks when a subgraph is called beside it", async () => {
    const { saver, json } = await placeWithSaver();
    const metadata = { source: "loop", step: 0, parents: {} } as const;
    const config = await saver.put(thread("t"), emptyCheckpoint(), metadata, {});
    await saver.putWrites(config, [[INTERRUPT, [{ value: "Approve?" }]]], "person");
    const call = { configurable: { thread_id: "t", checkpoint_ns: "mail:2b1c" } };
    const parents = { "": `${config.configurable?.["checkpoint_id"]}` };
    await saver.put(call, emptyCheckpoint(), { ...metadata, parents }, {});
    expect(await json("tasks", "--prefix", "t")).toMatchObject([
      { newest: { status: "paused" }, thread: { interrupts: ["Approve?"] } },
    ]);
  });

  it("accepts --prefix, --stage, --recent and --limit for threads too, whatever their names are", async () => {
    const { agent, json, manager } = await placeWithSaver();
    const names = ["a", "a b", "a/b", "a%2Fb", "langgraph/", "%", "é", "x".repeat(300)];
    for (const name of names) await agent.invoke({ log: [name] }, thread(name));
    await manager.save("last", 1);
    const shown = async (...args: string[]) =>
      (await json("tasks", ...args)).map(
        (task: { taskId: string; thread?: { id: string } }) => task.thread?.id ?? task.taskId,
      );
    expect((await shown()).toSorted()).toEqual([...names, "build-42", "last", "zebra"].toSorted());
    expect(await shown("--prefix", "a")).toEqual(["a b", "a%2Fb", "a/b", "a"]);
    expect(await shown("--prefix", "langgraph/")).toHaveLength(names.length);
    expect(await shown("--prefix", "langgraph/a/")).toEqual(["a"]);
    expect(await shown("--recent", "--limit", "3")).toEqual(["last", "x".repeat(300), "é"]);
    expect(await shown("--stage", "loop")).toHaveLength(names.length);
    for (const name of names)
      expect((await json("show", name)).taskId).toBe(checkpointsTask({ threadId: name, namespace: "" }));
  });

  it("doesn't hide another program's tasks with similar names", async () => {
    const { manager, json } = await placeWithSaver();
    for (const taskId of ["langgraph/mine", "langgraph/x/c/y"]) await manager.save(taskId, { values: 1 });
    expect((await json("tasks")).map(({ taskId }: { taskId: string }) => taskId)).toEqual([
      "build-42",
      "langgraph/mine",
      "langgraph/x/c/y",
      "zebra",
    ]);
    expect((await json("show", "langgraph/x/c/y")).state).toEqual({ values: 1 });
    await manager.complete("langgraph/mine");
    expect(await json("tasks", "--incomplete")).toHaveLength(3);
  });

  it("counts a thread's records in stats", async () => {
    const { json } = await placeWithThread();
    const [, stats] = await json("stats");
    expect(stats).toMatchObject({ taskId: "support-42", checkpoints: expect.any(Number) });
    expect(stats.stages.map(({ stage }: { stage: string }) => stage)).toEqual(["input", "loop"]);
  });
});

describe("waymark resume", () => {
  it("offers a thread that waits, with its question", async () => {
    const { run, agent, json } = await placeWithThread();
    stopClock().pass(3 * 60 * 60_000);
    expect((await run("resume", "--limit", "1")).stdout).toMatch(
      /^support-42 +step 1 · think → approve, look, mail +3 hours ago +waiting +asks "Approve\?" and \{"question":"Send it\?"\}$/m,
    );
    const tasks = (await agent.getState(thread("support-42"))).tasks.flatMap((task) => task.interrupts);
    const resume = Object.fromEntries(tasks.map(({ id = "" }) => [id, "yes"]));
    await agent.invoke(new Command({ resume }), thread("support-42"));
    expect((await run("resume")).stdout).not.toContain("support-42");
    const [, completed] = await json("tasks");
    expect(completed).toMatchObject({ newest: { status: "completed" }, thread: { interrupts: [] } });
  });
});

describe("a thread, by the beginning of its id,", () => {
  it("is listed with each checkpoint's step and source", async () => {
    const { run, json } = await placeWithThread();
    const { stdout } = await run("list", "supp");
    const rows = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.trim().split(/ {2,}/));
    expect(rows[0]).toEqual(["SEQ", "SAVED", "STATUS", "STAGE", "LABEL", "SIZE", "ID"]);
    expect(rows.slice(1).map(([seq, , status, stage, label]) => [seq, status, stage, label])).toEqual([
      [expect.stringMatching(/^\d+$/), "paused", "loop", "step 1 · think → approve, look, mail"],
      [expect.stringMatching(/^\d+$/), "running", "loop", "step 0 → think"],
      [expect.stringMatching(/^\d+$/), "running", "input", "step -1"],
    ]);
    const [newest] = await json("list", "supp", "--limit", "1");
    expect(newest.metadata).toEqual({ source: "loop", step: 1, parents: {} });
  });

  it("is shown with the values of all channels, and its pending writes", async () => {
    const { run, json, agent } = await placeWithThread();
    const { state, metadata } = await json("show", "supp");
    expect(metadata).toEqual({ source: "loop", step: 1, parents: {} });
    expect(state.values).toMatchObject({ log: ["hello", "think"], plan: "answer the customer" });
    expect(
      state.pendingWrites.map(({ channel, value }: { channel: string; value: unknown }) => [channel, value]),
    ).toEqual(
      expect.arrayContaining([
        ["log", ["look"]],
        ["__interrupt__", [{ id: expect.any(String), value: "Approve?" }]],
      ]),
    );
    // After an update, the plan refers to an older checkpoint.
    await agent.updateState(thread("support-42"), { log: ["by hand"] }, "look");
    expect((await run("show", "supp", "--path", "values.plan")).stdout).toBe('"answer the customer"\n');
    expect((await run("show", "supp", "--path", "values.log")).stdout).toContain("by hand");
    const third = (await json("list", "supp")).at(-3);
    expect((await run("show", "supp", `@${third.sequence}`)).stdout).toMatch(
      /^thread +support-42\ncheckpoint +\S+ \(@\d+\)\nsaved .*\nstatus +paused\nasks +"Approve\?" and .*\nstage +loop\nlabel +step 1 · think → approve, look, mail\ncontinues from +\S+\nmetadata +\{"source":"loop","step":1,"parents":\{\}\}\nstate +\{ values: \{ log, .*plan.* \}, pendingWrites: an array of \d+ \}, .* --state prints it\n$/m,
    );
    expect((await run("show", "langgraph/support-42/c/m")).stdout).toMatch(/^thread +support-42\nsubgraph +mail\n/m);
  });

  it("is compared by its values and writes", async () => {
    const { run, json } = await placeWithThread();
    const [newest, older] = await json("list", "supp");
    const { stdout } = await run("diff", "supp", `@${older.sequence}`, `@${newest.sequence}`);
    expect(stdout).toContain('+ values.log[1]: "think"\n');
    expect(stdout).toContain('+ values.plan: "answer the customer"\n');
    expect(stdout).not.toContain("channel_versions");
    expect((await run("diff", "supp", older.id, newest.id)).stdout).toBe(stdout);
  });

  it("is searched by bisect", async () => {
    const { json } = await placeWithThread();
    const found = await json("bisect", "supp", "--command", "! grep -q customer");
    const [second, first] = (await json("list", "supp")).slice(-2);
    expect([found.lastGood.sequence, found.firstBad.sequence]).toEqual([first.sequence, second.sequence]);
  });

  it("is exported whole, and continues where it is imported", async () => {
    const { cwd, run, agent } = await placeWithThread();
    expect((await run("export", "supp", "--out", "thread.ndjson")).stdout).toMatch(
      /^Exported \d+ checkpoints and \d+ records of 2 tasks\.\n$/,
    );
    expect(await waymark({ cwd }, ["import", "thread.ndjson", "--storage", "files:other"])).toMatchObject({ code: 0 });
    const there = agentOn(saverOn(cwd, "files:other"));
    const [here, copied] = [await agent.getState(thread("support-42")), await there.getState(thread("support-42"))];
    expect(copied).toEqual(here);
    const interrupts = copied.tasks.flatMap((task) => task.interrupts);
    const resume = Object.fromEntries(interrupts.map(({ id = "" }) => [id, "yes"]));
    const end = await there.invoke(new Command({ resume }), thread("support-42"));
    expect(end.log.at(-1)).toBe("sum");
  });

  it("is not rewound by the command, which names LangGraph's own way", async () => {
    const { run, json } = await placeWithThread();
    const { code, stdout, stderr } = await run("rewind", "support-42", "@1");
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/ belongs to a thread of LangGraph.* call updateState with it\. Nothing was changed\.\n$/);
    const into = await run("fork", "build-42", "@1", "langgraph/new/c/");
    expect([into.code, into.stderr]).toEqual([2, expect.stringContaining("Give the new task another name.")]);
    expect(await json("tasks")).toHaveLength(3);
  });

  it("is removed as a whole, and by no other command", async () => {
    const { run, manager, agent } = await placeWithThread();
    for (const args of [
      ["delete", "support-42", "@1", "--yes"],
      ["delete", "langgraph/support-42/c/mail", "--yes"],
      ["complete", "support-42", "--yes"],
      ["prune", "support-42", "--keep-last", "1", "--yes"],
    ]) {
      expect(await run(...args), args.join(" ")).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(
          /belongs to a thread of LangGraph, whose checkpoints need each other\. .* Nothing was changed\.\n$/,
        ),
      });
    }
    const pruned = await run("prune", "--all", "--keep-last", "1", "--yes");
    expect(pruned).toMatchObject({ code: 0, stderr: expect.stringContaining("1 thread of LangGraph left out") });
    expect((await agent.getState(thread("support-42"))).values.plan).toBe("answer the customer");

    await agent.invoke({ log: ["x"] }, thread("support-4"));
    expect((await run("delete", "support-42", "--yes")).stdout).toMatch(/^Removed \d+ checkpoints\.\n$/);
    expect((await manager.tasks({ prefix: "langgraph/support-42/" })).length).toBe(0);
    expect((await run("tasks")).stdout).toContain("support-4 ");
  });
});

describe("an encrypted thread", () => {
  const transforms = [encrypt({ keys: { k1: Buffer.alloc(32, 1) }, current: "k1" })];
  const config = (current: string) =>
    `import { encrypt } from ${JSON.stringify(import.meta.resolve("waymark"))};
    const keys = { k1: Buffer.alloc(32, 1), k2: Buffer.alloc(32, 2) };
    export default { transforms: [encrypt({ keys, current: "${current}" })] };`;

  it("is listed without the key, and shown and rekeyed with it", async () => {
    const { cwd, run, json } = await placeWithThread({ transforms });
    stopClock().pass(3 * 60 * 60_000);
    const table = await run("tasks");
    expect([table.code, table.stderr]).toEqual([0, ""]);
    expect(table.stdout).toMatch(
      /^support-42 +6 +unknown +LangGraph, loop, with mail +3 hours ago +its question can't be read$/m,
    );
    expect((await run("list", "supp", "--limit", "1")).stdout).toMatch(/^ +\d+ .* unknown +loop /m);
    expect((await run("resume")).stdout).toMatch(/^support-42 .* unknown +its question can't be read$/m);
    const { stdout } = await run("show", "supp");
    expect(stdout).toMatch(/^status +unknown$/m);
    expect(stdout).toContain("not readable with this configuration");

    writeFileSync(join(cwd, "waymark.config.mjs"), config("k2"));
    expect((await json("show", "supp")).state.values.plan).toBe("answer the customer");
    expect(await run("rekey")).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Rekeyed \d+ payloads/) });
    const saver = saverOn(cwd, "sqlite:agent.db", {
      transforms: [encrypt({ keys: { k2: Buffer.alloc(32, 2) }, current: "k2" })],
    });
    expect((await agentOn(saver).getState(thread("support-42"))).values.plan).toBe("answer the customer");
    expect(await run("verify")).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing is wrong") });
  });
});

it("a pruned thread is shown as its saver shows it", async () => {
  const { run, json, agent, saver, manager } = await placeWithThread();
  for (const update of [{ log: ["a"] }, { plan: "b" }, { log: ["c"] }]) {
    await agent.updateState(thread("support-42"), update, "look");
  }
  // The last checkpoint gets its plan from the previous one, which stays for that purpose without its own log.
  await saver.prune("support-42", { keepLast: 1 });
  expect((await manager.list("langgraph/support-42/c/")).length).toBeGreaterThan(1);
  const shown = [];
  for await (const { checkpoint } of saver.list({ configurable: { thread_id: "support-42", checkpoint_ns: "" } })) {
    shown.push(checkpoint.id);
  }
  const listed = await json("list", "supp");
  expect(listed.map(({ id }: { id: string }) => id)).toEqual(shown);
  expect(await run("verify")).toMatchObject({ code: 0, stderr: "" });
  const { stderr } = await run("bisect", "supp", "--command", "false");
  expect(stderr).not.toContain("warning");
  expect((await json("show", "supp")).state.values).toMatchObject({
    plan: "b",
    log: ["hello", "think", "look", "a", "c"],
  });
});

describe("a thread with a lost value", () => {
  it("is found by verify, and shown as far as it is intact", async () => {
    const { cwd, run, agent } = await placeWithThread();
    await agent.updateState(thread("support-42"), { log: ["by hand"] }, "look");
    const storage = openStorage("sqlite:agent.db", { relativeTo: cwd });
    const taskId = "langgraph/support-42/c/";
    const checkpoints = await collect(storage.list({ taskId, order: "oldest" }));
    const { sequence: newestSequence } = checkpoints[3] ?? {};
    await storage.remove(taskId, [checkpoints[2]?.id ?? ""]);
    await storage.close();

    const { code, stdout } = await run("verify");
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^damaged +langgraph\/support-42\/c\/ +\d+ +the value of its channel "plan" was in checkpoint \S+, which is gone/m,
    );
    expect(stdout).toContain(": 1 finding.");
    expect(await run("show", "supp", `@${newestSequence}`, "--state")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("which is gone"),
    });
    const newest = await run("show", "supp", "--state");
    expect(newest.code).toBe(5);
    expect(JSON.parse(newest.stdout).values.log).toEqual(["hello"]);
  });
});

it("completion offers threads by their ids", async () => {
  const { run, manager } = await placeWithThread();
  expect((await run("__complete", "--", "show", "")).stdout).toBe("build-42\nsupport-42\nzebra\n");
  expect((await run("__complete", "--", "show", "su")).stdout).toBe("support-42\n");
  expect((await run("__complete", "--", "langgraph", "")).stdout).toBe("prune\nhelp\n");
  // The output is no longer than a person would read.
  await Promise.all(Array.from({ length: 100 }, (_, number) => manager.save(`many-${number}`, number)));
  expect((await run("__complete", "--", "show", "")).stdout.trimEnd().split("\n")).toHaveLength(100);
});

it("reading needs no package of LangGraph", async () => {
  const { place } = await placeWithThread();
  const env = { ...place.env, NODE_NO_WARNINGS: "1", NODE_OPTIONS: `--import ${WITHOUT_LANGGRAPH}` };
  for (const args of [["tasks"], ["show", "supp", "--path", "values.plan"], ["list", "supp"], ["verify"]]) {
    expect(await waymarkProcess({ ...place, env }, args)).toMatchObject({ code: 0, stderr: "" });
  }
});

it("shows values that JSON lacks as for any other task, also in a thread's questions", async () => {
  const { run, saver } = await placeWithSaver();
  const State = Annotation.Root({ rich: Annotation<unknown> });
  const rich = { at: new Date(0), big: 12n, tag: { $waymark: "mine", lc: 2 } };
  await new StateGraph(State)
    .addNode("set", () => ({ rich }))
    .addNode("ask", () => interrupt({ until: new Date(0) }))
    .addEdge("__start__", "set")
    .addEdge("set", "ask")
    .compile({ checkpointer: saver })
    .invoke({ rich: null }, thread("rich"));
  expect((await run("show", "rich", "--path", "values.rich.tag")).stdout).toContain('"mine"');
  expect((await run("show", "rich", "--path", "values.rich.big")).stdout).toBe('"12"\n');
  expect((await run("tasks")).stdout).toContain('asks {"until":"1970-01-01T00:00:00.000Z"}');
});
