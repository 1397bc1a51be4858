// kill -9 at a random moment of copy and import, twenty times each: run again, they end with the right result.
import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newPlace, recordsOf, start, waymark } from "./waymark.js";

const TIMES = 20;
const TASKS = 3;
const CHECKPOINTS = 40;

/** How long the whole of it takes here and now, so that the kills fall into it. */
async function durationOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

async function filledPlace() {
  const place = await newPlace("files:from");
  for (let t = 1; t <= TASKS; t++) {
    for (let n = 1; n <= CHECKPOINTS; n++) await place.manager.save(`task-${t}`, { n, filler: "x".repeat(500) });
  }
  await place.manager.fail("task-2", new Error("as it was"));
  await place.manager.close();
  return { ...place, records: await recordsOf(place.cwd, "files:from") };
}

/** Starts the command, kills it at a moment of its run, and gives how many records had come over. */
async function killed(cwd: string, args: readonly string[], withinMs: number, target: string): Promise<number> {
  const child = start({ cwd, env: { WAYMARK_STORAGE: "files:from" } }, args, { stdio: "ignore" });
  const ended = once(child, "close");
  const timer = setTimeout(() => child.kill("SIGKILL"), withinMs);
  await ended;
  clearTimeout(timer);
  return (await recordsOf(cwd, target)).length;
}

describe.each(["sqlite", "files"])("killed with SIGKILL at a random moment, twenty times, into %s", (scheme) => {
  it("copy ends, run again, with a copy that is identical", async () => {
    const { cwd, run, records } = await filledPlace();
    const wholeMs = await durationOf(() => run("copy", "--to", `${scheme}:whole`));
    let halfway = 0;
    for (let time = 1; time <= TIMES / 2; time++) {
      const target = `${scheme}:to-${time}`;
      const there = await killed(cwd, ["copy", "--to", target], wholeMs * (0.3 + 0.7 * Math.random()), target);
      if (there > 0 && there < records.length) halfway += 1;
      const again = await run("copy", "--to", target);
      expect(again).toMatchObject({ code: 0, stderr: "" });
      expect(again.stdout).toBe(
        `Copied ${records.length - there} checkpoints to ${target}.\n${records.length} of ${records.length} identical\n`,
      );
      expect(await recordsOf(cwd, target)).toEqual(records);
    }
    // Some of the kills must have hit the work itself, or this shows nothing.
    expect(halfway).toBeGreaterThan(0);
  });

  it("import ends, run again, with all that was exported", async () => {
    const { cwd, run, records } = await filledPlace();
    writeFileSync(join(cwd, "all.ndjson"), (await run("export")).stdout);
    const into = (target: string) => ["import", "all.ndjson", "--storage", target];
    const wholeMs = await durationOf(() => waymark({ cwd }, into(`${scheme}:whole`)));
    let halfway = 0;
    for (let time = 1; time <= TIMES / 2; time++) {
      const target = `${scheme}:to-${time}`;
      const there = await killed(cwd, into(target), wholeMs * (0.3 + 0.7 * Math.random()), target);
      if (there > 0 && there < records.length) halfway += 1;
      const again = await waymark({ cwd }, into(target));
      expect(again).toMatchObject({ code: 0, stderr: "" });
      expect(again.stdout).toBe(`Imported ${records.length - there} checkpoints; ${there} there already.\n`);
      expect(await recordsOf(cwd, target)).toEqual(records);
    }
    expect(halfway).toBeGreaterThan(0);
    expect(readdirSync(cwd).length).toBeGreaterThan(TIMES / 2);
  });
});
