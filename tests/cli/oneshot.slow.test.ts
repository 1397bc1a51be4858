import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { project, startOneshot } from "./oneshot-project.js";
import { inShell } from "./waymark.js";

const TIMES = 10;

describe("waymark oneshot", () => {
  it("killed with SIGKILL at a random moment of --jobs 4, ten times, completes everything after --resume", async () => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    const steps = ids.map((id, index) => ({
      id,
      command: `echo ${id}-1; echo ${id}-2; echo ${id} >> done`,
      depends_on: index < 4 ? [] : ["a"],
    }));
    let midway = 0;
    for (let time = 0; time < TIMES; time++) {
      const { cwd, oneshot, left, saved } = await project(steps);
      const { child, ended, lines } = startOneshot(cwd, "F01", "--jobs", "4");
      // A moment is a line of output. Each run has some thirty of them.
      let toGo = 1 + Math.floor((time * 26) / TIMES);
      for await (const _line of lines) if (--toGo === 0) child.kill("SIGKILL");
      await ended;
      const completed = existsSync(join(cwd, ".sdp", "checkpoints", "F01.json")) ? saved()["completed_ws"] : undefined;
      if (Array.isArray(completed)) {
        midway += 1;
        const stderr = expect.stringMatching(/^(The last run .* waiting until its commands have ended\n)?$/);
        expect(await oneshot("F01", "--resume", "--jobs", "4"), `kill ${time}`).toMatchObject({ code: 0, stderr });
      } else {
        // Everything was completed, and the kill came between the checkpoint's removal and the lock's. The next run that
        // writes tidies up.
        expect((await oneshot("F01", "--resume")).code, `kill ${time}`).toBe(3);
        if (left().length > 0) expect((await oneshot("F01", "--jobs", "4")).code, `kill ${time}`).toBe(0);
      }
      const done = readFileSync(join(cwd, "done"), "utf8").trim().split("\n");
      expect([...new Set(done)].sort(), `kill ${time}`).toEqual(ids);
      for (const id of Array.isArray(completed) ? completed : []) {
        expect(
          done.filter((each) => each === id),
          `kill ${time}: ${id} was completed`,
        ).toHaveLength(1);
      }
      expect(left(), `kill ${time}`).toEqual([]);
    }
    // Some kills must have hit the work itself, or the test proves nothing.
    expect(midway).toBeGreaterThan(TIMES / 2);
  }, 300_000);

  it("reports what a resume right after a kill waits for, as soon as it waits", async () => {
    const stubborn = "mkfifo go; trap 'cat go; touch ended' TERM; echo waiting; sleep 600 & wait";
    const { cwd } = await project([{ id: "a", command: `test -e begun && exit; touch begun; ${stubborn}` }]);
    const killed = startOneshot(cwd, "F01");
    for await (const line of killed.lines) if (line === "a | waiting") killed.child.kill("SIGKILL");
    await killed.ended;
    const { child, ended, stderr } = startOneshot(cwd, "F01", "--resume");
    child.stderr?.on("data", () => void writeFile(join(cwd, "go"), ""));
    expect(await ended).toEqual([0, null]);
    expect(stderr()).toBe('The last run of feature "F01" was killed; waiting until its commands have ended\n');
    expect(existsSync(join(cwd, "ended"))).toBe(true);
  });

  it.each(["SIGTERM", "SIGHUP"] as const)(
    "says at %s that it paused, and the command that continues it",
    async (signal) => {
      const { cwd } = await project([]);
      const steps = [{ id: "a", command: "test -e go && exit; echo waiting; exec sleep 600" }];
      writeFileSync(join(cwd, "it's my plan.json"), JSON.stringify({ workstreams: steps }));
      const args = ["$HOME", "--plan", "it's my plan.json", "--restart", "--jobs", "2"];
      const { child, ended, lines, stderr } = startOneshot(cwd, ...args);
      for await (const line of lines) if (line === "a | waiting") child.kill(signal);
      expect(await ended).toEqual([null, signal]);
      const [, resume = ""] = /\nPaused\. Continue with: (.*)\n$/.exec(stderr()) ?? [];
      expect(resume).toBe("waymark oneshot '$HOME' --plan 'it'\\''s my plan.json' --jobs 2 --resume");
      writeFileSync(join(cwd, "go"), "");
      expect(await inShell(cwd, resume)).toContain("$HOME: resumed, 0 of 1 workstream completed\n");
    },
  );

  it("saves paused at Ctrl-C, ends by the signal, and continues with --resume", async () => {
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

  it("ends at once at a second Ctrl-C, and reports what that may cost", async () => {
    // The second signal comes so late that it doesn't count as npm's repetition of the first.
    const stubborn = "trap 'sleep 1; echo stopping; sleep 600' TERM; echo waiting; sleep 600 & wait";
    const { cwd, saved } = await project([{ id: "a", command: stubborn }]);
    const { child, ended, lines, stderr } = startOneshot(cwd, "F01");
    for await (const line of lines) if (/waiting|stopping/.test(line)) child.kill("SIGINT");
    expect(await ended).toEqual([null, "SIGINT"]);
    expect(stderr()).toMatch(
      /^Pausing: waiting until the commands have ended\. Press Ctrl-C again to end at once\.\nEnded at once: commands that don't end.* Their work is not saved.* Continue with: waymark oneshot F01 --resume\n$/,
    );
    expect(saved()).toMatchObject({ status: "running", current_ws: "a" });
  });

  it("reports in JSON that it was ended at once", async () => {
    const stubborn = "trap 'sleep 1; echo stopping; sleep 600' TERM; echo waiting; sleep 600 & wait";
    const { cwd } = await project([{ id: "a", command: stubborn }]);
    const { child, ended, lines } = startOneshot(cwd, "F01", "--json");
    let last = "";
    for await (const line of lines) {
      last = line;
      if (/"line":"(waiting|stopping)"/.test(line)) child.kill("SIGINT");
    }
    expect(await ended).toEqual([null, "SIGINT"]);
    expect(JSON.parse(last)).toEqual({
      type: "ended",
      status: "killed",
      resume: "waymark oneshot F01 --json --resume",
    });
  });

  it.each([
    ["lines", []],
    ["lines of JSON", ["--json"]],
  ])("continues when nobody reads its %s any more", async (_what, flags) => {
    const { cwd, left } = await project([
      { id: "a", command: "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done" },
      { id: "b", command: "touch done" },
    ]);
    const { child, ended, lines } = startOneshot(cwd, "F01", ...flags);
    await once(lines, "line");
    child.stdout?.destroy();
    expect(await ended).toEqual([0, null]);
    expect([existsSync(join(cwd, "done")), left()]).toEqual([true, []]);
  });
});
