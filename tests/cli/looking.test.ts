// Tests the commands that only read: tasks, list, show, resume, diff, bisect, stats.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { CheckpointManager, encrypt, gzip } from "waymark";
import { openStorage } from "waymark/adapters";
import { stopClock } from "../support/stopped-clock.js";
import { tempFolder } from "../support/temp-folder.js";
import { inShell, newPlace, waymark, waymarkProcess } from "./waymark.js";

/** The import in a project's configuration. */
const SDK = pathToFileURL(join(import.meta.dirname, "..", "..", "dist", "src", "index.js")).href;

const HOSTILE = "label \u001b]0;owned\u0007\u009b31m\u202e\r\nnext";
// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters must not appear.
const RAW = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/;

async function placeWithTasks() {
  const place = await newPlace();
  const { manager } = place;
  for (let n = 1; n <= 6; n++) {
    await manager.save(
      "build-42",
      { phase: n, messages: [{ role: "user", text: `m${n}` }] },
      { stage: `stage-${n % 2}`, label: `After ${n}` },
    );
  }
  await manager.fail("build-42", new Error("the linker gave up"));
  await manager.save("done", { ok: true }, { stage: "last" });
  await manager.complete("done");
  await manager.save("other", [1, 2], { status: "paused", label: HOSTILE });
  await manager.close();
  return place;
}

it("a task may be named by the beginning of its id, if no other one begins so, and nothing is changed", async () => {
  const { manager, run } = await newPlace();
  for (const taskId of ["build-42", "build-43", "done-1", "done"]) await manager.save(taskId, taskId);
  for (const args of [
    ["show", "build-42"],
    ["show", "done-"],
    ["list", "done-"],
    ["diff", "done-", "@1", "@1"],
  ]) {
    expect((await run(...args)).code, args.join(" ")).toBe(0);
  }
  expect((await run("show", "done", "--state")).stdout).toBe('"done"\n');
  expect(await run("show", "build")).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("Ids that begin with it: build-42, build-43."),
  });
  expect((await run("show", "bild-42")).stderr).toMatch(
    /Task "bild-42" has no checkpoint in .*\. "waymark tasks" lists the tasks\.\n$/,
  );
  expect((await run("show", "nobody")).stderr).toContain('"waymark tasks" lists the tasks.');
  expect((await run("export", "build-42", "done-")).stdout).toContain('"taskId":"done-1"');
  // The task may already have been removed.
  for (const args of [
    ["complete", "done-", "--yes"],
    ["delete", "done-", "--yes"],
    ["prune", "done-", "--keep-last", "1", "--yes"],
    ["rewind", "done-", "@1"],
    ["fork", "done-", "@1", "new"],
  ]) {
    expect(await run(...args), args.join(" ")).toMatchObject({
      code: 3,
      stdout: "",
      stderr: expect.stringMatching(/Task "done-" has no checkpoint in .*\. Ids that begin with it: done-1\.\n$/),
    });
  }
  const [first] = await manager.list("done-1");
  expect(await run("delete", "done-1", first?.id.slice(0, 8) ?? "", "--yes")).toMatchObject({ code: 3, stdout: "" });
  expect((await manager.tasks()).map(({ taskId }) => taskId)).toEqual(["build-42", "build-43", "done", "done-1"]);
  await manager.close();
});

it("diff shows the difference of two long texts without spaces, and some characters around it", async () => {
  const { manager, run } = await newPlace();
  for (const middle of ["X", "YY"]) await manager.save("t", `${"a".repeat(3_000)}${middle}${"b".repeat(3_000)}`);
  const shown = `… "${"a".repeat(24)}X${"b".repeat(24)}" … => … "${"a".repeat(24)}YY${"b".repeat(24)}" …`;
  expect((await run("diff", "t")).stdout).toContain(`~ the state: ${shown}\n`);
  await manager.close();
});

it("diff names a part of a Map by its key, and never by a tag", async () => {
  const { manager, run } = await newPlace();
  for (const n of [1, 2]) await manager.save("t", { counts: new Map([[7n, n]]) });
  expect((await run("diff", "t")).stdout).toContain("~ counts.7n: 1 => 2\n");
  await manager.close();
});

