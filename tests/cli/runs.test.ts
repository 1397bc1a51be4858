// Tests how the command shows runs and their steps.
import { expect, it, onTestFinished } from "vitest";
import { served } from "./ui/served.js";
import { killInStep, newPlace, waymark } from "./waymark.js";

/** A task whose run failed in its first attempt and was stopped in its second. */
async function placeWithRun() {
  const place = await newPlace();
  const { manager } = place;
  for (const attempt of [1, 2]) {
    const running = manager.run(
      "agent",
      async (run) => {
        if (run.state === 0) {
          await run.step("plan", () => 1);
          return run.next(1, { stage: "planned" });
        }
        await run.step("model", () => "x");
        await run.save(1, { stage: "asked" });
        if (attempt === 2) await run.step("model", () => "y");
        throw new Error("the model is overloaded");
      },
      { initialState: 0, version: "v1" },
    );
    await expect(running).rejects.toThrow("overloaded");
  }
  return place;
}

it("tasks, list and resume name a run's last step", async () => {
  const { run } = await placeWithRun();
  expect((await run("tasks")).stdout).toContain("Run failed after model 2");
  const resumed = await run("resume");
  expect(resumed.stdout).toMatch(/agent +Run failed after model 2 \(asked\) .* the model is overloaded/);
  expect(resumed.stderr).toBe('Workers take a failed run again after "waymark retry TASK".\n');
  expect((await run("show", "agent")).stdout).toMatch(/^retry +waymark retry agent$/m);
  const { stdout } = await run("list", "agent");
  expect(stdout).toContain("Run failed after");
  expect(stdout).toContain("planned");
});

it("tasks names the last step that a killed run has finished, and how long it took", async () => {
  const { manager, run } = await newPlace();
  await manager.run("t", async (step) => {
    await step.step("model", () => 1);
    expect((await run("tasks")).stdout).toMatch(/model · \d+ ms/);
  });
});

it.each(["sqlite:checkpoints.db", "files:store", "tasks:store"])(
  "names the step in which a program was killed, in %s",
  async (url) => {
    const { cwd, run, manager } = await newPlace(url);
    onTestFinished(() => manager.close());
    killInStep({ cwd, url, taskId: "t" });
    for (const command of ["tasks", "resume"]) {
      const row = (await run(command)).stdout.split("\n").find((line) => line.startsWith("t "));
      expect(row).toMatch(/ build · started (just now|\d+ seconds? ago)/);
      expect(row).toMatch(/ interrupted /);
    }
    expect((await run("show", "t")).stdout).toMatch(
      /^status +interrupted\nlast run +died on (.*\n)*steps +plan · \d+ ms\n +build · started /m,
    );
    expect((await run("list", "t", "--timeline")).stdout).toMatch(
      / plan · \d+ ms\n.* build · started .* +attempt 1 was killed in this step\n/,
    );
  },
);

it("names the step that was running when a task had ended too many workers", async () => {
  const { cwd, run, manager } = await newPlace();
  onTestFinished(() => manager.close());
  await manager.enqueue("w/1");
  // The first attempt records a step, so it doesn't count.
  for (let n = 0; n < 3; n += 1) killInStep({ cwd, url: "sqlite:checkpoints.db", taskId: "w/1" });
  const drained = new AbortController();
  manager.on("runEnded", () => drained.abort());
  const options = { prefix: "w/", maxAttempts: 2, signal: drained.signal, onError: () => undefined };
  await manager.work(options, (its) => its.step("build", () => 1));
  for (const command of [["resume"], ["show", "w/1"]]) {
    const { stdout } = await run(...command);
    expect(stdout).toMatch(/2 attempts in a row .* The last one ended in step "build"/);
    expect(stdout).toContain("Run failed in build");
  }
  expect((await run("show", "w/1")).stdout).toMatch(/^steps +plan · .*\n +build · started /m);
  await expect(manager.result("w/1")).rejects.toThrow(
    /Find the reason in the workers' logs\. Its recorded steps are kept; run it again, or put it back with `manager\.retry`\.$/,
  );
});

