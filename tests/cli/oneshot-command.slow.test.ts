import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { stopClock } from "../support/stopped-clock.js";
import { project, startOneshot } from "./oneshot-project.js";
import { cleanEnv, eventsIn, inShell, WAYMARK, waymark } from "./waymark.js";

/** Drops the super-user's right to read everything. */
const asNobody =
  process.getuid?.() === 0 ? ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"] : [];
const whyNoRefusal =
  asNobody.length > 0 && spawnSync("setpriv", ["--version"]).error !== undefined
    ? " (skipped: there is no setpriv)"
    : "";

describe("waymark oneshot", () => {
  it("runs a plan, reports it in lines, and leaves no checkpoint", async () => {
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

  it("lists the running features, and reports if there are none", async () => {
    const { oneshot } = await project([
      { id: "a", command: "true" },
      { id: "b", command: "false" },
    ]);
    expect(await oneshot("list")).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("No feature has a checkpoint"),
    });
    const clock = stopClock();
    await oneshot("F01");
    for (const [ms, ago] of [
      [0, "just now"],
      [5_000, "5 seconds ago"],
    ] as const) {
      clock.pass(ms);
      const { code, stdout } = await oneshot("list");
      expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`F01 +failed +1 +b +${ago}\n$`))]);
    }
    const { checkpoints } = JSON.parse((await oneshot("list", "--json")).stdout);
    expect(checkpoints).toMatchObject([{ featureId: "F01", status: "failed", completedWs: ["a"] }]);
  });

  it.skipIf(whyNoRefusal !== "")(
    `lists the features that it can read, even beside an unreadable one${whyNoRefusal}`,
    async () => {
      const { cwd, oneshot } = await project([{ id: "a", command: "false" }]);
      for (const feature of ["F01", "F02"]) await oneshot(feature, "--plan", ".sdp/plans/F01.json");
      const path = join(cwd, ".sdp", "checkpoints", "F01.json");
      chmodSync(path, 0);
      const list = (...args: string[]) => {
        const [program = "", ...first] = [...asNobody, process.execPath, WAYMARK, "oneshot", "list", ...args];
        return spawnSync(program, first, { cwd, env: cleanEnv(), encoding: "utf8" });
      };
      const { status, stdout, stderr } = list();
      expect([status, stdout]).toEqual([1, expect.stringMatching(/^FEATURE .*\nF02 +failed +0 +a +\w.*\n$/)]);
      expect(stderr).toMatch(new RegExp(`^warning: Could not read feature "F01": EACCES at ${path}\\. .*\n$`));
      const { checkpoints, damaged } = JSON.parse(list("--json").stdout);
      expect([checkpoints, damaged]).toMatchObject([[{ featureId: "F02" }], [{ feature: "F01" }]]);
    },
  );

  it("shows a feature's checkpoint, and how to continue", async () => {
    const { cwd, oneshot } = await project([
      { id: "a", command: "true" },
      { id: "b", command: "test -e mended" },
    ]);
    const none = await oneshot("status", "F01");
    expect([none.code, none.stdout]).toEqual([3, ""]);
    expect(none.stderr).toMatch(/^waymark: Feature "F01" has no checkpoint in .*"waymark oneshot list" shows.*\n$/);
    const clock = stopClock();
    const time = `${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC, 3 hours ago`;
    await oneshot("F01");
    clock.pass(3 * 60 * 60_000);

    const { code, stdout } = await oneshot("status", "F01");
    const rows = [`started +${time}`, `saved +${time}`, "plan +.sdp/plans/F01.json", "completed +a", "current +b"];
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(new RegExp(`^feature +F01\nstatus +failed\n${rows.join("\n")}\nContinue with: .*\n$`)),
    ]);
    const json = JSON.parse((await oneshot("status", "F01", "--json")).stdout);
    expect(json).toMatchObject({
      featureId: "F01",
      completedWs: ["a"],
      currentWs: "b",
      resume: "waymark oneshot F01 --resume",
    });
    expect((await oneshot("status")).stdout).toBe((await oneshot("list")).stdout);
    writeFileSync(join(cwd, "mended"), "");
    expect(await inShell(cwd, json.resume)).toContain("Completed: 2 of 2 workstreams.");
  });

  it("reports whether a feature is being run, or its run was killed", async () => {
    const { cwd, oneshot } = await project([{ id: "a", command: "echo waiting; exec sleep 600" }]);
    const { child, ended, lines } = startOneshot(cwd, "F01");
    for await (const line of lines) {
      if (line !== "a | waiting") continue;
      const { stdout } = await oneshot("status", "F01");
      expect(stdout).toMatch(/status +running\n[\s\S]*current +a\nIt is being run now\.\n$/);
      expect(JSON.parse((await oneshot("status", "F01", "--json")).stdout)).not.toHaveProperty("resume");
      child.kill("SIGKILL");
    }
    await ended;
    expect((await oneshot("status", "F01")).stdout).toMatch(
      /status +died\n[\s\S]*Continue with: waymark oneshot F01 --resume\n$/,
    );
    expect((await oneshot("list")).stdout).toMatch(/F01 +died/);
  });

  it("reports that a feature is being run, and not that --resume would help", async () => {
    const { cwd, oneshot, saved } = await project([{ id: "a", command: "echo waiting; exec sleep 600" }]);
    const { child, ended, lines } = startOneshot(cwd, "F01");
    for await (const line of lines) {
      if (line !== "a | waiting") continue;
      for (const flags of [[], ["--resume"], ["--restart"]]) {
        const { code, stdout, stderr } = await oneshot("F01", ...flags);
        expect([code, stdout]).toEqual([6, ""]);
        expect(stderr).toMatch(
          /^waymark: Feature "F01" is being run already by agent ".*", started .*Z\. Nothing was changed; wait for that run, or end it and resume\. \[CHECKPOINT_CONFLICT\]\n$/,
        );
      }
      expect(saved()).toMatchObject({ status: "running", current_ws: "a" });
      child.kill("SIGINT");
    }
    await ended;
  });

  it.each(["list", "run", "status"])(
    "runs a feature that is called %s, and says how to continue it",
    async (feature) => {
      const { cwd, oneshot } = await project([{ id: "a", command: "test -e mended" }]);
      expect((await oneshot("run", feature, "--plan", ".sdp/plans/F01.json")).code).toBe(1);
      const { resume } = JSON.parse((await oneshot("status", feature, "--json")).stdout);
      writeFileSync(join(cwd, "mended"), "");
      expect(await inShell(cwd, resume)).toContain(`${feature}: resumed, 0 of 1 workstream completed\n`);
    },
  );

  it("checks a plan, of a feature or by its file, and runs and saves nothing", async () => {
    const { cwd, oneshot } = await project([
      { id: "a", command: "touch ran" },
      { id: "b", command: "true", depends_on: ["a"] },
    ]);
    writeFileSync(join(cwd, "my plan.yaml"), "workstreams:\n  - { id: x, command: touch ran }\n");
    const right = { code: 0, stderr: "" };
    expect(await oneshot("F01", "--check")).toEqual({
      ...right,
      stdout:
        ".sdp/plans/F01.json: 2 workstreams, nothing is wrong\n          1  a  touch ran\n          2  b  true  (after a)\n",
    });
    expect(await oneshot("--check", "--plan", "my plan.yaml")).toEqual({
      ...right,
      stdout: "my plan.yaml: 1 workstream, nothing is wrong\n          1  x  touch ran\n",
    });
    expect([existsSync(join(cwd, "ran")), readdirSync(join(cwd, ".sdp"))]).toEqual([false, ["plans"]]);
  });

  describe("with workstream files", () => {
    /** A project with three workstreams of F01, one of which is completed, and one of another feature. */
    async function workstreamFiles() {
      const { cwd, oneshot, saved, left } = await project([]);
      const folder = join(cwd, "docs", "ws");
      mkdirSync(folder, { recursive: true });
      const put = (id: string, fields: string) =>
        writeFileSync(join(folder, `${id}.md`), `---\nws_id: ${id}\n${fields}\n---\n# ${id}\n`);
      put("00-001-01", "feature: F01\nstatus: completed");
      put("00-001-02", "feature: F01\nstatus: backlog\ndepends_on: [00-001-03]");
      put("00-001-03", "feature: F01\nstatus: backlog\ndepends_on: [00-001-01, 00-002-01]");
      put("00-002-01", "feature: F02\nstatus: completed");
      return { cwd, oneshot, saved, left, put, args: ["--workstreams", "docs/ws", "--command"] };
    }

    it("reports what is done and what would run, in which order, and runs nothing", async () => {
      const { cwd, oneshot, args } = await workstreamFiles();
      expect(await oneshot("F01", ...args, 'touch "ran-$WS"', "--check")).toEqual({
        code: 0,
        stderr: "",
        stdout: [
          "docs/ws: 3 workstreams, 1 completed, nothing is wrong",
          "  completed  00-001-01  docs/ws/00-001-01.md",
          "          1  00-001-03  docs/ws/00-001-03.md  (after 00-001-01)",
          "          2  00-001-02  docs/ws/00-001-02.md  (after 00-001-03)",
          'Each runs: touch "ran-$WS"',
          "",
        ].join("\n"),
      });
      expect(readdirSync(cwd).sort()).toEqual([".sdp", "docs"]);
    });

    it("runs the open ones, and resumes without the options", async () => {
      const { cwd, oneshot, saved, left, args } = await workstreamFiles();
      const first = await oneshot("F01", ...args, 'echo "$WS of $WS_FILE"; test "$WS" = 00-001-03 || test -e mended');
      expect(first).toMatchObject({ code: 1, stderr: "" });
      expect(first.stdout).toContain(`00-001-03 | 00-001-03 of ${join(cwd, "docs/ws/00-001-03.md")}\n`);
      expect(first.stdout).toContain("Completed: 2 of 3 workstreams; failed: 1.");
      expect(saved()).toMatchObject({ completed_ws: ["00-001-03"], waymark: { workstreams: "docs/ws" } });
      const status = await oneshot("status", "F01");
      expect(status.stdout).toMatch(/workstreams +docs\/ws\ncommand +echo "\$WS/);

      writeFileSync(join(cwd, "mended"), "");
      const second = await oneshot("F01", "--resume");
      expect([second.code, second.stdout]).toEqual([0, expect.stringContaining("Completed: 3 of 3 workstreams.")]);
      expect(left()).toEqual([]);
    });

    it("reports which one of another feature is missing, and runs nothing", async () => {
      const { oneshot, put, left, args } = await workstreamFiles().then((parts) => ({
        ...parts,
        left: () => existsSync(join(parts.cwd, ".sdp", "checkpoints")),
      }));
      put("00-002-01", "feature: F02\nstatus: in_progress");
      const { code, stderr } = await oneshot("F01", ...args, "true $WS");
      expect([code, stderr]).toEqual([
        2,
        expect.stringContaining(
          'docs/ws/00-001-03.md: "00-001-03" depends on "00-002-01", which is not completed: docs/ws/00-002-01.md is of ' +
            'feature "F02" and has the status "in_progress"',
        ),
      ]);
      expect(left()).toBe(false);
    });

    it.each([
      ["the folder alone", ["F01", "--workstreams", "docs/ws"], "need each other"],
      ["the command alone", ["F01", "--command", "x"], "need each other"],
      ["a plan too", ["F01", "--workstreams", "docs/ws", "--command", "x", "--plan", "p.yaml"], "cannot be used with"],
      ["a Markdown plan", ["F01", "--plan", "docs/ws/00-001-01.md"], "it is Markdown, and a plan is YAML or JSON"],
    ])("refuses %s", async (_what, words, message) => {
      const { oneshot } = await workstreamFiles();
      const { code, stderr } = await oneshot(...words);
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    });
  });

  it("names a checkpoint file of another program, never touches it, and accepts another folder", async () => {
    const { cwd, oneshot } = await project([{ id: "a", command: "test -e mended" }]);
    const path = join(cwd, ".sdp", "checkpoints", "F01.json");
    mkdirSync(join(cwd, ".sdp", "checkpoints"));
    const foreign = '{"feature_id":"F01","steps":[]}';
    writeFileSync(path, foreign);
    const said = `${path} is no checkpoint of feature "F01": it has no agent_id, status, `;
    for (const words of [[], ["--resume"], ["--restart"]]) {
      const { code, stderr } = await oneshot("F01", ...words);
      expect([code, stderr]).toEqual([1, expect.stringContaining(said)]);
      expect(stderr).toMatch(
        / it was left untouched\. Use another name for the feature, or another folder for Waymark's checkpoints \(--dir\)\. \[UNSUPPORTED_FORMAT\]\n$/,
      );
    }
    const list = await oneshot("list");
    expect([list.code, list.stderr]).toEqual([3, expect.stringContaining(`warning: ${said}`)]);
    expect(JSON.parse((await oneshot("list", "--json")).stdout)).toMatchObject({
      checkpoints: [],
      damaged: [],
      foreign: [expect.stringContaining(said)],
    });

    expect((await oneshot("F01", "--dir", "state")).code).toBe(1);
    expect((await oneshot("list", "--dir", "state")).stdout).toMatch(/F01 +failed/);
    const { resume } = JSON.parse((await oneshot("status", "F01", "--dir", "state", "--json")).stdout);
    expect(resume).toBe("waymark oneshot F01 --dir state --resume");
    writeFileSync(join(cwd, "mended"), "");
    expect(await inShell(cwd, resume)).toContain("Completed: 1 of 1 workstream.");
    expect(readFileSync(path, "utf8")).toBe(foreign);
  });

  it.each([
    ["is invalid", "workstreams:\n  - { id: a }\n", 2],
    ["is no YAML", "workstreams: [", 2],
    ["isn't there", undefined, 3],
  ])("finds the same fault as a run, in a plan that %s", async (_what, text, exitCode) => {
    const { cwd, oneshot } = await project([]);
    if (text !== undefined) writeFileSync(join(cwd, "plan.yaml"), text);
    const checked = await oneshot("F01", "--check", "--plan", "plan.yaml");
    expect(checked).toEqual(await oneshot("F01", "--plan", "plan.yaml"));
    expect([checked.code, checked.stdout]).toEqual([exitCode, ""]);
  });

  it("reports a run in lines of JSON, the last of which says how it ended", async () => {
    const { cwd, oneshot } = await project([
      { id: "a", command: "printf 'one\\033\\n'" },
      { id: "b", command: "echo broken >&2; test -e mended" },
    ]);
    const failed = await oneshot("F01", "--json");
    expect([failed.code, failed.stderr]).toEqual([1, ""]);
    const events = eventsIn(failed.stdout);
    expect(events.map(({ type }) => type)).toEqual([
      "runStarted",
      "workstreamStarted",
      "output",
      "workstreamFinished",
      "workstreamStarted",
      "output",
      "workstreamFailed",
      "runEnded",
      "ended",
    ]);
    for (const { durationMs } of events.filter((event) => "durationMs" in event)) {
      expect(durationMs).toSatisfy(Number.isInteger);
    }
    expect(events[2]).toEqual({ type: "output", workstream: "a", stream: "stdout", line: "one\u001b" });
    expect(events.at(-1)).toMatchObject({
      status: "failed",
      result: { success: false, completed: ["a"], failed: [{ workstream: "b", exitCode: 1, outputTail: ["broken"] }] },
      resume: "waymark oneshot F01 --json --resume",
    });

    writeFileSync(join(cwd, "mended"), "");
    const completed = await oneshot("F01", "--json", "--resume");
    expect(completed).toMatchObject({ code: 0, stderr: "" });
    expect(eventsIn(completed.stdout).at(-1)).toMatchObject({ status: "completed", result: { completed: ["a", "b"] } });
  });

  it("also reports errors in JSON", async () => {
    const { oneshot } = await project([{ id: "a", command: "true" }]);
    const { code, stdout, stderr } = await oneshot("F01", "--json", "--resume");
    expect([code, eventsIn(stdout)]).toEqual([
      3,
      [
        {
          type: "ended",
          status: "error",
          error: { code: "CHECKPOINT_NOT_FOUND", message: expect.stringContaining("can't be resumed") },
        },
      ],
    ]);
    expect(stderr).toContain("can't be resumed");
  });

  it("reports what failed, with its last lines, and continues with --resume once it is fixed", async () => {
    const { cwd, oneshot, saved, left } = await project([
      { id: "a", command: "echo a >> done" },
      { id: "b", command: "echo '\u001b[2Jbroken'; test -e mended" },
      { id: "c", command: "echo c >> done", depends_on: ["b"] },
    ]);
    const failed = await oneshot("F01");
    expect(failed.code).toBe(1);
    expect(failed.stdout).toContain(
      "b exited with 1; its last lines:\n  \\u001b[2Jbroken\n" +
        "Completed: 1 of 3 workstreams; failed: 1. Not started: 1. Fix it, then continue with --resume.\n",
    );
    expect(saved()).toMatchObject({ status: "failed", completed_ws: ["a"], current_ws: "b" });

    const again = await oneshot("F01");
    expect([again.code, again.stdout]).toEqual([6, ""]);
    expect(again.stderr).toMatch(
      /^waymark: Feature "F01" has been started already: 1 of its workstreams completed, "b" is current\. Its status is failed, last updated .* ago\. Nothing was changed; resume it to continue from there, or restart it to start over \(--resume, --restart\)\. \[CHECKPOINT_CONFLICT\]\n$/,
    );

    writeFileSync(join(cwd, "mended"), "");
    const resumed = await oneshot("F01", "--resume");
    expect(resumed.stdout).toContain("F01: resumed, 1 of 3 workstreams completed\n");
    expect([resumed.code, readFileSync(join(cwd, "done"), "utf8")]).toEqual([0, "a\nc\n"]);
    expect(left()).toEqual([]);
  });

  it.each([
    ["long ago", -9, /is stale: its last update was 9 days ago/],
    ["far in the future", 9, /may be stale: its last update is 9 days ahead of this machine's clock/],
  ])(
    "refuses to resume from a checkpoint saved %s, names its flags, and accepts it with --force",
    async (_when, days, message) => {
      const { cwd, oneshot } = await project([{ id: "a", command: "true" }]);
      stopClock();
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
        /It was left untouched\. Use force, accept a greater age, or start anew \(--force, --max-age, --restart\)\. \[CHECKPOINT_STALE\]\n$/,
      );
      expect(stderr).not.toMatch(/force: true|maxAgeMs/);
      const { resume } = JSON.parse((await oneshot("status", "F01", "--json")).stdout);
      expect(resume).toBe("waymark oneshot F01 --force --resume");
      expect((await oneshot("F01", "--resume", "--max-age", "10d")).code).toBe(0);
    },
  );

  it("warns of completed workstreams that aren't in the plan, and doesn't count them", async () => {
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
      /^warning: .*"F01" lists completed workstreams that aren't in the plan: "a ", "00-009-01"\. They are ignored.*\n$/,
    );
    expect(stdout).toContain("F01: resumed, 0 of 2 workstreams completed\n");
    expect([code, stdout]).toEqual([1, expect.stringContaining("\nCompleted: 1 of 2 workstreams; failed: 1. Fix it")]);
    // The former plan may come back.
    expect(saved()["completed_ws"]).toEqual([...completed, "a"]);
  });

  it("accepts another plan, and starts over with --restart", async () => {
    const { cwd, oneshot } = await project([{ id: "a", command: "echo a >> done; exit 1" }]);
    writeFileSync(join(cwd, "other.yaml"), "workstreams:\n  - { id: x, command: echo x >> done }\n");
    expect((await oneshot("F01")).code).toBe(1);
    expect(await oneshot("F01", "--restart", "--plan", "other.yaml")).toMatchObject({ code: 0 });
    expect(readFileSync(join(cwd, "done"), "utf8")).toBe("a\nx\n");
  });

  it("sets an unreadable checkpoint aside at --restart, reports it, and starts over", async () => {
    const { cwd, oneshot, left } = await project([{ id: "a", command: "echo a >> done; test -e mended" }]);
    await oneshot("F01");
    const path = join(cwd, ".sdp", "checkpoints", "F01.json");
    const damaged = readFileSync(path, "utf8").replace('"failed"', '"paused"');
    writeFileSync(path, damaged);

    const refused = await oneshot("F01", "--resume");
    expect([refused.code, refused.stderr]).toEqual([5, expect.stringContaining("F01.json: it fails its checksum")]);
    expect(refused.stderr).toMatch(
      /, or restart the feature, which sets it aside \(--restart\)\. \[CHECKPOINT_CORRUPT\]\n$/,
    );
    expect((await oneshot("status", "F01")).code).toBe(5);
    expect(left()).toEqual(["F01.json"]);

    writeFileSync(join(cwd, "mended"), "");
    const { code, stderr } = await oneshot("F01", "--restart");
    const [aside = ""] = left();
    expect([code, left().length]).toEqual([0, 1]);
    expect(aside).toMatch(/^F01\.json\.damaged-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$/);
    expect(readFileSync(join(cwd, ".sdp", "checkpoints", aside), "utf8")).toBe(damaged);
    expect(stderr).toMatch(new RegExp(`^warning: .*"F01".*checksum.* set aside as .*${aside}.*\n$`));
    expect(readFileSync(join(cwd, "done"), "utf8")).toBe("a\na\n");
  });

  it("leaves an unreadable checkpoint in place if the plan can't be run", async () => {
    const { cwd, oneshot, left } = await project([{ id: "a", command: "exit 1" }]);
    await oneshot("F01");
    writeFileSync(join(cwd, ".sdp", "checkpoints", "F01.json"), "{");
    expect((await oneshot("F01", "--restart", "--plan", "none.yaml")).code).toBe(3);
    expect(left()).toEqual(["F01.json"]);
  });

  it("refuses a JSON plan that is not JSON, in one line", async () => {
    const { cwd, oneshot } = await project([]);
    writeFileSync(join(cwd, ".sdp", "plans", "F01.json"), '{ "workstreams": [\n  { "id": undefined\n} }');
    const { code, stderr } = await oneshot("F01");
    expect([code, stderr]).toEqual([2, expect.stringMatching(/F01\.json is not valid; nothing was run\. .*JSON/)]);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it.each([
    [
      "a plan with a mistake, by its field",
      ["F01", "--plan", "bad.yaml"],
      2,
      /bad\.yaml .*workstreams\[0\]\.command: is missing/,
    ],
    [
      "a plan that isn't there",
      ["F01", "--plan", "none.yaml"],
      3,
      /^waymark: The plan none\.yaml can't be read: ENOENT: no such file or directory\. Nothing was run \(--plan, --workstreams\)\.\n$/,
    ],
    [
      "a plan that is a folder",
      ["F01", "--plan", ".sdp"],
      3,
      /^waymark: The plan \.sdp can't be read: it is a folder, and a plan is a file\. Nothing was run \(--plan, --workstreams\)\.\n$/,
    ],
    [
      "a feature without a plan",
      ["F02"],
      3,
      /^waymark: No plan was given for feature "F02", and there is no \/.*\/F02\.yaml, \.yml, \.json\. Nothing was run; make one there, or name the plan's file or the folder of its workstreams \(--plan, --workstreams\)\.\n$/,
    ],
    [
      "nothing to resume",
      ["F02", "--resume"],
      3,
      /can't be resumed: .* It was completed, or never started\. Start it instead \(without --resume\)\. \[CHECKPOINT_NOT_FOUND\]\n$/,
    ],
    ["--resume with --restart", ["F01", "--resume", "--restart"], 2, /--resume.* cannot be used with .*--restart/],
    ["an invalid number of jobs", ["F01", "--jobs", "0"], 2, /whole number from 1/],
    ["a misspelled option", ["F01", "--job", "2"], 2, /--jobs/],
    ["no feature", ["--resume"], 2, /missing required argument 'feature'/],
    ["a check of no plan", ["--check"], 2, /missing required argument 'feature'/],
    ["--check with --json", ["F01", "--check", "--json"], 2, /--check.* cannot be used with .*--json/],
  ])("refuses %s", async (_what, args, exitCode, message) => {
    const { cwd, oneshot } = await project([{ id: "a", command: "true" }]);
    writeFileSync(join(cwd, "bad.yaml"), "workstreams:\n  - { id: a }\n");
    const { code, stdout, stderr } = await oneshot(...args);
    expect([code, stdout]).toEqual([exitCode, ""]);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("reports at Ctrl-C that it paused, and the line that continues it", async () => {
    const { cwd } = await project([]);
    const steps = [{ id: "a", command: "test -e go && exit; echo waiting; exec sleep 600" }];
    writeFileSync(join(cwd, "it's my plan.json"), JSON.stringify({ workstreams: steps }));
    const args = ["$HOME", "--plan", "it's my plan.json", "--restart", "--jobs", "2"];
    const { child, ended, lines, stderr } = startOneshot(cwd, ...args);
    for await (const line of lines) if (line === "a | waiting") child.kill("SIGINT");
    expect(await ended).toEqual([null, "SIGINT"]);
    const [, resume = ""] = /\nPaused\. Continue with: (.*)\n$/.exec(stderr()) ?? [];
    expect(resume).toBe("waymark oneshot '$HOME' --plan 'it'\\''s my plan.json' --jobs 2 --resume");
    writeFileSync(join(cwd, "go"), "");
    expect(await inShell(cwd, resume)).toContain("$HOME: resumed, 0 of 1 workstream completed\n");
  });

  it("has its features completed", async () => {
    const { cwd } = await project([{ id: "a", command: "exit 1" }]);
    await waymark({ cwd }, ["oneshot", "F01"]);
    const complete = async (...words: string[]) =>
      (await waymark({ cwd }, ["__complete", "--", "oneshot", ...words])).stdout;
    for (const words of [["status"], ["run"], [], ["--jobs", "2"]]) {
      expect([words, await complete(...words, "F")]).toEqual([words, "F01\n"]);
      expect([words, await complete(...words, "G")]).toEqual([words, ""]);
    }
    expect((await complete("")).split("\n")).toEqual(["run", "status", "list", "F01", ""]);
    expect(await complete("F01", "")).toBe("");
  });

  it("reports in JSON that it paused", async () => {
    const { cwd } = await project([{ id: "a", command: "echo waiting; exec sleep 600" }]);
    const { child, ended, lines } = startOneshot(cwd, "F01", "--json");
    const events: Record<string, unknown>[] = [];
    for await (const line of lines) {
      events.push(JSON.parse(line));
      if (line.includes('"line":"waiting"')) child.kill("SIGINT");
    }
    expect(await ended).toEqual([null, "SIGINT"]);
    expect(events.at(-1)).toEqual({ type: "ended", status: "paused", resume: "waymark oneshot F01 --json --resume" });
  });
});
