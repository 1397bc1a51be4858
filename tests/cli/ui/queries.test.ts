// Tests every query of `waymark ui` over HTTP on real storages.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tookText, turnRows } from "../../../cli/page/src/timeline-rows.js";
import { killInStep, newPlace } from "../waymark.js";
import { served } from "./served.js";

const STORAGES = ["sqlite:checkpoints.db", "files:store", "tasks:store"];

it.each(STORAGES)("answers for tasks, checkpoints, states and runs in %s", async (url) => {
  const { cwd, manager } = await newPlace(url);
  await manager.save("build-1", { phase: 1, when: new Date(0) }, { stage: "plan" });
  await manager.save("build-1", { phase: 2, when: new Date(0) }, { stage: "test", label: "After the tests" });
  await manager.fail("build-1", new Error("exit code 2", { cause: "a gate" }));
  await manager.save("build-2", new Map([["a", 1]]), { status: "completed" });
  await manager.run("agent", async (run) => run.step("model", () => ({ text: "hello" })));
  const page = await served(url, { cwd });

  expect(await page.ask("session", {})).toMatchObject({ canWrite: false, hasLeases: true });
  const { tasks, total, view } = await page.ask("tasks", { order: "taskId", offset: 0, limit: 10 });
  expect(tasks).toMatchObject([
    { taskId: "agent", name: "agent", status: "completed", damage: [] },
    {
      taskId: "build-1",
      status: "failed",
      count: 2,
      error: "exit code 2",
      why: "exit code 2",
      newest: { sequence: 2 },
    },
    { taskId: "build-2", status: "completed", count: 1 },
  ]);
  expect(total).toBe(3);
  const second = await page.ask("tasks", { order: "taskId", offset: 1, limit: 1, view });
  expect([second.view, second.tasks.map(({ taskId }) => taskId), second.total]).toEqual([view, ["build-1"], 3]);
  const failed = await page.ask("tasks", { order: "recent", status: ["failed"], offset: 0, limit: 10 });
  expect(failed.tasks.map(({ taskId }) => taskId)).toEqual(["build-1"]);
  const begun = await page.ask("tasks", { order: "recent", prefix: "build-", stage: "test", offset: 0, limit: 10 });
  expect(begun.tasks.map(({ taskId }) => taskId)).toEqual(["build-1"]);
  expect(await page.ask("counts", {})).toMatchObject({
    tasks: 3,
    byStatus: { completed: 2, failed: 1, running: 0, paused: 0 },
    damaged: 0,
  });

  const task = await page.ask("task", { taskId: "build-1", limit: 1 });
  expect(task.failure).toMatchObject({ error: { name: "Error", message: "exit code 2" } });
  expect(task.failure).not.toHaveProperty("step");
  expect(task).toMatchObject({ task: { taskId: "build-1" }, checkpoints: [{ sequence: 2, stage: "test" }] });
  const older = await page.ask("task", { taskId: "build-1", beforeSequence: task.beforeSequence! });
  expect(older.checkpoints).toMatchObject([{ sequence: 1, kind: "milestone", isOfRun: false }]);
  expect(older).not.toHaveProperty("beforeSequence");

  const [newest] = task.checkpoints;
  const checkpoint = await page.ask("checkpoint", { taskId: "build-1" });
  expect(checkpoint).toMatchObject({
    checkpoint: { id: newest?.id, label: "After the tests" },
    before: { sequence: 1 },
    error: { name: "Error", message: "exit code 2" },
    state: [
      "object",
      [
        ["phase", 2],
        ["when", ["date", "1970-01-01T00:00:00.000Z"]],
      ],
      0,
    ],
  });
  const { id } = checkpoint.checkpoint;
  expect(await page.ask("state", { taskId: "build-1", id, path: [1] })).toEqual({
    value: ["date", "1970-01-01T00:00:00.000Z"],
    text: "when",
  });
  expect(await page.ask("search", { taskId: "build-1", id, text: "PHASE" })).toMatchObject({
    found: [{ text: "phase" }],
  });
  expect(await page.ask("diff", { taskId: "build-1", to: id })).toMatchObject({
    from: { sequence: 1 },
    to: { sequence: 2 },
    changes: [{ kind: "changed", text: "phase", from: 1, to: 2 }],
    total: 1,
  });

  const ran = await page.ask("checkpoint", { taskId: "agent" });
  expect(ran.run).toMatchObject({ attempt: 1, isTurnOver: true, result: ["object", [["text", "hello"]], 0] });
  const timeline = await page.ask("timeline", { taskId: "agent" });
  expect(timeline).toMatchObject({
    steps: [{ title: "model", from: "ran", status: "completed", runAttempt: 1 }],
    attempts: [{ attempt: 1, end: "completed" }],
    marks: [{ kind: "completed" }],
  });
  expect(timeline.saves.at(-1)?.[0]).toBe(ran.checkpoint.sequence);
  await manager.close();
});