it("names a step that was interrupted and runs at most once, and how to run it again", async () => {
  const { cwd, run, manager } = await newPlace();
  onTestFinished(() => manager.close());
  killInStep({ cwd, url: "sqlite:checkpoints.db", taskId: "t" });
  const program = () =>
    manager.run("t", async (on) => {
      await on.step("plan", () => 1);
      return on.step("build", () => "built", { atMostOnce: true });
    });
  await expect(program()).rejects.toThrow("was interrupted");
  const { stdout } = await run("show", "t");
  expect(stdout).toMatch(/^retry +waymark retry --from build t, if build hasn't done its work$/m);
  expect(stdout).toMatch(/^steps +plan · .*\n +build · interrupted$/m);
  expect((await run("list", "t", "--timeline")).stdout).toMatch(/ build · interrupted( |$)/m);
  expect((await run("tasks")).stdout).toContain("Run failed in build");
  await run("retry", "t", "--from", "build");
  expect(await program()).toBe("built");
});

it("retry --from runs a failed task's steps again from that one on", async () => {
  const { manager, run } = await newPlace();
  const ran: string[] = [];
  const program = () =>
    manager.run("t", async (on) => {
      for (const name of ["plan", "model", "build"]) {
        await on.step(name, () => {
          ran.push(name);
          if (ran.length === 3) throw new Error("no room");
        });
      }
    });
  await expect(program()).rejects.toThrow("no room");
  expect(await run("retry", "t", "--from", "modl")).toMatchObject({
    code: 6,
    stderr: expect.stringContaining(
      'has no recorded step "modl". Nothing was changed. Recorded steps: "plan", "model", "build".',
    ),
  });
  expect((await run("retry", "--prefix", "t", "--from", "model")).code).toBe(2);
  expect((await run("retry", "t", "--from", "model")).stdout).toBe("Put back 1 task.\n");
  await program();
  expect(ran).toEqual(["plan", "model", "build", "model", "build"]);
  const timed = JSON.parse((await run("list", "t", "--timeline", "--json")).stdout);
  expect(timed.map(({ step }: { step: string }) => step.replace(/ · \d+ ms/, ""))).toEqual([
    ...["plan", "model", "build · failed"],
    ...["model", "build"],
  ]);
});

it("resume says of a task that was put back and killed how its last attempt ended", async () => {
  const { cwd, manager, run } = await newPlace();
  onTestFinished(() => manager.close());
  const failing = manager.run("t", (its) => its.step("build", () => Promise.reject(new Error("no room"))));
  await expect(failing).rejects.toThrow("no room");
  await run("retry", "t");
  expect((await run("resume")).stdout).toMatch(/^t .* put back; it failed with: no room$/m);
  killInStep({ cwd, url: "sqlite:checkpoints.db", taskId: "t" });
  expect((await run("resume")).stdout).toMatch(/^t +build · started .* interrupted +died on /m);
});

it("show lists the steps of the turn, and which of them came from storage", async () => {
  const { run } = await placeWithRun();
  const { stdout, ...ended } = await run("show", "agent");
  expect(ended).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/run +attempt 2, turn 2, version v1\n/);
  expect(stdout).toMatch(/steps +model · \d+ ms · from storage\n/);
  expect(stdout).toMatch(/\n\S* +model 2 · \d+ ms\n/);
  expect((await run("show", "agent", "--state")).stdout).toBe("1\n");
  const timed: { step: string; sequence: number }[] = JSON.parse(
    (await run("list", "agent", "--timeline", "--json")).stdout,
  );
  const second = timed.find(({ step }) => step.startsWith("model 2"))?.sequence;
  expect((await run("show", "agent", `@${second}`)).stdout).toMatch(/^record +@\d+, step "model 2"$/m);
  const shown = JSON.parse((await run("show", "agent", "--json")).stdout);
  expect(shown).toMatchObject({
    state: 1,
    run: { attempt: 2, steps: [{ name: "model", result: "x" }, {}, { result: "y" }] },
  });
});

