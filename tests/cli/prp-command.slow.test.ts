import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { stopClock } from "../support/stopped-clock.js";
import { AGENT, project } from "./prp-project.js";
import { eventsIn, inShell, start, waymark } from "./waymark.js";

describe("waymark prp", () => {
  it("runs a PRP with a coder command, and shows its status", async () => {
    const { run, status, log, write } = await project();
    write("go");
    const { code, stdout } = await run();
    expect([code, stdout.trim().split("\n").at(-1)]).toEqual([0, "Complete, after 0 fix attempts."]);
    expect(log()).toEqual(["coder", "gate-1", "gate-2"]);
    expect((await status()).stdout).toMatch(/^TASK +STATUS +WHERE +WHEN +WHY\nP1\.M1 +completed +Complete +/);
    const { tasks, damaged } = JSON.parse((await status("--json")).stdout);
    expect([tasks, damaged]).toMatchObject([[{ taskId: "P1.M1", stage: "complete", status: "completed" }], []]);
  });

  it("warns that the project's transforms don't apply to its checkpoints", async () => {
    const { cwd, run, write } = await project();
    write("go");
    const transform = `{ name: "mine", encode: (body) => body, decode: (body) => body }`;
    writeFileSync(join(cwd, "waymark.config.mjs"), `export default { transforms: [${transform}] };`);
    const { code, stderr } = await run();
    expect(code).toBe(0);
    expect(stderr).toContain("waymark prp run writes its checkpoints as plain text");
  });

  it("killed with SIGKILL in a gate: reports that it died, and --resume doesn't ask the coder again", async () => {
    const { run, status, log, write, interrupted } = await project();
    expect(await interrupted("SIGKILL")).toEqual([null, "SIGKILL"]);
    expect((await status()).stdout).toMatch(/P1\.M1 +died +Gate 1 passed .*continue with --resume/);

    write("go");
    const refused = await run();
    expect(refused.code).toBe(6);
    expect(refused.stderr).toMatch(
      /^waymark: Task "P1\.M1" has been started already: running at validation-gate-1, .* Nothing was changed; resume it to continue from there, or restart it to start over \(--resume, --restart\)\. \[CHECKPOINT_CONFLICT\]\n$/,
    );
    expect((await run("--resume")).code).toBe(0);
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "gate-2"]);
  });

  it("reports that a PRP is being executed, and not that --resume would help", async () => {
    const { cwd, run } = await project();
    const child = start({ cwd }, ["prp", "run", "PRP.md", "--coder", "./agent", "--session", "session"]);
    const ended = once(child, "exit");
    for await (const line of createInterface({ input: child.stdout! })) {
      if (line !== "waiting") continue;
      for (const flags of [[], ["--resume"], ["--restart"]]) {
        const { code, stdout, stderr } = await run(...flags);
        expect([code, stdout]).toEqual([6, ""]);
        expect(stderr).toMatch(
          /^waymark: Task "P1\.M1" is being executed already\. Nothing was changed; wait for that execution, or end it and execute the PRP again\. \[CHECKPOINT_CONFLICT\]\n$/,
        );
      }
      child.kill("SIGINT");
    }
    await ended;
  });

  it("reports at Ctrl-C that it paused, and the command that continues it", async () => {
    const { cwd, status, log, write, interrupted } = await project();
    const said: string[] = [];
    expect(await interrupted("SIGINT", said, "--task", "it's mine", "--restart")).toEqual([null, "SIGINT"]);
    expect((await status()).stdout).toMatch(/it's mine +paused +Paused: Gate 1 passed/);
    const [, resume = ""] = /\nPaused\. Continue with: (.*)\n$/.exec(said.join("")) ?? [];
    expect(resume).toBe("waymark prp run PRP.md --coder ./agent --session session --task 'it'\\''s mine' --resume");
    write("go");
    expect(await inShell(cwd, resume)).toContain("Complete, after 0 fix attempts.");
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "gate-2"]);
  });

  it("reports a run in lines of JSON, the last of which says how it ended", async () => {
    const { cwd, run, write } = await project();
    write("go");
    writeFileSync(join(cwd, "agent"), `${AGENT}echo "$PWD" >&2\n`);
    const { code, stdout, stderr } = await run("--json");
    expect([code, stderr]).toEqual([0, ""]);
    const taskId = "P1.M1";
    const gate = (level: number) => [
      { type: "stepStarted", taskId, kind: "gate", level, text: expect.any(String) },
      { type: "stepEnded", taskId, kind: "gate", level, exitCode: 0, text: `PRP P1.M1: Gate ${level} passed` },
    ];
    const events = eventsIn(stdout);
    const outputs = events.filter(({ type }) => type === "output");
    const steps = events.filter(({ type }) => type !== "output" && type !== "message");
    const text = '{"result":"success","message":"done"}\n';
    expect(outputs).toContainEqual({ type: "output", taskId, kind: "coder", stream: "stdout", text });
    expect(outputs).toContainEqual({ type: "output", taskId, kind: "coder", stream: "stderr", text: `${cwd}\n` });
    expect(steps).toEqual([
      { type: "stepStarted", taskId, kind: "coder", text: expect.any(String) },
      expect.objectContaining({ type: "stepEnded", taskId, kind: "coder", result: "success", message: "done" }),
      ...gate(1),
      ...gate(2),
      { type: "ended", status: "completed", result: expect.objectContaining({ success: true, fixAttempts: 0 }) },
    ]);
    expect(events[0]).toMatchObject({ type: "message", text: "Checkpoint saved", stage: "pre-execution" });
    expect(eventsIn((await run("--json", "--resume")).stdout)).toMatchObject([
      { type: "resumed" },
      { type: "ended", status: "completed", result: { resumedFrom: { stage: "complete" } } },
    ]);
  });

  it.each([
    ["it failed", "PRP.md", 1, { status: "failed", result: { error: "no idea" }, resume: expect.any(String) }],
    ["the PRP is wrong", "agent", 2, { status: "error", error: { code: "PRP_INVALID" } }],
  ])("says in JSON that %s", async (_what, prp, exitCode, ending) => {
    const { cwd } = await project();
    const coder = `echo '{"result":"error","message":"no idea"}'`;
    const { code, stdout } = await waymark({ cwd }, ["prp", "run", prp, "--coder", coder, "--json"]);
    expect([code, eventsIn(stdout).at(-1)]).toMatchObject([exitCode, { type: "ended", ...ending }]);
  });

  it("sets unreadable checkpoints aside at --restart, reports it, and starts over", async () => {
    const { cwd, run, log, unfinished, write } = await project();
    await unfinished();
    const folder = join(cwd, "session", "artifacts", "P1.M1");
    const damaged = readFileSync(join(folder, "checkpoints.json"), "utf8").slice(1);
    writeFileSync(join(folder, "checkpoints.json"), damaged);
    write("go");

    const refused = await run("--resume");
    expect(refused.code).toBe(5);
    expect(refused.stderr).toMatch(
      /Restore it from a backup, or repair the storage \(--restart sets the unreadable file aside and begins anew\)\. \[CHECKPOINT_CORRUPT\]\n$/,
    );
    expect(readdirSync(folder).filter((name) => name !== ".lock")).toEqual(["checkpoints.json"]);

    const { code, stderr } = await run("--restart");
    const [whole, aside = "", ...others] = readdirSync(folder)
      .filter((name) => name !== ".lock")
      .sort();
    expect([code, whole, others]).toEqual([0, "checkpoints.json", []]);
    expect(aside).toMatch(/^checkpoints\.json\.damaged-/);
    expect(readFileSync(join(folder, aside), "utf8")).toBe(damaged);
    expect(stderr).toMatch(new RegExp(`warning: .* Their file is set aside as ${join(folder, aside)}, .*\\n`));
    expect(log().slice(-3)).toEqual(["coder", "gate-1", "gate-2"]);
  });

  it("starts over in a file with damaged checkpoints, and keeps them there", async () => {
    const { cwd, run, unfinished, write } = await project();
    await unfinished();
    const path = join(cwd, "session", "artifacts", "P1.M1", "checkpoints.json");
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replaceAll('"stage"', '"stge"'));
    write("go");
    expect((await run("--resume")).code).toBe(5);
    expect((await run("--restart")).code).toBe(0);
    expect(readFileSync(path, "utf8")).toContain('"stge"');
  });

  it("reports why it failed, and exits with 1", async () => {
    const { run, cwd } = await project();
    writeFileSync(join(cwd, "agent"), '#!/bin/sh\necho \'{"result":"error","message":"no idea"}\'\n');
    const { code, stdout } = await run();
    expect(code).toBe(1);
    expect(stdout).toContain("Failed: ");
    expect(stdout).toContain("Fix it, then continue with --resume.");
    expect((await run()).stderr).toMatch(
      /^waymark: Task "P1\.M1" has been started already: failed, saved .*Z\. Nothing/,
    );
  });

  it("resumes a PRP whose boxes and prose have changed since its checkpoint, without the passed gates", async () => {
    const { cwd, run, log, write, interrupted } = await project();
    writeFileSync(join(cwd, "PRP.md"), `${readFileSync(join(cwd, "PRP.md"), "utf8")}\n- [ ] Made\n`);
    expect(await interrupted("SIGKILL")).toEqual([null, "SIGKILL"]);
    const text = readFileSync(join(cwd, "PRP.md"), "utf8");
    writeFileSync(join(cwd, "PRP.md"), `${text.replace("- [ ]", "- [x]")}\nMore.\n`);
    write("go");
    expect((await run("--resume")).code).toBe(0);
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "gate-2"]);
  });

  it("runs a passed gate again if the fix broke it, reports why, and fails", async () => {
    const { cwd, write } = await project();
    const gates = ["test ! -e lint-error", "test -e feature"].map(
      (gate, i) => `### Level ${i + 1}\n\n\`\`\`sh\n${gate}\n\`\`\`\n`,
    );
    writeFileSync(join(cwd, "PRP.md"), `# It\n\n## Validation Loop\n\n${gates.join("\n")}`);
    const args = ["prp", "run", "PRP.md", "--coder", "./agent", "--fixes", "0"];
    const failed = await waymark({ cwd }, args);
    expect([failed.code, failed.stdout]).toEqual([1, expect.stringContaining("Fix it, then continue with --resume.")]);
    write("feature");
    write("lint-error");
    const resumed = await waymark({ cwd }, [...args, "--resume"]);

    expect([resumed.code, resumed.stdout]).toEqual([1, expect.stringContaining("Failed: ")]);
    expect(resumed.stderr).toContain("Gate 1 runs again: the work has changed since it passed\n");
  });

  it.each([
    [
      "a PRP that isn't there",
      ["run", "none.md", "--coder", "true"],
      3,
      /^waymark: The PRP \/.*\/none\.md can't be read: ENOENT: no such file or directory\. Nothing was run\.\n$/,
    ],
    [
      "a PRP that is a folder",
      ["run", ".", "--coder", "true"],
      3,
      /^waymark: The PRP \/.* can't be read: it is a folder, and a PRP is a file\. Nothing was run\.\n$/,
    ],
    ["a PRP without gates", ["run", "agent", "--coder", "true"], 2, /no validation gate/],
    ["no coder", ["run", "PRP.md"], 2, /--coder/],
    [
      "nothing to resume",
      ["run", "PRP.md", "--coder", "true", "--resume"],
      3,
      /can't be resumed: .* Start it instead \(without --resume\)\. \[CHECKPOINT_NOT_FOUND\]\n$/,
    ],
    [
      "--resume with --restart",
      ["run", "PRP.md", "--coder", "true", "--resume", "--restart"],
      2,
      /--resume.* cannot be used with .*--restart/,
    ],
    ["an invalid timeout", ["run", "PRP.md", "--coder", "true", "--gate-timeout", "soon"], 2, /duration/],
    ["an unknown command", ["stat"], 2, /status/],
  ])("refuses %s", async (_what, args, exitCode, message) => {
    const { cwd } = await project();
    const { code, stdout, stderr } = await waymark({ cwd }, ["prp", ...args]);
    expect([code, stdout]).toEqual([exitCode, ""]);
    expect(stderr).toMatch(message);
  });

  it("reports that a PRP was complete before, when, and how to run it again", async () => {
    const { run, log, write } = await project();
    write("go");
    const clock = stopClock();
    expect((await run()).stdout).toContain("Complete, after 0 fix attempts.");
    clock.pass(3 * 60 * 60_000);
    const before = log();
    const again = await run("--resume");
    expect([again.code, again.stdout]).toEqual([
      0,
      "Complete already (3 hours ago). Nothing was run; --restart runs it again.\n",
    ]);
    expect(log()).toEqual(before);
  });

  it("reports that it ran a gate that was added after a PRP was complete", async () => {
    const { cwd, run, write } = await project();
    write("go");
    await run();
    const gate = "\n### Level 9: More\n\n```sh\ntest -e more\n```\n";
    writeFileSync(join(cwd, "PRP.md"), readFileSync(join(cwd, "PRP.md"), "utf8") + gate);
    const failed = await run("--resume", "--fixes", "0");
    write("more");
    const passed = await run("--resume");

    expect([failed.code, failed.stdout]).toEqual([1, expect.stringContaining("Failed: ")]);
    expect([passed.code, passed.stdout]).toEqual([0, expect.stringContaining("Complete, after 0 fix attempts.")]);
  });

  it("refuses JSON that isn't a PRP document, and a section of JSON", async () => {
    const { cwd } = await project();
    writeFileSync(join(cwd, "q.json"), '{"a":1}');
    const run = (...more: string[]) => waymark({ cwd }, ["prp", "run", "q.json", "--coder", "true", ...more]);
    expect((await run()).stderr).toMatch(/q\.json isn't a PRP document: taskId: [^\n]+; validationGates: [^\n]+\n$/);
    expect((await run("--section", "Tests")).stderr).toMatch(/is JSON, which has no sections \(--section\)/);
  });

  it("has no status if no PRP was run", async () => {
    const { cwd, status } = await project();
    const none = (folder: string) => ({ code: 3, stdout: "", stderr: `No PRP has been run in ${folder}.\n` });
    expect(await status()).toEqual(none(join(cwd, "session")));
    expect(await waymark({ cwd }, ["prp", "status"])).toEqual(none(cwd));
  });
});