it.each(STORAGES)("plans retention, verifies and shows the storage in %s", async (url) => {
  const { cwd, manager } = await newPlace(url);
  for (let n = 0; n < 5; n += 1) await manager.save("build-1", { n });
  await manager.save("build-2", {});
  const page = await served(url, { cwd });

  const one = await page.ask("retention", { taskId: "build-1", policy: { keepLast: 2 } });
  expect(one.total).toMatchObject({ tasks: 1, keep: 2, remove: 3 });
  expect(one.checkpoints?.map(({ stays }) => stays)).toEqual([true, true, false, false, false]);
  expect(one.checkpoints?.[0]?.reasons).toContain("last 1 of 2");
  expect(one.commands[0]?.text).toMatch(
    /^npx waymark prune --keep-last 2 --dry-run --storage (sqlite|files|tasks):\/\S+ build-1$/,
  );
  const all = await page.ask("retention", { policy: { keepLast: 2 } });
  expect(all).toMatchObject({ total: { tasks: 2, keep: 3, remove: 3 }, tasks: [{ taskId: "build-1", remove: 3 }] });
  expect(await page.refused("retention", { policy: {} })).toMatchObject({ status: 400, name: "TypeError" });
  expect(await page.refused("retention", {})).toMatchObject({ status: 400 });

  const messages = [];
  for await (const message of page.live("verify", {})) messages.push(message);
  expect(messages.at(-1)).toMatchObject({ kind: "done", tasks: 2, checkpoints: 6, findings: [], total: 0 });
  const storage = await page.ask("storage", {});
  expect(storage).toMatchObject({ isDurable: true, isMultiProcess: true });
  expect(storage.bytesOnDisk).toBeGreaterThan(0);
  expect((await page.ask("repair-plan", {})).steps).toEqual([]);
  await manager.close();
});

it("reports what isn't there, and what is wrong with a request", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("build-12", {});
  const page = await served("sqlite:checkpoints.db", { cwd });

  // The beginning of an id isn't enough, because the shown task may have been removed.
  expect(await page.refused("task", { taskId: "build-1" })).toMatchObject({ status: 404, name: "CommandError" });
  expect(await page.refused("timeline", { taskId: "build-1" })).toMatchObject({ status: 404 });
  expect(await page.refused("checkpoint", { taskId: "build-12", id: "@1" })).toMatchObject({ status: 404 });
  const { id } = (await page.ask("checkpoint", { taskId: "build-12" })).checkpoint;
  expect(await page.refused("state", { taskId: "build-12", id, path: [3] })).toMatchObject({ status: 400 });
  expect(await page.refused("diff", { taskId: "build-12", to: id })).toMatchObject({ status: 404 });
  expect(await page.refused("tasks", { order: "newest", offset: 0, limit: 1 })).toMatchObject({ status: 400 });
  expect(await page.refused("tasks", { order: "recent", offset: 0, limit: 1, statuses: [] })).toMatchObject({
    status: 400,
  });
  expect(await page.refused("task", { taskId: "x".repeat(513) })).toMatchObject({ status: 400 });
  expect(await page.refused("constructor", {})).toMatchObject({ status: 404 });
  await manager.close();
});