it("show counts the steps before the last 20 of a turn", async () => {
  const { manager, run } = await newPlace();
  await manager.run("t", async (its) => {
    for (let n = 1; n <= 20; n++) await its.step(`fetch ${n}`, () => n);
    await its.save(1);
    expect((await run("show", "t")).stdout).toMatch(/^steps +1 earlier; --timeline lists all\n +fetch 2 · /m);
  });
});

it("show prints a run's result, shortened, and the metadata of the user alone", async () => {
  const { manager, run } = await newPlace();
  const result = "x".repeat(500);
  await manager.run("long", () => result);
  await manager.run("own", (its) => its.save(1, { metadata: { commit: "a1" } }));
  expect((await run("show", "long")).stdout).toMatch(/^run .*\nresult +"x{99}…\n$/m);
  expect(JSON.parse((await run("show", "long", "--json")).stdout).run.result).toBe(result);
  const saved = (await manager.list("own")).find(({ metadata }) => metadata?.["commit"] === "a1");
  expect((await run("show", "own", saved?.id ?? "")).stdout).toMatch(/^metadata +\{"commit":"a1"\}\n/m);
});

it("show and list --timeline tell a wait that timed out from an answered one", async () => {
  const { manager, run } = await newPlace();
  await manager.enqueue("t");
  await manager.send("t", "approve");
  await manager.run("t", async (its) => {
    await its.waitFor("approve");
    await its.waitFor("note", { timeoutMs: 1 });
  });
  const { stdout } = await run("show", "t");
  expect(stdout).toMatch(/^steps +approve · \d+ ms\n +note · \d+ ms · timed out$/m);
  expect((await run("list", "t", "--timeline")).stdout).toMatch(/ note · \d+ ms · timed out$/m);
});

it("show and the timeline mark a wait that ended in an earlier attempt as reused", async () => {
  const { manager, run, cwd } = await newPlace();
  await manager.enqueue("t");
  await manager.send("t", "approve");
  for (const attempt of [1, 2]) {
    const running = manager.run("t", async (its) => {
      await its.waitFor("approve");
      await its.sleepUntil("pause", new Date(0));
      await its.step("act", () => (attempt === 1 ? Promise.reject(new Error("stop")) : 1));
    });
    if (attempt === 1) await expect(running).rejects.toThrow("stop");
    else await running;
  }
  expect((await run("show", "t")).stdout).toMatch(
    /^steps +approve · \d+ ms · from storage\n +pause · \d+ ms · from storage\n +act · \d+ ms$/m,
  );
  const page = await served("sqlite:checkpoints.db", { cwd });
  const { steps } = await page.ask("timeline", { taskId: "t" });
  expect(steps.slice(0, 2)).toMatchObject([
    { title: "approve", from: "storage" },
    { title: "pause", from: "storage" },
  ]);
});

it("list --timeline draws all steps of a task's runs as bars", async () => {
  const { run } = await placeWithRun();
  const { code, stdout } = await run("list", "agent", "--timeline");
  expect(code).toBe(0);
  const steps = stdout.split("\n").slice(1, -1);
  expect(steps.map((line) => line.replace(/^\S+ \S+ +\d+ +/, "").replace(/[·━]{30}/, "BAR"))).toEqual([
    expect.stringMatching(/^1 +BAR +plan · \d+ ms$/),
    expect.stringMatching(/^2 +BAR +model · \d+ ms$/),
    expect.stringMatching(/^2 +BAR +saved asked +attempt 1 failed: Error: the model is overloaded$/),
    expect.stringMatching(/^2 +BAR +model 2 · \d+ ms +attempt 2 failed: Error: the model is overloaded$/),
  ]);
  const json: unknown = JSON.parse((await run("list", "agent", "--timeline", "--json")).stdout);
  expect(json).toMatchObject([{ turn: 1 }, { turn: 2 }, { turn: 2 }, { turn: 2 }]);
});

it("list --timeline has the steps of earlier turns while the next one runs, and names the one that is running", async () => {
  const { manager, run } = await newPlace();
  await manager.run("t", async (on) => {
    const turn = on.state ?? 1;
    await on.step("model", () => `answer ${turn}`);
    if (turn === 1) return on.next(2);
    await on.step("tool", async () => {
      const { stdout } = await run("list", "t", "--timeline", "--json");
      expect(JSON.parse(stdout)).toMatchObject([
        { turn: 1, step: expect.stringMatching(/^model · \d+ ms$/) },
        { turn: 2, step: expect.stringMatching(/^model · \d+ ms$/) },
        { turn: 2, step: "tool · started just now" },
      ]);
      const [{ sequence }] = JSON.parse(stdout);
      expect((await run("show", "t", `@${sequence}`)).stdout).toMatch(
        /^record +@\d+, step "model"\n.*\nresult +"answer 1"$/m,
      );
      expect((await run("show", "t", `@${sequence}`, "--path", "result")).stdout).toBe('"answer 1"\n');
      const stored = { status: "completed", attempts: 1, result: "answer 1" };
      expect(JSON.parse((await run("show", "t", `@${sequence}`, "--state")).stdout)).toMatchObject(stored);
      expect(JSON.parse((await run("show", "t", `@${sequence}`, "--json")).stdout)).toMatchObject({
        ...{ taskId: "t", sequence, kind: "step", name: "model" },
        value: stored,
      });
      for (const command of ["tasks", "resume"]) {
        expect((await run(command)).stdout).toMatch(/^t .*tool · started just now/m);
      }
      expect((await run("show", "t")).stdout).toMatch(/^steps +model · \d+ ms\n +tool · started just now$/m);
    });
    return undefined;
  });
});

it("list --timeline reports if there is no run", async () => {
  const { manager, run } = await newPlace();
  await manager.save("plain", 1);
  expect(await run("list", "plain", "--timeline")).toMatchObject({
    stdout: "",
    stderr: "No run has recorded a step of this task.\n",
  });
});

it("fork keeps a run, which continues from there", async () => {
  const { manager, run } = await newPlace();
  const ran: string[] = [];
  const program = (taskId: string) =>
    manager.run(taskId, async (on) => {
      await on.step("a", () => ran.push("a"));
      if (ran.length < 2) await on.step("b", () => Promise.reject(new Error("stop")));
      return on.step("c", () => ran.push("c"));
    });
  await expect(program("t")).rejects.toThrow("stop");
  ran.push("between");
  expect((await run("fork", "t", "@latest", "copy")).code).toBe(0);
  expect(await program("copy")).toBe(3);
  expect(ran).toEqual(["a", "between", "c"]);
});

it("fork and rewind go back to a step, by its number in the timeline", async () => {
  const { manager, run } = await newPlace();
  const ran: string[] = [];
  const program = (taskId: string) =>
    manager.run(taskId, async (on) => {
      if (on.state === undefined) return on.next(1);
      for (const name of ["a", "b", "c"]) await on.step(name, () => ran.push(name));
      return ran.length;
    });
  await program("t");
  const timed = JSON.parse((await run("list", "t", "--timeline", "--json")).stdout);
  const { sequence } = timed.find(({ step }: { step: string }) => step.startsWith("b "));
  const forked = await run("fork", "t", `@${sequence}`, "copy");
  expect(forked.stdout).toContain(` with the state of @${sequence} of task "t".`);
  await program("copy");
  expect((await run("rewind", "t", `@${sequence}`)).code).toBe(0);
  await program("t");
  expect(ran).toEqual(["a", "b", "c", "c", "c"]);
});

it("copy, and export with import, move a run to another storage, where it continues", async () => {
  const { cwd, manager, run, open } = await newPlace();
  const ran: string[] = [];
  const program = (on: typeof manager, isLast = true) =>
    on.run("t", async (step) => {
      await step.step("a", ({ key }) => ran.push(key));
      if (!isLast) throw new Error("stop");
      return step.step("b", () => ran.length);
    });
  await expect(program(manager, false)).rejects.toThrow("stop");
  expect((await run("copy", "--to", "files:copied")).code).toBe(0);
  const exported = await run("export");
  const imported = { cwd, env: { WAYMARK_STORAGE: "sqlite:imported.db" } };
  expect((await waymark(imported, ["import"], exported.stdout)).code).toBe(0);
  for (const url of ["files:copied", "sqlite:imported.db"]) {
    await using moved = await open(url);
    expect(await program(moved)).toBe(1);
  }
});

it("show --step prints a step's whole result, its attempts and input digest, or its error with the stack", async () => {
  const { manager, run } = await newPlace();
  onTestFinished(() => manager.close());
  const answer = { text: "x".repeat(200) };
  const failing = manager.run("t", async (on) => {
    await on.step("plan", () => 1);
    await on.step("model", () => answer, { input: { prompt: "Hello" } });
    await on.step("build", () => Promise.reject(new TypeError("no room")), { retry: { times: 1, backoffMs: 0 } });
  });
  await expect(failing).rejects.toThrow("no room");
  const model = await run("show", "t", "--step", "model");
  expect(model.stdout).toMatch(
    /^record +@\d+, step "model"\n.*\nresult +\d+ B, below\nstep +model · \d+ ms\nattempts +1\ninput digest +[0-9a-f]{32}$/m,
  );
  expect(model.stdout.endsWith(`\n\n${JSON.stringify(answer, undefined, 2)}\n`)).toBe(true);
  expect(JSON.parse((await run("show", "t", "--step", "model", "--json")).stdout)).toMatchObject({
    name: "model",
    value: { status: "completed", attempts: 1, result: answer },
  });
  const trace = /^error +TypeError: no room\n(.*\n)*stack +at .*runs\.test\.ts/m;
  for (const args of [["--step", "build"], []]) expect((await run("show", "t", ...args)).stdout).toMatch(trace);
  expect(await run("show", "t", "--step", "modl")).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('has no step "modl". Its last ones are "plan", "model", "build".'),
  });
  expect((await run("show", "t", "@1", "--step", "model")).code).toBe(2);
});

