// Tests that the result is right if copy or import runs again after a kill (SIGKILL) at a random moment, twenty times
// each.
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Moments, momentOf } from "../support/moments.js";
import { newPlace, recordsOf, start, waymark } from "./waymark.js";

/** For each of two kinds of storage. */
const SEEDS = Array.from({ length: 10 }, (_, seed) => seed);
const TASKS = ["task-1", "task-2", "task-3"];
const CHECKPOINTS = 40;

async function filledPlace() {
  const place = await newPlace("files:from");
  for (const task of TASKS) {
    for (let n = 1; n <= CHECKPOINTS; n++) await place.manager.save(task, { n, filler: "x".repeat(500) });
  }
  await place.manager.fail("task-2", new Error("as it was"));
  await place.manager.close();
  return { ...place, records: await recordsOf(place.cwd, "files:from") };
}

/**
 * A storage to fill, and the folders to watch for progress. They exist beforehand, because only then can they be
 * watched.
 */
function newTarget(cwd: string, scheme: string, name: string) {
  const folders = scheme === "files" ? TASKS.map((task) => join(cwd, name, task)) : [join(cwd, name)];
  for (const folder of folders) mkdirSync(folder, { recursive: true });
  return { url: scheme === "files" ? `files:${name}` : `sqlite:${name}/store.db`, folders };
}

/** Runs the command, and kills it at a moment. Returns the number of moments. */
async function runUntil(cwd: string, args: readonly string[], folders: readonly string[], moment: number) {
  const child = start({ cwd, env: { WAYMARK_STORAGE: "files:from" } }, args, { stdio: "ignore" });
  const ended = once(child, "close");
  const moments = new Moments(folders, (count) => {
    if (count === moment) child.kill("SIGKILL");
  });
  await ended;
  moments.close();
  return moments.count;
}

describe.each(["sqlite", "files"])("killed with SIGKILL at a random moment, twenty times, into %s", (scheme) => {
  it("copy makes an identical copy when it runs again", async () => {
    const { cwd, run, records } = await filledPlace();
    const whole = newTarget(cwd, scheme, "whole");
    const count = await runUntil(cwd, ["copy", "--to", whole.url], whole.folders, Number.POSITIVE_INFINITY);
    let halfway = 0;
    for (const seed of SEEDS) {
      const { url, folders } = newTarget(cwd, scheme, `to-${seed}`);
      const moment = momentOf(seed, count);
      const what = `seed ${seed}: killed at moment ${moment} of ${count}`;
      await runUntil(cwd, ["copy", "--to", url], folders, moment);
      const there = (await recordsOf(cwd, url)).length;
      if (there > 0 && there < records.length) halfway += 1;
      const again = await run("copy", "--to", url);
      expect(again, what).toMatchObject({ code: 0, stderr: "" });
      const [copied, identical] = again.stdout.split("\n");
      expect(copied, what).toMatch(new RegExp(`^Copied ${records.length - there} checkpoints? to `));
      expect(identical, what).toBe(`${records.length} of ${records.length} identical`);
      expect(await recordsOf(cwd, url), what).toEqual(records);
    }
    // Some kills must have hit the work itself, or the test proves nothing. Their number depends on the machine.
    expect(halfway).toBeGreaterThan(1);
  });

  it("import imports everything when it runs again", async () => {
    const { cwd, run, records } = await filledPlace();
    writeFileSync(join(cwd, "all.ndjson"), (await run("export")).stdout);
    const into = (url: string) => ["import", "all.ndjson", "--storage", url];
    const whole = newTarget(cwd, scheme, "whole");
    const count = await runUntil(cwd, into(whole.url), whole.folders, Number.POSITIVE_INFINITY);
    let halfway = 0;
    for (const seed of SEEDS) {
      const { url, folders } = newTarget(cwd, scheme, `to-${seed}`);
      const moment = momentOf(seed, count);
      const what = `seed ${seed}: killed at moment ${moment} of ${count}`;
      await runUntil(cwd, into(url), folders, moment);
      const there = (await recordsOf(cwd, url)).length;
      if (there > 0 && there < records.length) halfway += 1;
      const again = await waymark({ cwd }, into(url));
      expect(again, what).toMatchObject({ code: 0, stderr: "" });
      const added = records.length - there;
      const imported = added === 0 ? "nothing" : `${added} checkpoints?`;
      expect(again.stdout, what).toMatch(new RegExp(`^Imported ${imported}; ${there} there already\\.\n$`));
      expect(await recordsOf(cwd, url), what).toEqual(records);
    }
    expect(halfway).toBeGreaterThan(1);
  });
});