it("tells the kills of a run, what came from storage, and branches", async () => {
  const { cwd, manager } = await newPlace();
  // An attempt that has lost its lease ends like a killed one: it stores nothing more.
  const lease = await manager.lease("agent");
  const first = manager.run(
    "agent",
    async (run) => {
      await run.step("plan", () => 1);
      await run.save("planned");
      await run.step("model", () => lease.release());
    },
    { lease },
  );
  await expect(first).rejects.toThrow("released");
  await manager.run("agent", async (run) => {
    await run.step("plan", () => 1);
    await run.save("planned");
    return run.step("model", () => 2);
  });
  const newest = await manager.latest("agent");
  const oldest = (await manager.list("agent")).at(-1)!;
  await manager.rewind("agent", oldest.id);
  await manager.fork("agent", newest!.id, "copy");
  const page = await served("sqlite:checkpoints.db", { cwd });

  const { steps, attempts, marks } = await page.ask("timeline", { taskId: "agent" });
  expect(steps.map(({ title, from, runAttempt }) => [title, from, runAttempt])).toContainEqual(["plan", "storage", 1]);
  expect(steps.map(({ title, from, runAttempt }) => [title, from, runAttempt])).toContainEqual(["model", "ran", 2]);
  expect(attempts).toMatchObject([{ attempt: 1 }, { attempt: 2, end: "completed" }]);
  expect(attempts[0]?.end).toBe("interrupted");
  expect(marks.at(-1)).toMatchObject({ kind: "branch", fromSequence: oldest.sequence });
  const { checkpoints } = await page.ask("task", { taskId: "copy" });
  expect(checkpoints).toMatchObject([{ forkedFrom: { taskId: "agent", id: newest?.id } }]);
  await manager.close();
});

it("marks a branch only where a save's parent isn't the one before", async () => {
  const { cwd, manager } = await newPlace();
  const first = await manager.save("t", 1);
  const second = await manager.save("t", 2, { parentId: first.id });
  await manager.save("t", 3, { parentId: second.id });
  await manager.save("t", 4, { parentId: first.id });
  const page = await served("sqlite:checkpoints.db", { cwd });
  const { marks } = await page.ask("timeline", { taskId: "t" });
  expect(marks.map(({ kind, sequence, fromSequence }) => [kind, sequence, fromSequence])).toEqual([
    ["milestone", 1, undefined],
    ["milestone", 2, undefined],
    ["milestone", 3, undefined],
    ["branch", 4, 1],
  ]);
  await manager.close();
});

it("shows who runs a task, and leaves a list as it was while its pages are read", async () => {
  const { cwd, manager } = await newPlace();
  for (let n = 0; n < 30; n += 1) await manager.save(`t-${String(n).padStart(2, "0")}`, {});
  await using lease = await manager.lease("t-00", { holder: "worker-1" });
  await using _starting = await manager.lease("not yet", { holder: "worker-2" });
  const page = await served("sqlite:checkpoints.db", { cwd });

  const first = await page.ask("tasks", { order: "recent", offset: 0, limit: 10 });
  expect(first).not.toHaveProperty("total");
  await manager.save("t-05", {});
  const rest = await page.ask("tasks", { order: "recent", offset: 10, limit: 40, view: first.view });
  const ids = [...first.tasks, ...rest.tasks].map(({ taskId }) => taskId);
  expect(new Set(ids).size).toBe(31);
  expect(rest).toMatchObject({ view: first.view, total: 31 });
  expect(rest.tasks.at(-1)).toMatchObject({ taskId: "not yet", status: "running", runner: { holder: "worker-2" } });
  const held = rest.tasks.find(({ taskId }) => taskId === "t-00");
  expect(held?.runner).toMatchObject({ state: "held", holder: "worker-1", token: lease.token });
  expect(Date.parse(held?.runner?.at ?? "")).toBeGreaterThan(Date.now());
  const again = await page.ask("tasks", { order: "recent", offset: 0, limit: 1 });
  expect(again.tasks[0]?.taskId).toBe("t-05");
  expect(again.view).not.toBe(first.view);
  await manager.close();
});