it("tasks and show say who runs a task", async () => {
  const { manager, run } = await newPlace();
  for (const taskId of ["free", "leased"]) await manager.save(taskId, 1, { label: "After step 1" });
  const lease = await manager.lease("leased", { holder: "worker-1\u001b[31m" });
  expect((await run("tasks")).stdout).toMatch(
    /^free .*After step 1 .* no runner known\nleased .*After step 1 .* run by worker-1/m,
  );
  expect((await run("tasks")).stdout).not.toContain("\u001b");
  const [free, leased] = JSON.parse((await run("tasks", "--json")).stdout);
  expect(free).not.toHaveProperty("lease");
  expect(leased.lease).toMatchObject({ token: 1, remainingMs: expect.any(Number) });
  expect((await run("show", "leased")).stdout).toMatch(
    /^run by +worker-1.*; its lease ends in \d+\.\d s unless renewed$/m,
  );
  await lease.release();
  expect((await run("show", "leased")).stdout).not.toContain("run by");
  await manager.close();
});

it.each([["tasks"], ["resume"], ["stats"], ["list", "build-42"], ["list", "build-42", "--timeline"]])(
  "%s --ndjson prints the items of --json, each on its own line",
  async (...args) => {
    const { run } = await placeWithTasks();
    const items: unknown[] = JSON.parse((await run(...args, "--json")).stdout);
    const { code, stdout } = await run(...args, "--ndjson");
    const lines = stdout.split("\n").slice(0, -1);
    expect([code, lines.map((line) => JSON.parse(line))]).toEqual([0, items]);
    expect((await run(...args, "--ndjson", "--json")).code).toBe(2);
  },
);

describe("waymark tasks", () => {
  it("shows a table for people, and a JSON array for programs", async () => {
    const { run } = await placeWithTasks();
    const table = await run("tasks");
    expect(table).toMatchObject({ code: 0, stderr: "" });
    expect(table.stdout).toMatch(/^TASK +CHECKPOINTS +STATUS +NEWEST +WHEN +WHY\nbuild-42 +6 +failed +After 6 +/);
    const tasks = JSON.parse((await run("tasks", "--json")).stdout);
    expect(tasks.map(({ taskId, count }: { taskId: string; count: number }) => [taskId, count])).toEqual([
      ["build-42", 6],
      ["done", 1],
      ["other", 1],
    ]);
  });

  it("accepts --incomplete, --stage, --prefix and --limit", async () => {
    const { run } = await placeWithTasks();
    const ids = async (...args: string[]) =>
      JSON.parse((await run("tasks", "--json", ...args)).stdout).map(({ taskId }: { taskId: string }) => taskId);
    expect(await ids("--incomplete")).toEqual(["build-42", "other"]);
    expect(await ids("--stage", "last")).toEqual(["done"]);
    expect(await ids("--prefix", "o")).toEqual(["other"]);
    expect(await ids("--limit", "2")).toEqual(["build-42", "done"]);
    expect(await ids("--recent", "--limit", "1")).toHaveLength(1);
    expect(await ids("--prefix", "nobody")).toEqual([]);
  });

  it("and list accept --status, but not together with --incomplete", async () => {
    const { run } = await placeWithTasks();
    const ids = async (status: string) =>
      JSON.parse((await run("tasks", "--json", "--status", status)).stdout).map(
        ({ taskId }: { taskId: string }) => taskId,
      );
    expect(await ids("failed")).toEqual(["build-42"]);
    expect(await ids("completed")).toEqual(["done"]);
    for (const status of ["running", "waiting", "cancelled"]) expect(await ids(status)).toEqual([]);
    const failed = JSON.parse((await run("list", "build-42", "--json", "--status", "failed")).stdout);
    expect(failed).toMatchObject([{ sequence: 6 }]);
    expect((await run("tasks", "--status", "broken")).stderr).toMatch(
      /'broken' is invalid\..*queued, scheduled, running, waiting, interrupted, paused, failed, completed, cancelled\./,
    );
    expect((await run("tasks", "--status", "failed", "--incomplete")).code).toBe(2);
  });

  it("reports that there is nothing", async () => {
    const { run } = await placeWithTasks();
    const { code, stdout, stderr } = await run("tasks", "--prefix", "nobody");
    expect([code, stdout, stderr]).toEqual([0, "", expect.stringMatching(/^No task of .* matches\.\n$/)]);
  });
});

