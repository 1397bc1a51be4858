import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { tempFolder } from "../support/temp-folder.js";
import { start, waymark } from "./waymark.js";

interface Step {
  readonly id: string;
  readonly command: string;
  readonly depends_on?: readonly string[];
}

/** A project with a plan for the feature F01. */
async function project(workstreams: readonly Step[]) {
  const cwd = await tempFolder();
  mkdirSync(join(cwd, ".sdp", "plans"), { recursive: true });
  writeFileSync(join(cwd, ".sdp", "plans", "F01.json"), JSON.stringify({ workstreams }));
  const checkpoint = join(cwd, ".sdp", "checkpoints", "F01.json");
  return {
    cwd,
    oneshot: (...args: string[]) => waymark({ cwd }, ["oneshot", ...args]),
    saved: () => JSON.parse(readFileSync(checkpoint, "utf8")) as Record<string, unknown>,
    left: () => readdirSync(join(cwd, ".sdp", "checkpoints")),
  };
}

/** Starts the command, and gives its lines of stdout as they come. */
function startOneshot(cwd: string, ...args: string[]) {
  const child = start({ cwd }, ["oneshot", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  if (child.stdout === null) throw new Error("It has a stdout.");
  return { child, ended: once(child, "close"), lines: createInterface({ input: child.stdout }) };
}

describe("waymark oneshot", () => {
  it("runs a plan, tells of it in lines, and leaves no checkpoint", async () => {
    const { oneshot, left } = await project([
      { id: "00-001-01", command: "echo compiled" },
      { id: "00-001-02", command: "echo tested >&2", depends_on: ["00-001-01"] },
    ]);
    const { code, stdout, stderr } = await oneshot("F01");
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout.replaceAll(/\d+\.\d s/g, "N s").split("\n")).toEqual([
      "F01: started, 0 of 2 workstreams completed",
      "00-001-01: started",
      "00-001-01 | compiled",
      "00-001-01: completed in N s",
      "00-001-02: started",
      "00-001-02 | tested",
      "00-001-02: completed in N s",
      "Completed: 2 of 2 workstreams.",
      "",
    ]);
    expect(left()).toEqual([]);
  });

  it("says what failed, with its last lines, and goes on with --resume once it is mended", async () => {
    const { cwd, oneshot, saved, left } = await project([
      { id: "a", command: "echo a >> done" },
      { id: "b", command: "echo '\u001b[2Jbroken'; test -e mended" },
      { id: "c", command: "echo c >> done", depends_on: ["b"] },
    ]);
    const failed = await oneshot("F01");
    expect(failed.code).toBe(1);
    expect(failed.stdout).toContain(
      "b exited with 1; its last lines:\n  \\u001b[2Jbroken\n" +
        "Completed: 1 of 3 workstreams; failed: 1. Not started: 1. Mend it, then go on with --resume.\n",
    );
    expect(saved()).toMatchObject({ status: "failed", completed_ws: ["a"], current_ws: "b" });

    const again = await oneshot("F01");
    expect([again.code, again.stdout]).toEqual([6, ""]);
    expect(again.stderr).toMatch(
      /^waymark: Feature "F01" has been started already.* \(--resume goes on from it, --restart begins anew\) \[CHECKPOINT_CONFLICT\]\n$/,
    );

    writeFileSync(join(cwd, "mended"), "");
    const resumed = await oneshot("F01", "--resume");
    expect(resumed.stdout).toContain("F01: resumed, 1 of 3 workstreams completed\n");
    expect([resumed.code, readFileSync(join(cwd, "done"), "utf8")]).toEqual([0, "a\nc\n"]);
    expect(left()).toEqual([]);
  });

  it.each([
    ["long ago", -9, /is stale: its last update was 9 days ago/],
    ["far in the future", 9, /may be stale: its last update is 8\.9 days ahead of this machine's clock/],
  ])(
    "refuses to resume from what was saved %s, names its flags, and takes it with --force",
    async (_when, days, message) => {
      const { cwd, oneshot } = await project([{ id: "a", command: "true" }]);
      const at = new Date(Date.now() + days * 86_400_000).toISOString();
      const checkpoint = { feature_id: "F01", agent_id: "", status: "paused", completed_ws: [], current_ws: "a" };
      mkdirSync(join(cwd, ".sdp", "checkpoints"));
      writeFileSync(
        join(cwd, ".sdp", "checkpoints", "F01.json"),
        JSON.stringify({ ...checkpoint, start_time: at, last_update: at }),
      );
      const { code, stderr } = await oneshot("F01", "--resume");
      expect([code, stderr]).toEqual([6, expect.stringMatching(message)]);
      expect(stderr).toMatch(
        /\(--force uses it, --max-age accepts more, --restart begins anew\) \[CHECKPOINT_STALE\]\n$/,
      );
      expect(stderr).not.toMatch(/force: true|maxAgeMs/);
      expect((await oneshot("F01", "--resume", "--max-age", "10d")).code).toBe(0);
    },
  );

  it("warns of what is completed and not in the plan, and doesn't count it", async () => {
    const { cwd, oneshot, saved } = await project([
      { id: "a", command: "echo a >> done" },
      { id: "b", command: "exit 1" },
    ]);
    mkdirSync(join(cwd, ".sdp", "checkpoints"));
    const now = new Date().toISOString();
    const checkpoint = {
      feature_id: "F01",
      agent_id: "x",
      status: "paused",
      current_ws: "a",
      start_time: now,
      last_update: now,
    };
    const completed = ["a ", "00-009-01"];
    writeFileSync(
      join(cwd, ".sdp", "checkpoints", "F01.json"),
      JSON.stringify({ ...checkpoint, completed_ws: completed }),
    );
    const { code, stdout, stderr } = await oneshot("F01", "--resume");
    expect(stderr).toMatch(
      /^warning: .*"F01" has "a ", "00-009-01" as completed, which the plan doesn't have: not counted.*\n$/,
    );
    expect(stdout).toContain("F01: resumed, 0 of 2 workstreams completed\n");
    expect([code, stdout]).toEqual([1, expect.stringContaining("\nCompleted: 1 of 2 workstreams; failed: 1. Mend it")]);
    // A plan may be put back.
    expect(saved()["completed_ws"]).toEqual([...completed, "a"]);
  });

  it("takes another plan, and begins anew with --restart", async () => {
    const { cwd, oneshot } = await project([{ id: "a", command: "echo a >> done; exit 1" }]);
    writeFileSync(join(cwd, "other.yaml"), "workstreams:\n  - { id: x, command: echo x >> done }\n");
    expect((await oneshot("F01")).code).toBe(1);
    expect(await oneshot("F01", "--restart", "--plan", "other.yaml")).toMatchObject({ code: 0 });
    expect(readFileSync(join(cwd, "done"), "utf8")).toBe("a\nx\n");
  });

  it("sets a checkpoint that can't be read aside at --restart, says so, and begins anew", async () => {
    const { cwd, oneshot, left } = await project([{ id: "a", command: "echo a >> done; test -e mended" }]);
    await oneshot("F01");
    const path = join(cwd, ".sdp", "checkpoints", "F01.json");
    const damaged = readFileSync(path, "utf8").replace('"failed"', '"paused"');
    writeFileSync(path, damaged);

    const refused = await oneshot("F01", "--resume");
    expect([refused.code, refused.stderr]).toEqual([5, expect.stringContaining("F01.json: it fails its seal")]);
    expect(left()).toEqual(["F01.json"]);

    writeFileSync(join(cwd, "mended"), "");
    const { code, stderr } = await oneshot("F01", "--restart");
    const [aside = ""] = left();
    expect([code, left().length]).toEqual([0, 1]);
    expect(aside).toMatch(/^F01\.json\.damaged-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$/);
    expect(readFileSync(join(cwd, ".sdp", "checkpoints", aside), "utf8")).toBe(damaged);
    expect(stderr).toMatch(new RegExp(`^warning: .*"F01".*seal.* set aside as .*${aside}.*\n$`));
    expect(readFileSync(join(cwd, "done"), "utf8")).toBe("a\na\n");
  });

  it("leaves a checkpoint that can't be read where it is, where the plan can't be run", async () => {
    const { cwd, oneshot, left } = await project([{ id: "a", command: "exit 1" }]);
    await oneshot("F01");
    writeFileSync(join(cwd, ".sdp", "checkpoints", "F01.json"), "{");
    expect((await oneshot("F01", "--restart", "--plan", "none.yaml")).code).toBe(3);
    expect(left()).toEqual(["F01.json"]);
  });

  it("names the file to move where --restart can't set it aside", async () => {
    const { cwd, oneshot } = await project([{ id: "a", command: "true" }]);
    const folder = join(cwd, ".sdp", "checkpoints", "F01.json");
    mkdirSync(folder, { recursive: true });
    const { code, stdout, stderr } = await oneshot("F01", "--restart");
    expect([code, stdout]).toEqual([5, ""]);
    expect(stderr).toMatch(new RegExp(`^waymark: ${folder} can't be read: .*move it away.*\n$`));
  });

  it.each([
    ["of which the end is missing", '{ "workstreams": [', /F01\.json:1:\d+: this is no JSON: /],
    [
      "with a word that JSON doesn't know",
      '{ "workstreams": [\n  { "id": undefined\n} }',
      /F01\.json:\d+:\d+: this is no JSON: /,
    ],
    ["without quotes", "{ workstreams: [ }", /F01\.json:1:\d+: this is no JSON: /],
    ["with a key twice", '{ "workstreams": [],\n "workstreams": [] }', /F01\.json:2:\d+: a key stands twice/],
  ])("refuses a JSON plan %s in the words of JSON", async (_what, text, message) => {
    const { cwd, oneshot } = await project([]);
    writeFileSync(join(cwd, ".sdp", "plans", "F01.json"), text);
    const { code, stderr } = await oneshot("F01");
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
    expect(stderr).not.toMatch(/YAML|flow|block|scalar|Map keys|implicit/i);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it.each([
    ["a plan with a mistake, by its line", ["F01", "--plan", "bad.yaml"], 2, /nothing was run\. bad\.yaml:2:\d+: /],
    ["a plan that isn't there", ["F01", "--plan", "none.yaml"], 3, /none\.yaml.*--plan/],
    ["nothing to resume", ["F02", "--resume"], 3, /nothing to resume.*--resume/],
    ["--resume with --restart", ["F01", "--resume", "--restart"], 2, /--resume.* cannot be used with .*--restart/],
    ["a number of jobs that is none", ["F01", "--jobs", "0"], 2, /whole number from 1/],
    ["a misspelled option", ["F01", "--job", "2"], 2, /--jobs/],
  ])("refuses %s", async (_what, args, exitCode, message) => {
    const { cwd, oneshot } = await project([{ id: "a", command: "true" }]);
    writeFileSync(join(cwd, "bad.yaml"), "workstreams:\n  - { id: a }\n");
    const { code, stdout, stderr } = await oneshot(...args);
    expect([code, stdout]).toEqual([exitCode, ""]);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("saves paused at Ctrl-C, ends by the signal, and goes on with --resume", async () => {
    const { cwd, oneshot, saved, left } = await project([
      { id: "a", command: "echo a >> done" },
      { id: "b", command: "test -e go || { echo waiting; exec sleep 600; }; echo b >> done" },
    ]);
    const { child, ended, lines } = startOneshot(cwd, "F01");
    for await (const line of lines) if (line === "b | waiting") child.kill("SIGINT");
    expect(await ended).toEqual([null, "SIGINT"]);
    expect(saved()).toMatchObject({ status: "paused", completed_ws: ["a"], current_ws: "b" });
    writeFileSync(join(cwd, "go"), "");
    expect(await oneshot("F01", "--resume")).toMatchObject({ code: 0 });
    expect(readFileSync(join(cwd, "done"), "utf8")).toBe("a\nb\n");
    expect(left()).toEqual([]);
  });

  it("goes on where nobody reads its lines any more", async () => {
    const { cwd, left } = await project([
      { id: "a", command: "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done" },
      { id: "b", command: "touch done" },
    ]);
    const { child, ended, lines } = startOneshot(cwd, "F01");
    await once(lines, "line");
    child.stdout?.destroy();
    expect(await ended).toEqual([0, null]);
    expect([existsSync(join(cwd, "done")), left()]).toEqual([true, []]);
  });

  it.each([6, 14])("killed with SIGKILL at line %d ends after --resume with each thing done", async (line) => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    const steps = ids.map((id, index) => ({
      id,
      command: `echo ${id}-1; echo ${id}-2; echo ${id} >> done`,
      depends_on: index < 4 ? [] : ["a"],
    }));
    const { cwd, oneshot, left, saved } = await project(steps);
    const { child, ended, lines } = startOneshot(cwd, "F01", "--jobs", "4");
    let toGo = line;
    for await (const _line of lines) if (--toGo === 0) child.kill("SIGKILL");
    await ended;
    const { completed_ws: completed } = saved();

    expect(await oneshot("F01", "--resume", "--jobs", "4")).toMatchObject({ code: 0, stderr: "" });
    const done = readFileSync(join(cwd, "done"), "utf8").trim().split("\n");
    expect([...new Set(done)].sort()).toEqual(ids);
    // What was completed was not done again.
    for (const id of completed as string[]) expect(done.filter((each) => each === id)).toHaveLength(1);
    expect(left()).toEqual([]);
  });
});