it("shows the step that ended a run, with its tries, its time and its error", async () => {
  const { cwd, manager, run } = await newPlace();
  const failing = manager.run(
    "agent",
    async (its) => {
      await its.step("plan", () => ({ found: "the secret plan" }));
      await its.step(
        "deploy",
        () => {
          throw Object.assign(new TypeError("no room"), { code: "ENOSPC" });
        },
        { retry: { times: 2, backoffMs: 1 } },
      );
    },
    { input: 7 },
  );
  await expect(failing).rejects.toThrow("no room");
  const page = await served("sqlite:checkpoints.db", { cwd });

  const { steps } = await page.ask("timeline", { taskId: "agent" });
  expect(steps).toMatchObject([
    { title: "plan", status: "completed" },
    { title: "deploy", status: "failed", attempts: 3, from: "ran", error: "no room" },
  ]);
  expect(steps[1]?.durationMs).toBeGreaterThan(0);
  const { run: record } = await page.ask("checkpoint", { taskId: "agent" });
  expect(record?.steps.at(-1)).toMatchObject({ title: "deploy", status: "failed", attempts: 3 });
  const { id } = (await page.ask("checkpoint", { taskId: "agent" })).checkpoint;
  const { besides } = await page.ask("search", { taskId: "agent", id, text: "no room" });
  expect(besides).toContainEqual({ text: "error.message", value: "no room" });
  const named = await page.ask("search", { taskId: "agent", id, text: "SECRET plan" });
  expect(named).toMatchObject({
    found: [],
    besides: [{ text: "run.steps[0].result.found", value: "the secret plan" }],
  });
  const { commands, failure } = await page.ask("task", { taskId: "agent" });
  expect(failure).toMatchObject({
    error: { name: "TypeError", code: "ENOSPC", message: "no room", stack: expect.stringContaining("queries.test") },
    step: { title: "deploy", attempts: 3, error: { code: "ENOSPC" } },
    before: { title: "plan", result: ["object", [["found", "the secret plan"]], 0] },
    input: 7,
  });
  expect(commands.map(({ action }) => action)).toEqual([
    "advice",
    "retry",
    "fork",
    "list",
    "show",
    "prune",
    "export",
    "delete",
    "complete",
  ]);
  expect(commands[0]?.text).toBe(
    'Start the program again: it resumes at deploy. Finished steps return their recorded results. Workers take it again after "waymark retry".',
  );
  expect(commands.at(-1)).toMatchObject({ loses: "no room" });
  expect((await run("list", "agent", "--timeline")).stdout).toMatch(/deploy · \S+ ms · failed after 3 tries/);
  expect((await run("show", "agent")).stdout).toMatch(/deploy · \S+ ms · failed after 3 tries/);
  await manager.close();
});

it("offers the newest checkpoint that hasn't failed to go back to, and the policy that its page opens with", async () => {
  const { cwd, manager } = await newPlace();
  await manager.save("build-1", { n: 1 });
  await manager.save("build-1", { n: 2 }, { status: "failed", error: new Error("no room") });
  await manager.save("build-2", {}, { status: "completed" });
  const config = join(cwd, "waymark.config.mjs");
  await writeFile(
    config,
    "export default { retention: { keepLast: 7, maxAgeMs: 30 * 86_400_000, keepWithinMs: 5_400_000 } };",
  );
  const page = await served("sqlite:checkpoints.db", { cwd, config });

  const { commands } = await page.ask("task", { taskId: "build-1" });
  const of = (action: string) => commands.find((command) => command.action === action);
  expect(of("rewind")?.text).toMatch(/^npx waymark rewind .*build-1 @1$/);
  expect(of("fork")?.text).toMatch(/^npx waymark fork .*build-1 @1 NEW-TASK$/);
  expect(of("prune")?.text).toMatch(
    /^npx waymark prune --keep-last 7 --keep-within 90m --max-age 30d --dry-run --storage sqlite:\/\S+ --config \/\S+waymark\.config\.mjs build-1$/,
  );
  const done = await page.ask("task", { taskId: "build-2" });
  expect(done.commands.map(({ action }) => action)).toEqual(["list", "show", "prune", "export", "delete"]);
  await manager.close();
});