describe("waymark list", () => {
  it("lists newest first, with the sequence that @ refers to", async () => {
    const { run } = await placeWithTasks();
    const { stdout } = await run("list", "build-42", "--limit", "2");
    expect(stdout.split("\n").map((line) => line.trim().split(/ {2,}/)[0])).toEqual(["SEQ", "6", "5", ""]);
  });

  it("accepts --incomplete, --stage, --limit, --oldest and --json", async () => {
    const { run } = await placeWithTasks();
    const sequences = async (task: string, ...args: string[]) =>
      JSON.parse((await run("list", task, "--json", ...args)).stdout).map(
        ({ sequence }: { sequence: number }) => sequence,
      );
    expect(await sequences("build-42", "--stage", "stage-1")).toEqual([5, 3, 1]);
    expect(await sequences("build-42", "--oldest", "--limit", "2")).toEqual([1, 2]);
    expect(await sequences("done", "--incomplete")).toEqual([]);
  });

  it("names a missing task, with exit code 3", async () => {
    const { run } = await placeWithTasks();
    const { code, stdout, stderr } = await run("list", "nobody");
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toMatch(/^waymark: Task "nobody" has no checkpoint .*"waymark tasks" lists.*\n$/);
  });

  it.each([
    "tasks",
    "list other",
    "list other --json",
    "show other",
    "resume",
    "stats",
    "prune --all --keep-last 1 --dry-run",
    "export",
    "delete other @1",
  ])("%s prints no control character of a label", async (command) => {
    const { run } = await placeWithTasks();
    const { stdout, stderr } = await run(...command.split(" "));
    expect(stdout + stderr).not.toMatch(RAW);
    if (command !== "stats") expect(stdout + stderr).toContain("\\u001b]0;owned");
  });
});

describe("waymark show", () => {
  it("shows the newest by default, and any by id or @sequence", async () => {
    const { run } = await placeWithTasks();
    expect((await run("show", "build-42")).stdout).toMatch(/status +failed\nerror +Error: the linker gave up\n/);
    const [newest] = JSON.parse((await run("list", "build-42", "--json", "--limit", "1")).stdout);
    expect((await run("show", "build-42", newest.id)).stdout).toContain(`${newest.id} (@6)`);
    expect((await run("show", "build-42", "@2")).stdout).toContain("(@2)");
    expect((await run("show", "build-42", "@9")).code).toBe(3);
    expect((await run("show", "build-42", "")).code).toBe(3);
  });

  it("prints the state with --state, and a part of it with --path messages[0].role", async () => {
    const { run } = await placeWithTasks();
    expect(JSON.parse((await run("show", "build-42", "@3", "--state")).stdout)).toMatchObject({ phase: 3 });
    expect((await run("show", "build-42", "--path", "messages[0].role")).stdout).toBe('"user"\n');
    expect((await run("show", "build-42", "--path", '$["messages"][-1].text')).stdout).toBe('"m6"\n');
    expect(JSON.parse((await run("show", "build-42", "--json")).stdout)).toMatchObject({
      sequence: 6,
      state: { phase: 6 },
    });
  });

  it("reports how far a path leads if it leads to nothing", async () => {
    const { run } = await placeWithTasks();
    const missing = await run("show", "build-42", "--path", "messages[3].role");
    expect([missing.code, missing.stdout]).toEqual([3, ""]);
    expect(missing.stderr).toBe("waymark: The state has nothing at messages[3]. messages is an array of 1.\n");
    expect((await run("show", "build-42", "--path", "messages[x]")).code).toBe(2);
  });

  it("prints rich values in their usual JSON form, through transforms and whatever the state's version", async () => {
    const { manager, run, cwd } = await newPlace("sqlite:checkpoints.db", { transforms: [gzip()], stateVersion: 3 });
    await manager.save("t", { at: new Date(0), tags: new Set(["a"]), by: new Map([["k", 1n]]), ["__proto__"]: 1 });
    await manager.close();
    writeFileSync(
      join(cwd, "waymark.config.mjs"),
      `import { gzip } from ${JSON.stringify(import.meta.resolve("waymark"))};\nexport default { transforms: [gzip()] };\n`,
    );
    expect((await run("show", "t", "--state", "--json")).stdout).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","tags":["a"],"by":{"k":"1"},"__proto__":1}\n',
    );
  });
});

