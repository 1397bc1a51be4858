import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { project } from "./prp-project.js";
import { inShell, start } from "./waymark.js";

describe("waymark prp", () => {
  it("saves paused at Ctrl-C, and ends by the signal", async () => {
    const { run, status, log, write, interrupted } = await project();
    expect(await interrupted("SIGINT")).toEqual([null, "SIGINT"]);
    expect((await status()).stdout).toMatch(/P1\.M1 +paused +Paused: Gate 1 passed/);
    write("go");
    expect((await run("--restart")).code).toBe(0);
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "coder", "gate-1", "gate-2"]);
  });

  it("also reports at SIGHUP that it paused, and the command that continues it", async () => {
    const { cwd, log, write, interrupted } = await project();
    const said: string[] = [];
    await interrupted("SIGHUP", said, "--task", "it's mine", "--restart");
    const [, resume = ""] = /\nPaused\. Continue with: (.*)\n$/.exec(said.join("")) ?? [];
    expect(resume).toBe("waymark prp run PRP.md --coder ./agent --session session --task 'it'\\''s mine' --resume");
    write("go");
    expect(await inShell(cwd, resume)).toContain("Complete, after 0 fix attempts.");
    expect(log()).toEqual(["coder", "gate-1", "gate-2", "gate-2"]);
  });

  it("ends at once at a second Ctrl-C, and reports what that may cost", async () => {
    const { cwd, status, interrupted } = await project();
    // The second signal comes so late that it doesn't count as npm's repetition of the first.
    const stubborn = "#!/bin/sh\ntrap 'sleep 1; echo stopping; sleep 600' TERM; echo waiting; sleep 600 & wait\n";
    writeFileSync(join(cwd, "agent"), stubborn, { mode: 0o755 });
    const said: string[] = [];
    expect(await interrupted("SIGINT", said)).toEqual([null, "SIGINT"]);
    expect(said.join("")).toMatch(
      /^Pausing: waiting until the commands have ended\. Press Ctrl-C again to end at once\.\nEnded at once: commands that don't end.* Their work is not saved.* Continue with: waymark prp run .*\n$/,
    );
    expect((await status()).stdout).toMatch(/P1\.M1 +died/);
  });

  it("continues when nobody reads its lines of JSON any more", async () => {
    const { cwd, log, write } = await project();
    write("go");
    const child = start({ cwd }, ["prp", "run", "PRP.md", "--coder", "./agent", "--json"], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const ended = once(child, "exit");
    await once(child.stdout!, "data");
    child.stdout?.destroy();
    expect(await ended).toEqual([0, null]);
    expect(log()).toEqual(["coder", "gate-1", "gate-2"]);
  });
});