it("names the failed steps that a retry leaves as they are", async () => {
  const { cwd, manager, run } = await newPlace();
  const fails = () => Promise.reject(new Error("down"));
  const program = manager.run("r", async (its) => {
    await its.step("fetch a", fails).catch(() => undefined);
    await its.step("fetch b", fails).catch(() => undefined);
    throw new Error("2 of 2 failed");
  });
  await expect(program).rejects.toThrow("2 of 2");
  const kept = /The errors of "fetch a" stay recorded.*new AggregateError\(errors\)/;
  const page = await served("sqlite:checkpoints.db", { cwd });
  expect((await page.ask("task", { taskId: "r" })).commands[0]?.text).toMatch(kept);
  const { stdout, stderr } = await run("retry", "--prefix", "r");
  expect([stdout, stderr]).toEqual(["Put back 1 task.\n", expect.stringMatching(kept)]);
  await manager.close();
});

it("names the step in which a program was killed", async () => {
  const { cwd, manager } = await newPlace();
  killInStep({ cwd, url: "sqlite:checkpoints.db", taskId: "agent" });
  const page = await served("sqlite:checkpoints.db", { cwd });
  const startedAt = expect.any(String);
  const { tasks } = await page.ask("tasks", { order: "recent", offset: 0, limit: 10 });
  expect(tasks).toMatchObject([
    { taskId: "agent", step: { text: "build", startedAt }, lastAt: startedAt, runner: { state: "died" } },
  ]);
  const timeline = await page.ask("timeline", { taskId: "agent" });
  expect(timeline).toMatchObject({
    steps: [
      { title: "plan", status: "completed" },
      { title: "build", status: "started", startedAt },
    ],
    attempts: [{ attempt: 1, end: "killed" }],
  });
  const all = turnRows(timeline).flatMap((turn) => turn.rows);
  const rows = all.map((row) => (row.kind === "step" ? [row.step.title, tookText(row)] : row.title));
  expect(rows).toEqual([["plan", expect.any(String)], ["build", "not finished"], "Attempt 1 was killed"]);
  const { run } = await page.ask("checkpoint", { taskId: "agent" });
  expect(run?.steps).toMatchObject([{ title: "plan" }, { title: "build", status: "started" }]);
  await manager.run("agent", (its) => its.step("build", () => 1));
  const [row] = (await page.ask("tasks", { order: "recent", offset: 0, limit: 10 })).tasks;
  expect(row).not.toHaveProperty("step");
  await manager.close();
});

it("tells a step's result, tries, chunks and input, in any turn", async () => {
  const { cwd, manager } = await newPlace();
  await manager.run("agent", async (its) => {
    const turn = typeof its.state === "number" ? its.state : 1;
    let tries = 0;
    const model = async ({ write }: { readonly write: (chunk: unknown) => Promise<void> }) => {
      tries += 1;
      await write(`try ${tries}`);
      if (tries < turn) throw new Error("busy");
      return { text: `answer ${turn}`, usage: { input_tokens: 90, output_tokens: 10 * turn } };
    };
    await its.step("model", model, { input: turn, retry: { times: 2, backoffMs: 0 } });
    return turn < 3 ? its.next(turn + 1) : undefined;
  });
  const page = await served("sqlite:checkpoints.db", { cwd });
  const { steps } = await page.ask("timeline", { taskId: "agent" });
  expect(steps.map(({ turn, retriedAt }) => [turn, retriedAt?.length])).toEqual([
    [1, undefined],
    [2, 1],
    [3, 2],
  ]);
  expect(steps.map(({ usage }) => usage?.tokens)).toEqual([100, 110, 120]);
  const answer = (text: string) => ["object", expect.arrayContaining([["text", text]]), 0];
  const answers = steps.map(({ record }) => page.ask("step", { taskId: "agent", record }));
  expect(await Promise.all(answers)).toMatchObject([
    { title: "model", result: answer("answer 1"), attempts: 1, chunks: [{ attempt: 1, value: "try 1" }] },
    { result: answer("answer 2"), attempts: 2, inputDigest: expect.stringMatching(/^[\w+/=-]{20,}$/) },
    { result: answer("answer 3"), attempts: 3, chunks: [{ value: "try 1" }, { value: "try 2" }, { attempt: 3 }] },
  ]);
  expect(await page.refused("step", { taskId: "agent", record: 999 })).toMatchObject({ status: 404 });
  expect(await page.refused("step", { taskId: "agent", record: 1.5 })).toMatchObject({ status: 400 });
  await manager.close();
});