describe("waymark show of an encrypted state", () => {
  it("shows everything except the state without the key, and explains where the key belongs", async () => {
    const cwd = await tempFolder();
    const transforms = [encrypt({ keys: { "2026-11": Buffer.alloc(32, 1) }, current: "2026-11" })];
    const manager = new CheckpointManager({ storage: openStorage("files:store", { relativeTo: cwd }), transforms });
    await manager.save("t", { secret: 1 }, { stage: "half", label: "Half way" });
    await manager.close();
    const run = (...args: string[]) => waymark({ cwd }, ["show", "t", "--storage", "files:store", ...args]);

    const shown = await run();
    expect([shown.code, shown.stderr]).toEqual([0, ""]);
    expect(shown.stdout).toMatch(/Half way.*not readable with this configuration; --state says why/s);
    expect((await run("@1")).stdout).toBe(shown.stdout.replace(/^status .*\nwhy .*$/m, "status      running"));

    const state = await run("--state");
    expect([state.code, state.stdout]).toEqual([1, ""]);
    expect(state.stderr).toMatch(/no transform named "encrypt".*waymark\.config\.js, and there is none here/);
    expect(state.stderr).toContain("[UNSUPPORTED_FORMAT]");

    const config = join(cwd, "waymark.config.mjs");
    writeFileSync(
      config,
      `import { encrypt } from ${JSON.stringify(SDK)};
      export default { transforms: [encrypt({ keys: { other: Buffer.alloc(32, 2) }, current: "other" })] };`,
    );
    const withOther = await waymarkProcess({ cwd }, ["show", "t", "--state", "--storage", "files:store"]);
    expect(withOther.stderr).toContain(`takes transforms and their keys from ${config}`);
    expect(withOther.stderr).toContain("[DECRYPTION_FAILED]");
  });
});

describe("waymark resume", () => {
  it("shows the incomplete tasks, newest first: at which stage each stopped, when, and why", async () => {
    const { run } = await placeWithTasks();
    stopClock().pass(3 * 60 * 60_000);
    const { stdout } = await run("resume");
    const [head, first, second, end] = stdout.split("\n");
    expect(head).toMatch(/^TASK +STOPPED AT +WHEN +STATUS +WHY$/);
    expect(first).toMatch(/^other .* paused +paused$/);
    expect(second).toMatch(/^build-42 +After 6 \(stage-0\) +3 hours ago +failed +the linker gave up$/);
    expect(end).toBe("");
    expect(JSON.parse((await run("resume", "--json")).stdout)[1]).toMatchObject({ why: "the linker gave up" });
  });
});

