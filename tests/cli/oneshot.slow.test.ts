import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { project, startOneshot } from "./oneshot-project.js";

const TIMES = 20;

describe("waymark oneshot", () => {
  it("killed with SIGKILL at a random moment of --jobs 4, twenty times, ends after --resume with each thing done", async () => {
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
      // A moment is a line that it writes: each run has some thirty of them.
      let toGo = 1 + Math.floor((time * 26) / TIMES);
      for await (const _line of lines) if (--toGo === 0) child.kill("SIGKILL");
      await ended;
      const completed = existsSync(join(cwd, ".sdp", "checkpoints", "F01.json")) ? saved()["completed_ws"] : undefined;
      if (Array.isArray(completed)) {
        midway += 1;
        const stderr = expect.stringMatching(/^(The last run .* waiting until its commands have ended\n)?$/);
        expect(await oneshot("F01", "--resume", "--jobs", "4"), `kill ${time}`).toMatchObject({ code: 0, stderr });
      } else {
        // All was completed, and the kill came between the checkpoint's end and the lock's: that is tidied up.
        expect((await oneshot("F01", "--resume")).code, `kill ${time}`).toBe(3);
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
    // Some of the kills must have hit the work itself, or this shows nothing.
    expect(midway).toBeGreaterThan(TIMES / 2);
  }, 300_000);
});