it("list --timeline shows failures, errors and kills, and its bars take the terminal's width", async () => {
  const { cwd, place, manager, run } = await newPlace();
  onTestFinished(() => manager.close());
  const failing = manager.run("f", (on) => on.step("build", () => Promise.reject(new TypeError("no room"))));
  await expect(failing).rejects.toThrow("no room");
  expect((await run("list", "f", "--timeline")).stdout).toMatch(
    / build · \d+ ms · failed +TypeError: no room; attempt 1 failed$/m,
  );
  expect(await run("show", "f", "--timeline")).toEqual(await run("list", "f", "--timeline"));
  killInStep({ cwd, url: "sqlite:checkpoints.db", taskId: "t" });
  await manager.run("t", (on) => on.step("plan", () => 1).then(() => on.step("build", () => 2)));
  expect((await run("list", "t", "--timeline")).stdout).toMatch(
    / plan · \d+ ms +attempt 1 was (killed|interrupted) after this step$/m,
  );
  const bars = (stdout: string) => /[·━]{10,}/.exec(stdout)?.[0].length ?? 0;
  const [narrow, wide] = await Promise.all(
    [80, 140].map((columns) => waymark(place, ["list", "f", "--timeline"], "", columns)),
  );
  expect(bars(wide?.stdout ?? "") - bars(narrow?.stdout ?? "")).toBe(60);
});