describe("waymark diff", () => {
  it("shows the structural differences of two states, for programs as JSON, one per line", async () => {
    const { run } = await placeWithTasks();
    const { stdout } = await run("diff", "build-42", "@1", "@latest");
    expect(stdout.split("\n").slice(2)).toEqual([
      "~ phase: 1 => 6",
      '~ messages[0].text: "m1" => "m6"',
      "Changed besides the state: status running → failed, error the linker gave up",
      "",
    ]);
    const phase = { kind: "changed", path: ["phase"], from: 1, to: 2 };
    const text = { kind: "changed", path: ["messages", 0, "text"], from: "m1", to: "m2" };
    expect(JSON.parse((await run("diff", "build-42", "@1", "@2", "--json")).stdout)).toEqual([phase, text]);
    expect((await run("diff", "build-42", "@1", "@2", "--ndjson")).stdout).toBe(
      `${JSON.stringify(phase)}\n${JSON.stringify(text)}\n`,
    );
    expect(await run("diff", "build-42", "@1", "@1", "--json", "--exit-code")).toMatchObject({
      code: 0,
      stdout: "[]\n",
    });
    expect((await run("diff", "build-42", "@1", "@2", "--exit-code")).code).toBe(6);
  });

  it("compares the newest with the one before it by default, and takes the beginning of an id", async () => {
    const { run, manager } = await newPlace();
    const ids: string[] = [];
    for (const id of ["a-1", "b-1", "b-2"]) ids.push((await manager.save("t", { id }, { id })).id);
    await manager.close();
    expect((await run("diff", "t")).stdout).toContain('~ id: "b-1" => "b-2"');
    expect((await run("diff", "t", "a")).stdout).toContain('~ id: "a-1" => "b-2"');
    const ambiguous = await run("show", "t", "b");
    expect([ambiguous.code, ambiguous.stderr]).toEqual([
      2,
      expect.stringMatching(/Several .*b-2 and @2 b-1.*Write more/),
    ]);
    expect((await run("show", "t", "c")).code).toBe(3);
  });

  it("sees kinds, matches lists by content, and shows the words that changed in a long text", async () => {
    const { manager, run } = await newPlace();
    const words = Array.from({ length: 30 }, (_, n) => `word${n}`);
    const old = { n: Number.NaN, m: new Map([["a", 1]]), u: undefined, d: new Date(0), z: -0, list: ["a", "b", "c"] };
    const current = { n: "NaN", m: { a: 1 }, u: null, d: new Date(1), z: 0, list: ["b", "c"] };
    await manager.save("t", { ...old, items: [{ x: 1 }, { x: 2, y: 1 }, { x: 3 }], text: words.join(" ") });
    await manager.save("t", {
      ...current,
      items: [{ x: 1 }, { x: 2, y: 5 }, { x: 3 }],
      text: words.with(15, "NEW").join(" "),
    });
    await manager.close();
    const { stdout } = await run("diff", "t", "@1", "@2");
    expect(stdout.split("\n").slice(2)).toEqual([
      '~ n: NaN => "NaN"',
      '~ m: Map {"a":1} => {"a":1}',
      "~ u: undefined => null",
      '~ d: Date "1970-01-01T00:00:00.000Z" => Date "1970-01-01T00:00:00.001Z"',
      "~ z: -0 => 0",
      '- list[0]: "a"',
      "~ items[1].y: 1 => 5",
      '~ text: … "word11 word12 word13 word14 word15 word16 word17 word18 word19 " … => … "word11 word12 word13 word14 NEW word16 word17 word18 word19 " …',
      "",
    ]);
    expect((await run("diff", "t", "@1", "@2", "--exit-code")).code).toBe(6);
    const [, , , date] = JSON.parse((await run("diff", "t", "@1", "@2", "--json")).stdout);
    expect(date).toMatchObject({ path: ["d"], to: { $waymark: "Date", value: "1970-01-01T00:00:00.001Z" } });
  });

  it("compares states of different versions, as they were saved", async () => {
    const { manager, run, open } = await newPlace();
    await manager.save("t", { n: 1 });
    await manager.close();
    const later = await open(undefined, { stateVersion: 3 });
    for (let n = 2; n <= 4; n++) await later.save("t", { n, more: true });
    await later.close();
    expect((await run("diff", "t", "@1", "@2")).stdout.split("\n").slice(2)).toEqual([
      "~ n: 1 => 2",
      "+ more: true",
      "",
    ]);
    expect(JSON.parse((await run("diff", "t", "@1", "@2", "--json")).stdout)).toEqual([
      { kind: "changed", path: ["n"], from: 1, to: 2 },
      { kind: "added", path: ["more"], to: true },
    ]);
    const found = await run("bisect", "t", "--json", "--command", "! grep -q more");
    const { firstBad, lastGood } = JSON.parse(found.stdout);
    expect([firstBad, lastGood]).toEqual(JSON.parse((await run("list", "t", "--json")).stdout).slice(-2));
  });

  it("distinguishes added, removed and moved parts", async () => {
    const { manager, run } = await newPlace();
    await manager.save("t", { list: [{ id: 1 }, { id: 2 }, { id: 3 }], old: true });
    await manager.save("t", { list: [{ id: 3 }, { id: 1 }, { id: 2, x: 1 }], "a b": [1] });
    await manager.close();
    const { stdout } = await run("diff", "t", "@1", "@2");
    expect(stdout.split("\n").slice(2)).toEqual([
      "+ list[2].x: 1",
      "~ list[2] moved to [0]",
      "- old: true",
      '+ ["a b"]: [1]',
      "",
    ]);
  });
});

