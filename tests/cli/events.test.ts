// Tests the command on events, which are hidden in lists of tasks and are copied with their task.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { newPlace, waymark } from "./waymark.js";

const STORAGES = ["sqlite:checkpoints.db", "files:store", "tasks:store"];

/** Task `a` has two events, and `b` none. */
async function placeWithEvents(url?: string) {
  const place = await newPlace(url);
  const { manager } = place;
  onTestFinished(() => manager.close());
  await manager.save("a", 1);
  await manager.save("b", 2);
  await manager.send("a", "approve", { by: "Ada" }, { id: "s1", by: "ada@example.org" });
  await manager.send("a", "note", "later", { id: "s2" });
  return place;
}

const names = (stdout: string) => JSON.parse(stdout).map(({ taskId }: { taskId: string }) => taskId);

describe.each(STORAGES)("events in %s", (url) => {
  it("are no tasks in lists, counts, plans and completion", async () => {
    const { run } = await placeWithEvents(url);
    expect(names((await run("tasks", "--json")).stdout)).toEqual(["a", "b"]);
    expect(names((await run("tasks", "--json", "--limit", "1")).stdout)).toEqual(["a"]);
    const recent = names((await run("tasks", "--json", "--recent", "--limit", "2")).stdout);
    // Both may be saved within the same millisecond.
    expect(recent.toSorted()).toEqual(["a", "b"]);
    expect(names((await run("resume", "--json")).stdout).toSorted()).toEqual(["a", "b"]);
    expect(names((await run("stats", "--json")).stdout)).toEqual(["a", "b"]);
    const plans = JSON.parse((await run("prune", "--all", "--keep-last", "1", "--dry-run", "--json")).stdout);
    expect(plans.plans.map(({ taskId }: { taskId: string }) => taskId)).toEqual(["a", "b"]);
    expect((await run("__complete", "--", "list", "")).stdout).toBe("a\nb\n");
    expect((await run("list", "c")).stderr).not.toContain("events");
  });

  it("are counted as records by verify", async () => {
    const { manager, run } = await placeWithEvents(url);
    expect((await run("verify")).stdout).toMatch(/^2 checkpoints and 2 records of 2 tasks \(.*: nothing is wrong\.\n$/);
    expect(await manager.maintenance.verify()).toMatchObject({ tasks: 2, checkpoints: 2, records: 2, findings: [] });
  });

  it("are copied and exported with their task, in its order", async () => {
    const { cwd, run, open } = await placeWithEvents(url);
    const copied = await run("copy", "--to", "sqlite:copy.db");
    expect(copied.stdout).toMatch(/^Copied 2 checkpoints and 2 records to .*\n4 of 4 identical\n$/);
    expect(JSON.parse((await run("copy", "--to", "sqlite:other.db", "--json")).stdout)).toMatchObject({
      copied: 4,
      logRecords: 2,
    });
    expect((await run("copy", "--to", "sqlite:prefixed.db", "--prefix", "a")).stdout).toContain("3 of 3 identical");
    const whole = await run("export");
    const one = await run("export", "a");
    const toFile = (await run("export", "--out", "all.ndjson")).stdout;
    expect(toFile).toBe("Exported 2 checkpoints and 2 records of 2 tasks.\n");
    expect(recordsIn(whole.stdout)).toEqual(["a", "a", "a", "b"]);
    expect(recordsIn(one.stdout)).toEqual(["a", "a", "a"]);
    const imported = { cwd, env: { WAYMARK_STORAGE: "sqlite:imported.db" } };
    expect((await waymark(imported, ["import"], one.stdout)).stdout).toBe(
      "Imported 1 checkpoint and 2 records; 0 there already.\n",
    );
    for (const its of ["sqlite:copy.db", "sqlite:prefixed.db", "sqlite:imported.db"]) {
      await using copied = await open(its);
      expect(await copied.events("a")).toMatchObject([
        { id: "s1", name: "approve", value: { by: "Ada" }, by: "ada@example.org", status: "pending" },
        { id: "s2", value: "later" },
      ]);
    }
  });

  it("are removed with their task, and forked with it", async () => {
    const { manager, run } = await placeWithEvents(url);
    expect((await run("fork", "a", "@1", "c")).code).toBe(0);
    expect(await manager.events("c")).toMatchObject([{ id: "s1" }, { id: "s2" }]);
    expect((await run("delete", "a")).stderr).toContain('task "a" with 1 checkpoint (1 B) and 2 records');
    expect((await run("delete", "a", "--yes")).stdout).toBe("Removed 1 checkpoint.\n");
    expect(await manager.events("a")).toEqual([]);
    expect(await manager.events("c")).toHaveLength(2);
  });

  it("are shown by their number, and no command takes one for a checkpoint", async () => {
    const { manager, run } = await placeWithEvents(url);
    expect((await run("show", "a", "@2")).stdout).toMatch(/^record +@2, event "approve"$/m);
    for (const args of [
      ["delete", "a", "s1", "--yes"],
      ["diff", "a", "@1", "@2"],
    ]) {
      expect(await run(...args)).toMatchObject({ code: 3, stderr: expect.stringContaining("has no checkpoint") });
    }
    expect((await manager.events("a")).map(({ status }) => status)).toEqual(["pending", "pending"]);
  });

  it("that came before their task are in no list, and go into copies and exports", async () => {
    const { cwd, manager, run, open } = await placeWithEvents(url);
    await manager.send("early", "go", 1, { id: "e1" });
    expect(names((await run("tasks", "--json")).stdout)).toEqual(["a", "b"]);
    expect((await run("send", "early", "go")).code).toBe(3);
    const exported = await run("export");
    expect(recordsIn(exported.stdout)).toEqual(["a", "a", "a", "b", "early"]);
    await waymark({ cwd, env: { WAYMARK_STORAGE: "sqlite:imported.db" } }, ["import"], exported.stdout);
    expect((await run("copy", "--to", "sqlite:copy.db")).code).toBe(0);
    for (const its of ["sqlite:copy.db", "sqlite:imported.db"]) {
      await using copied = await open(its);
      expect(await copied.run("early", (its) => its.waitFor("go"))).toMatchObject({ id: "e1", value: 1 });
    }
  });
});

it("a damaged event is named with its task and its number, and the others are listed", async () => {
  const { cwd, run } = await placeWithEvents("files:store");
  const log = join(cwd, "store", "a", "log.jsonl");
  writeFileSync(log, readFileSync(log, "utf8").replace('"by":"Ada"', '"by":"Eve"'));
  const { code, stdout } = await run("verify");
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^damaged +a +@?2 /m)]);
  const shown = await run("show", "a");
  expect(shown.stdout).toMatch(/^events +approve, .*: pending\n +note, .*: pending$/m);
  expect(shown.stderr).toMatch(/^warning: The event record "approve" of task "a" can't be loaded/);
});

function recordsIn(exported: string): string[] {
  return exported
    .trim()
    .split("\n")
    .flatMap((line) => JSON.parse(line).record?.taskId ?? []);
}
