// waymark prune.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newPlace } from "./waymark.js";

async function placeWith(tasks: number, checkpoints: number, url?: string) {
  const place = await newPlace(url);
  for (let t = 1; t <= tasks; t++) {
    for (let n = 1; n <= checkpoints; n++) await place.manager.save(`task-${t}`, { n }, { stage: `s${n}` });
  }
  return place;
}

describe("waymark prune", () => {
  it("shows the plan with reasons and bytes, and removes nothing with --dry-run", async () => {
    const { run, manager } = await placeWith(1, 3);
    const { code, stdout } = await run("prune", "task-1", "--keep-last", "1", "--dry-run");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /keep +task-1 +3 .* 7 B +last 1 of 1, newest of an incomplete task\nremove +task-1 +2 .* no rule keeps it\n/,
    );
    expect(stdout).toContain("2 checkpoints (14 B) would go, 1 checkpoint (7 B) stay.");
    expect(await manager.list("task-1")).toHaveLength(3);
    await manager.close();
  });

  it("refuses if there is no terminal to ask on, and removes with --yes", async () => {
    const { run, manager } = await placeWith(2, 3);
    const asked = await run("prune", "--all", "--keep-last", "1");
    expect([asked.code, asked.stderr]).toEqual([
      4,
      expect.stringMatching(/^waymark: Remove 4 checkpoints .*no terminal.*--yes.*\n$/),
    ]);
    expect(await manager.list("task-1")).toHaveLength(3);
    const removed = await run("prune", "--all", "--keep-last", "1", "--yes", "--json");
    expect(JSON.parse(removed.stdout)).toEqual({ tasks: 2, removed: 4, removedBytes: 28, failed: [] });
    expect(await manager.list("task-2")).toHaveLength(1);
    await manager.close();
  });

  it("prunes every other task if one is damaged, and reports which one and why, with code 5", async () => {
    const { run, cwd, manager } = await placeWith(3, 3, "files:store");
    const folder = join(cwd, "store", "task-2");
    const newest =
      readdirSync(folder)
        .filter((name) => name.endsWith(".json"))
        .toSorted()
        .at(-1) ?? "";
    const text = readFileSync(join(folder, newest), "utf8");
    writeFileSync(join(folder, newest), text.replace('"n":3', '"n":4'));
    const { code, stdout, stderr } = await run("prune", "--all", "--keep-last", "1", "--yes");
    expect(stdout).toContain("Removed 4 checkpoints (28 B).");
    expect([code, stderr]).toEqual([
      5,
      expect.stringMatching(
        /1 of 3 tasks could not be pruned\. No checkpoint of task "task-2" was removed: none of the 1 checkpoints/,
      ),
    ]);
    expect(await manager.list("task-2")).toHaveLength(3);
    const again = await run("prune", "--all", "--keep-last", "1", "--yes", "--json");
    expect([again.code, JSON.parse(again.stdout)]).toEqual([
      5,
      {
        tasks: 3,
        removed: 0,
        removedBytes: 0,
        failed: [{ taskId: "task-2", code: "CHECKPOINT_CORRUPT", message: expect.any(String) }],
      },
    ]);
    await manager.close();
  });

  it("uses the days of the given or the configured time zone", async () => {
    const { run, cwd, manager } = await placeWith(1, 1);
    const plan = async (...flags: string[]) => {
      const { stdout } = await run("prune", "task-1", "--json", "--dry-run", ...flags);
      return JSON.parse(stdout).plans[0].policy;
    };
    expect(await plan("--keep-daily", "7", "--time-zone", "Pacific/Apia")).toEqual({
      keepDaily: 7,
      timeZone: "Pacific/Apia",
    });
    const unknown = await run("prune", "task-1", "--keep-daily", "7", "--time-zone", "Mars/Olympus", "--dry-run");
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('"Mars/Olympus"')]);
    const retention = { keepWeekly: 4, timeZone: "Asia/Tokyo" };
    writeFileSync(join(cwd, "package.json"), JSON.stringify({ waymark: { retention } }));
    expect(await plan()).toEqual(retention);
    expect(await plan("--keep-daily", "7")).toEqual({ keepDaily: 7, timeZone: "Asia/Tokyo" });
    expect(await plan("--time-zone", "Europe/Berlin")).toEqual({ keepWeekly: 4, timeZone: "Europe/Berlin" });
    await manager.close();
  });

  it("uses the configuration's retention, also from package.json, if no policy flag is given", async () => {
    const { run, cwd, manager } = await placeWith(1, 3);
    expect((await run("prune", "task-1", "--yes")).stderr).toContain("No policy is given");
    writeFileSync(join(cwd, "package.json"), JSON.stringify({ waymark: { retention: { keepLast: 2 } } }));
    expect((await run("prune", "task-1", "--yes")).stdout).toContain("Removed 1 checkpoint (7 B).");
    await manager.close();
  });

  it("accepts every policy flag, and refuses unknown or malformed ones", async () => {
    const { run, manager } = await placeWith(1, 1);
    const flags =
      "--keep-last 1 --keep-within 30d --keep-hourly 1 --keep-daily 2 --keep-weekly 3 --keep-monthly 4 --keep-stage a b --max-age 12h --max-bytes 10MiB";
    const { stdout } = await run("prune", "task-1", "--json", "--dry-run", ...flags.split(" "));
    expect(JSON.parse(stdout).plans[0].policy).toEqual({
      keepLast: 1,
      keepWithinMs: 30 * 86_400_000,
      keepHourly: 1,
      keepDaily: 2,
      keepWeekly: 3,
      keepMonthly: 4,
      keepStages: ["a", "b"],
      maxAgeMs: 43_200_000,
      maxBytes: 10 * 1024 * 1024,
    });
    for (const wrong of [
      "--keep-last 0",
      "--max-age 3",
      "--max-bytes 5parsec",
      "--keep-lst 3",
      "--all --keep-last 1",
    ]) {
      expect((await run("prune", "task-1", "--dry-run", ...wrong.split(" "))).code).toBe(2);
    }
    await manager.close();
  });

  it("writes a plan only if no file is there, unless it may replace one, and reports that it did", async () => {
    const { run, cwd, manager } = await placeWith(1, 3);
    const write = (...flags: string[]) =>
      run("prune", "task-1", "--keep-last", "1", "--plan-out", "plan.json", ...flags);
    writeFileSync(join(cwd, "plan.json"), "my notes");
    const refused = await write();
    expect([refused.code, refused.stderr]).toEqual([6, expect.stringContaining("plan.json is there already")]);
    expect(readFileSync(join(cwd, "plan.json"), "utf8")).toBe("my notes");
    expect((await write("--force")).stdout).toContain("The plan is in plan.json; --plan-in plan.json applies it.");
    expect((await run("prune", "--plan-in", "plan.json", "--yes")).stdout).toContain("Removed 2 checkpoints");
    await manager.close();
  });

  it("creates no plan file if the arguments are wrong", async () => {
    const { run, cwd, manager } = await placeWith(1, 3);
    await manager.close();
    expect((await run("prune", "--keep-last", "1", "--plan-out", "plan.json")).code).toBe(2);
    expect((await run("prune", "task-1", "--plan-out", "plan.json")).code).toBe(2);
    expect((await run("prune", "nobody", "--keep-last", "1", "--plan-out", "plan.json")).code).toBe(3);
    expect(readdirSync(cwd)).not.toContain("plan.json");
  });

  it("--plan-in applies exactly the plan of --plan-out, whatever was saved since", async () => {
    const { run, manager } = await placeWith(2, 3);
    expect((await run("prune", "--all", "--keep-last", "1", "--plan-out", "plan.json")).code).toBe(0);
    expect(await manager.list("task-1")).toHaveLength(3);
    await manager.save("task-1", "newer");
    expect((await run("prune", "--plan-in", "plan.json", "--yes")).stdout).toContain("Removed 4 checkpoints");
    expect((await manager.list("task-1")).map(({ sequence }) => sequence)).toEqual([4, 3]);
    expect((await run("prune", "--plan-in", "plan.json", "--yes", "--json")).stdout).toBe(
      '{"tasks":2,"removed":0,"removedBytes":0,"failed":[]}\n',
    );
    await manager.close();
  });

  it("--plan-in stops at a task whose plan is outdated, and reports what was removed before it", async () => {
    const { run, manager } = await placeWith(2, 3);
    await run("prune", "--all", "--keep-last", "1", "--plan-out", "plan.json");
    const [, middle] = await manager.list("task-2");
    await manager.setStatus("task-2", middle!.id, "completed");
    const refused = await run("prune", "--plan-in", "plan.json", "--yes");
    expect([refused.code, refused.stderr]).toEqual([
      6,
      expect.stringMatching(
        /for task "task-2" is outdated: .*completed now\. Nothing was removed; .* before it: 2 checkpoints of 1 task\. \[PLAN_OUTDATED\]\n$/,
      ),
    ]);
    expect(await manager.list("task-1")).toHaveLength(1);
    expect(await manager.list("task-2")).toHaveLength(3);
    await manager.close();
  });

  it("--plan-in refuses a changed plan, even if it fits: it could remove a checkpoint that must stay", async () => {
    const { cwd, manager, run } = await newPlace();
    for (let n = 1; n <= 5; n++) await manager.save("build-42", { n });
    await run("prune", "build-42", "--keep-last", "2", "--plan-out", "plan.json");
    const lines = readFileSync(join(cwd, "plan.json"), "utf8").trimEnd().split("\n");
    const [header, plan, first, second, ...others] = lines as [string, string, string, string, ...string[]];
    const removed = first.replace('{"keep":', '{"remove":');
    for (const [changed, line, why] of [
      [[header, plan, removed, second, ...others], 3, "its checksum doesn't match"],
      [[header, first, second, ...others], 7, "the trailer doesn't match"],
      [[header, plan, second, ...others], 7, "the trailer doesn't match"],
      [[header, plan, second, first, ...others], 8, "the trailer doesn't match"],
      [[header, plan, first, second, ...others.slice(0, -1)], 8, "the trailer is missing"],
    ] as const) {
      writeFileSync(join(cwd, "plan.json"), changed.join("\n"));
      const { code, stderr } = await run("prune", "--plan-in", "plan.json", "--yes");
      expect([code, stderr]).toEqual([5, expect.stringContaining(`plan.json, line ${line}: ${why}`)]);
      expect(stderr).toContain("Nothing was removed.");
    }
    expect(await manager.list("build-42")).toHaveLength(5);
    await manager.close();
  });

  it("--plan-in refuses a truncated plan, another file, and a policy beside it", async () => {
    const { run, cwd, manager } = await placeWith(1, 3);
    await manager.close();
    await run("prune", "--all", "--keep-last", "1", "--plan-out", "plan.json");
    await run("export", "--out", "export.ndjson");
    const whole = readFileSync(join(cwd, "plan.json"), "utf8");
    writeFileSync(join(cwd, "cut.json"), whole.slice(0, -20));
    writeFileSync(join(cwd, "empty.json"), "");
    writeFileSync(join(cwd, "deep.json"), "[".repeat(1e5));
    for (const name of ["cut.json", "empty.json", "deep.json", "export.ndjson"]) {
      expect((await run("prune", "--plan-in", name, "--yes")).code).toBe(5);
    }
    expect((await run("prune", "--plan-in", "none.json", "--yes")).code).toBe(3);
    expect((await run("prune", "--plan-in", "plan.json", "--keep-last", "2")).code).toBe(2);
    expect((await run("prune", "--plan-in", "plan.json", "--plan-out", "plan.json", "--force")).code).toBe(2);
    expect(readFileSync(join(cwd, "plan.json"), "utf8")).toBe(whole);
  });
});