describe("waymark bisect", () => {
  it("finds the first checkpoint whose state, on stdin, makes the command fail", async () => {
    const { run } = await placeWithTasks();
    const { code, stdout, stderr } = await run("bisect", "build-42", "--command", `grep -q '"phase":[123],'`);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^The first bad checkpoint is @4 .*\nThe last good one is @3 /);
    expect(stderr).toMatch(/^@1 .*: good\n@6 .*: bad\n/);
    const json = await run("bisect", "build-42", "--json", "--command", `echo noise; grep -q '"phase":[123],'`);
    expect(JSON.parse(json.stdout)).toMatchObject({ firstBad: { sequence: 4 }, lastGood: { sequence: 3 } });
  });

  it.each(["-x", `it's "a" $(touch owned)`, "two\nlines \u001b]0;owned\u0007"])(
    "shows commands that work in a shell as they are, for the task %j",
    async (taskId) => {
      const { cwd, manager } = await newPlace();
      for (let n = 1; n <= 2; n++) await manager.save(taskId, { n });
      await manager.close();
      const bisect = (command: string) =>
        waymark({ cwd }, ["bisect", "--storage", "sqlite:checkpoints.db", "--command", command, "--", taskId]);

      const { stdout } = await bisect("grep -q 1");
      const [, see = ""] = /^See: (waymark diff .*)$/m.exec(stdout) ?? [];
      expect(await inShell(cwd, see, "bash")).toMatch(/^--- @1 .*\n\+\+\+ @2 .*\n~ n: 1 => 2\n$/);

      const { stderr } = await bisect("no-such-command; exit 127");
      const [, byHand = ""] = /Try it by hand: (waymark show .*) \| no-such-command; exit 127$/m.exec(stderr) ?? [];
      expect(JSON.parse(await inShell(cwd, byHand, "bash"))).toEqual({ n: 1 });
      expect(readdirSync(cwd)).not.toContain("owned");
    },
  );

  it("needs as many steps as a binary search", async () => {
    const { manager, run } = await newPlace("sqlite:checkpoints.db");
    for (let n = 1; n <= 64; n++) await manager.save("t", n);
    await manager.close();
    const { stdout, stderr } = await run("bisect", "t", "--command", "test $(cat) -lt 37");
    expect(stdout).toContain("is @37 ");
    expect(stderr.trim().split("\n").length).toBeLessThanOrEqual(2 + 6);
  });

  it("checks both ends, and reports which is wrong", async () => {
    const { run } = await placeWithTasks();
    const badGood = await run("bisect", "build-42", "--good", "@2", "--command", "false");
    expect([badGood.code, badGood.stderr]).toEqual([1, expect.stringContaining("@2 should be good, and is bad")]);
    const allGood = await run("bisect", "build-42", "--command", "true");
    expect([allGood.code, allGood.stderr]).toEqual([1, expect.stringContaining("@6 should be bad, and is good")]);
    const one = await run("bisect", "done", "--command", "true");
    expect([one.code, one.stderr]).toEqual([
      1,
      expect.stringMatching(/@1 .*: good\nwaymark: .*should be bad, and is good/),
    ]);
    expect((await run("bisect", "build-42", "--good", "@5", "--bad", "@2", "--command", "true")).code).toBe(2);
  });

  it("reports that no good checkpoint is known if the oldest already fails", async () => {
    const { run } = await placeWithTasks();
    const allBad = await run("bisect", "build-42", "--command", "false");
    expect(allBad).toMatchObject({ code: 0, stderr: expect.stringMatching(/^@1 .*: bad\n$/) });
    expect(allBad.stdout).toMatch(/^The first bad checkpoint is @1 .*\nNo good one is known: the oldest .* fails\.\n$/);
    const json = await run("bisect", "build-42", "--json", "--command", "false");
    expect(JSON.parse(json.stdout)).toMatchObject({ firstBad: { sequence: 1 }, lastGood: null });
    expect((await run("bisect", "done", "--command", "false")).stdout).toContain("The first bad checkpoint is @1 ");
  });

  it("skips with 125, and ends at a command that can't be run or is killed", async () => {
    const { run } = await placeWithTasks();
    const skipping = `case $WAYMARK_SEQUENCE in 3|4) exit 125;; 1|2) exit 0;; *) exit 1;; esac`;
    const skipped = await run("bisect", "build-42", "--command", skipping);
    expect(skipped.code).toBe(1);
    expect(skipped.stderr).toContain("among the 3 checkpoints from @3 to @5");
    const none = await run("bisect", "build-42", "--command", "exit 125");
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("No checkpoint could be judged.")]);
    const atEnds = `case $WAYMARK_SEQUENCE in 1|6) exit 125;; 2|3) exit 0;; *) exit 1;; esac`;
    expect((await run("bisect", "build-42", "--command", atEnds)).stdout).toContain("The first bad checkpoint is @4 ");
    expect((await run("bisect", "build-42", "--command", "no-such-command-at-all")).stderr).toContain("ended with 127");
    expect((await run("bisect", "build-42", "--command", "kill -9 $$")).stderr).toContain("isn't a verdict");
  });
});