it("offers to put back a failed run, but none within another one, which continues it", async () => {
  const { cwd, manager } = await newPlace();
  const inner = () => manager.run("p/sub", (its) => its.step("build", () => Promise.reject(new Error("no room"))));
  await expect(manager.run("p", (its) => its.step("sub", inner))).rejects.toThrow("no room");
  const page = await served("sqlite:checkpoints.db", { cwd });
  const actionsFor = async (taskId: string) =>
    (await page.ask("task", { taskId })).commands.map(({ action }) => action).slice(0, 3);
  expect(await actionsFor("p")).toEqual(["advice", "retry", "fork"]);
  expect(await actionsFor("p/sub")).toEqual(["advice", "fork", "list"]);
  await manager.close();
});

it("reports at which wait a stopped run continues", async () => {
  const { cwd, manager } = await newPlace();
  const stop = new AbortController();
  const waits = new Promise((resolve) => manager.on("waitStarted", resolve));
  const running = manager.run("w/1", (its) => its.waitFor("approve"), { signal: stop.signal });
  await waits;
  stop.abort();
  await expect(running).rejects.toThrow();
  const page = await served("sqlite:checkpoints.db", { cwd });
  const { commands } = await page.ask("task", { taskId: "w/1" });
  expect(commands[0]?.text).toContain("start the program again: it resumes at approve. Finished steps");
  await manager.close();
});

it("says of a fork and of a stopped run what a worker does with them", async () => {
  const { cwd, manager, run } = await newPlace();
  const stop = new AbortController();
  const running = manager.run(
    "w/1",
    async (its) => {
      await its.step("plan", () => 1);
      stop.abort();
      its.signal.throwIfAborted();
    },
    { signal: stop.signal },
  );
  await expect(running).rejects.toThrow();
  const page = await served("sqlite:checkpoints.db", { cwd });

  const { commands } = await page.ask("task", { taskId: "w/1" });
  expect(commands[0]?.text).toBe(
    "A worker takes it, or start the program again: it resumes after plan. Finished steps return their recorded results.",
  );
  const takes = "If a worker's prefix covers the new task, the worker begins it at once";
  expect(commands.find(({ action }) => action === "fork")?.note).toContain(takes);
  for (const command of ["fork", "rewind"]) {
    const help = (await run(command, "--help")).stdout.replaceAll(/\s+/g, " ");
    expect(help).toMatch(
      /prefix covers the (new )?task, .* at once; a \S+ (of|to) a completed run runs every step again/,
    );
  }
  await manager.close();
});

it("compares a fork with the checkpoint that it was forked from, and offers no command for that", async () => {
  const { cwd, manager } = await newPlace();
  const first = await manager.save("origin", { n: 1, kept: true });
  await manager.save("origin", { n: 2 });
  await manager.fork("origin", first.id, "copy");
  const { id: to } = await manager.save("copy", { n: 3, kept: true });
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });

  const diff = await page.ask("diff", { taskId: "copy", to, from: first.id, fromTaskId: "origin" });
  expect(diff).toMatchObject({ from: { id: first.id }, to: { id: to }, total: 1, commands: [] });
  expect(diff.changes).toMatchObject([{ kind: "changed", text: "n", from: 1, to: 3 }]);
  expect(await page.refused("diff", { taskId: "copy", to, from: first.id })).toMatchObject({ status: 404 });
});