describe("waymark stats", () => {
  it("counts checkpoints and bytes by task and stage", async () => {
    const { run } = await placeWithTasks();
    const { stdout } = await run("stats");
    expect(stdout).toMatch(/build-42 +stage-1 +3 +\d+ B\nbuild-42 +stage-0 +3 +\d+ B\n/);
    expect(stdout).toMatch(/\n3 tasks, 8 checkpoints, \d+ B of states; the storage takes [\d.]+ KiB on the disk\n$/);
    const [first] = JSON.parse((await run("stats", "--json")).stdout);
    expect(first).toMatchObject({
      taskId: "build-42",
      checkpoints: 6,
      stages: [{ stage: "stage-1", checkpoints: 3 }, { stage: "stage-0" }],
    });
  });
});

describe("a damaged storage", () => {
  it("is shown as far as it is intact, with a warning and exit code 5", async () => {
    const place = await newPlace("files:store");
    for (let n = 1; n <= 3; n++) await place.manager.save("t", { n });
    await place.manager.close();
    const [file] = readdirSync(join(place.cwd, "store", "t")).filter((name) => name.startsWith("000000000003"));
    writeFileSync(join(place.cwd, "store", "t", file!), "{");
    const list = await place.run("list", "t", "--json");
    expect(JSON.parse(list.stdout)).toHaveLength(2);
    expect(list.code).toBe(5);
    expect(list.stderr).toMatch(/^warning: skipped a damaged record at .*\nwarning: .*untouched/);
    const show = await place.run("show", "t", "--path", "n");
    expect([show.stdout, show.code]).toEqual(["2\n", 5]);
    expect((await place.run("show", "t", "@3")).code).toBe(5);
    expect((await place.run("export")).code).toBe(5);
  });
});

describe("pipes and colours", () => {
  it("colours pipes only with FORCE_COLOR, and never with NO_COLOR", async () => {
    const { place } = await placeWithTasks();
    const output = async (env: NodeJS.ProcessEnv) =>
      (await waymark({ cwd: place.cwd, env: { ...place.env, ...env } }, ["tasks"])).stdout;
    expect(await output({ CI: "1" })).not.toContain("\u001b[");
    expect(await output({ FORCE_COLOR: "1" })).toContain("\u001b[31mfailed");
    expect(await output({ FORCE_COLOR: "1", NO_COLOR: "1" })).not.toContain("\u001b[");
  });
});