it("exports a task as the command does, so that it can be imported", async () => {
  const { cwd, manager, run } = await newPlace();
  await manager.run("jobs/a b", (job) => job.step("model", () => "hello"));
  await manager.save("other", {});
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });

  const { fileName, text } = await page.ask("export", { taskId: "jobs/a b" });
  expect(fileName).toBe("jobs-a-b.ndjson");
  const recordsIn = (lines: string) => lines.split("\n").filter((line) => line.includes('"record":'));
  expect(recordsIn(text)).toEqual(recordsIn((await run("export", "jobs/a b")).stdout));
  expect(recordsIn(text).length).toBeGreaterThan(1);
  await writeFile(join(cwd, fileName), text);
  expect(await run("import", "--storage", "sqlite:copy.db", fileName)).toMatchObject({ code: 0 });
  const { commands } = await page.ask("task", { taskId: "jobs/a b" });
  expect(commands.find(({ action }) => action === "export")?.text).toMatch(
    /^npx waymark export --out jobs-a-b\.ndjson --storage sqlite:\/\S+ 'jobs\/a b'$/,
  );
});

it("lists what a task comes from and what comes from it, each with its status", async () => {
  const { cwd, manager } = await newPlace();
  const child = (taskId: string) => manager.run(taskId, (run) => run.step("copy", () => taskId));
  await manager.run("deploy", async (run) => {
    if (run.state === undefined) return run.next("built");
    await run.step("build", () => child("build"));
    await run.step("upload", () => Promise.all([child("upload/eu"), manager.run("upload/us", () => child("retry"))]));
    return 1;
  });
  const [point] = await manager.list("deploy");
  await manager.fork("deploy", point!.id, "copy");
  await manager.run("copy", (run) => run.step("build", () => 2));
  const plain = await manager.save("plain", { n: 1 });
  await manager.fork("plain", plain.id, "plain-2");
  await manager.save("plain-2", { n: 2 });
  await manager.save("other", {});
  await manager.close();
  const page = await served("sqlite:checkpoints.db", { cwd });
  const treeOf = async (taskId: string) =>
    (await page.ask("family", { taskId })).members.map(({ taskId: id, depth, status, parent, forkedFrom }) =>
      [depth, id, status, parent?.step ?? (forkedFrom && "fork")].filter((part) => part !== undefined).join(" "),
    );

  expect(await treeOf("deploy")).toEqual([
    "0 deploy completed",
    "1 build completed build",
    "1 upload/eu completed upload",
    "1 upload/us completed upload",
    "2 retry completed",
    "1 copy completed fork",
  ]);
  expect(await treeOf("retry")).toEqual(["0 deploy completed", "1 upload/us completed upload", "2 retry completed"]);
  const { members } = await page.ask("family", { taskId: "build" });
  expect(members[1]?.parent).toEqual({ taskId: "deploy", turn: 2, step: "build" });
  for (const taskId of ["plain", "plain-2"])
    expect((await treeOf(taskId)).map((line) => line.split(" ")[1])).toEqual(["plain", "plain-2"]);
  expect(await treeOf("other")).toEqual([]);
  await manager.close();
});

it("a diff tells the status, the error and the steps that changed, even if the states are equal", async () => {
  const { cwd, manager, run } = await newPlace();
  const failing = manager.run(
    "agent",
    async (its) => {
      await its.save("s", { stage: "saved" });
      await its.step("choose zone", () => 1);
      throw new Error("no room");
    },
    { initialState: "s" },
  );
  await expect(failing).rejects.toThrow("no room");
  const page = await served("sqlite:checkpoints.db", { cwd });

  const { id } = (await page.ask("checkpoint", { taskId: "agent" })).checkpoint;
  const { total, besides } = await page.ask("diff", { taskId: "agent", to: id });
  expect(total).toBe(0);
  expect(besides.slice(0, 2)).toEqual(["status running → failed", "error no room"]);
  expect(besides.slice(2)).toContainEqual(expect.stringMatching(/^\+ choose zone · \d+ ms$/));
  expect((await run("diff", "agent")).stdout).toContain(
    "The states are equal. Changed besides the state: status running → failed, error no room, + ",
  );
  await manager.close();
});
