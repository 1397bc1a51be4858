// The commands that change storages: prune, delete, complete, fork, rewind, export, import, copy.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager, encrypt, gzip } from "waymark";
import { openStorage } from "waymark/adapters";
import { newPlace, recordsOf, waymark, wholeUrl } from "./waymark.js";

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

  it("prunes every other task if one is damaged, and says which one and why, with code 5", async () => {
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

  it("writes a plan only if no file is there, unless it may replace one, and says that it did", async () => {
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

  it("--plan-in stops at a task whose plan is outdated, and says what was removed before it", async () => {
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

describe("waymark delete and complete", () => {
  it("delete removes one checkpoint or the task, and only with an answer", async () => {
    const { run, manager } = await placeWith(1, 3);
    expect((await run("delete", "task-1")).code).toBe(4);
    expect((await run("delete", "task-1", "@2", "--yes")).stdout).toBe("Removed 1 checkpoint.\n");
    expect((await manager.list("task-1")).map(({ sequence }) => sequence)).toEqual([3, 1]);
    expect((await run("delete", "task-1", "--yes", "--json")).stdout).toBe('{"removed":2,"damaged":0}\n');
    expect(await manager.has("task-1")).toBe(false);
    expect((await run("delete", "task-1", "--yes")).code).toBe(3);
    await manager.close();
  });

  it.each(["sqlite:checkpoints.db", "files:store", "tasks:store"])(
    "delete removes all tasks of a prefix with their events, and no other, in %s",
    async (url) => {
      const { run, manager } = await newPlace(url);
      for (const taskId of ["mail/1", "mail/1", "mail/2", "mail", "other", "log/1"]) await manager.save(taskId, 1);
      await manager.send("mail/1", "note");
      expect(await run("delete", "--prefix", "mail/")).toMatchObject({
        code: 4,
        stderr: expect.stringContaining(
          'Remove 2 tasks that begin with "mail/", with 3 checkpoints (3 B) and 1 record from ',
        ),
      });
      const lease = await manager.lease("mail/2", { holder: "worker-1" });
      expect(await run("delete", "--prefix", "mail/", "--yes")).toMatchObject({
        code: 6,
        stderr: expect.stringMatching(/Task "mail\/2" is run by worker-1\. Nothing was removed\. .* or pass --force/),
      });
      await lease.release();
      expect((await manager.tasks()).map(({ taskId }) => taskId).sort()).toEqual([
        "log/1",
        "mail",
        "mail/1",
        "mail/2",
        "other",
      ]);

      expect((await run("delete", "--prefix", "mail/", "--yes")).stdout).toBe("Removed 2 tasks with 3 checkpoints.\n");
      const removed = await run("delete", "--prefix", "log/", "--yes", "--json");
      expect(JSON.parse(removed.stdout)).toEqual({ tasks: 1, removed: 1, damaged: 0 });
      expect((await manager.tasks()).map(({ taskId }) => taskId).sort()).toEqual(["mail", "other"]);
      expect(await manager.events("mail/1")).toEqual([]);
      expect(await run("delete", "--prefix", "mail/")).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('There is no task that begins with "mail/"'),
      });
      const none = await run("delete", "--prefix", "mail/", "--json");
      expect(JSON.parse(none.stdout)).toEqual({ tasks: 0, removed: 0, damaged: 0 });
      await manager.close();
    },
  );

  it("delete refuses an empty prefix, threads of LangGraph, and a task beside a prefix", async () => {
    const { run, manager } = await placeWith(1, 1);
    await manager.save("langgraph/letter/c/", 1);
    const refusal = async (...args: string[]) => {
      const { code, stderr } = await run("delete", ...args, "--yes", "--force");
      return [code, stderr];
    };
    expect(await refusal("--prefix", "")).toEqual([2, expect.stringContaining("prefix is empty")]);
    expect(await refusal("--prefix", "lang")).toEqual([2, expect.stringContaining("longer prefix")]);
    expect(await refusal("task-1", "--prefix", "t")).toEqual([
      2,
      expect.stringContaining("Pass one task, or --prefix"),
    ]);
    expect(await refusal()).toEqual([2, expect.stringContaining("Pass one task, or --prefix")]);
    expect(await manager.tasks()).toHaveLength(2);
    await manager.close();
  });

  it("complete marks the newest only after an answer, and says if it was completed before", async () => {
    const { run, manager } = await placeWith(1, 2);
    expect((await run("complete", "task-1")).stderr).toMatch(/Task "task-1" is running at @2 .*--yes/);
    expect((await run("complete", "task-1", "--yes")).stdout).toBe('Task "task-1" is completed.\n');
    expect((await manager.latest("task-1"))?.status).toBe("completed");
    expect((await run("complete", "task-1")).stdout).toBe('Task "task-1" is completed already.\n');
    await manager.close();
  });
});

describe("waymark fork", () => {
  it("begins a task with the state of a checkpoint, and says where it comes from", async () => {
    const { run, manager } = await placeWith(1, 3);
    const { stdout, code } = await run("fork", "task-1", "@2", "second try");
    const [forked] = await manager.list("second try");
    expect([code, stdout]).toEqual([
      0,
      `Task "second try" begins at @1 ${forked?.id} (s2) with the state of @2 of task "task-1".\n`,
    ]);
    const [, source] = await manager.list("task-1");
    expect(forked?.metadata).toEqual({ forkedFrom: { taskId: "task-1", id: source?.id } });
    expect((await manager.latest("second try"))?.state).toEqual({ n: 2 });
    expect(await manager.list("task-1")).toHaveLength(3);
    const json = await run("fork", "task-1", source?.id.slice(0, 8) ?? "", "third", "--json");
    expect(JSON.parse(json.stdout)).toEqual((await manager.list("third"))[0]);
    await manager.close();
  });

  it("refuses a task that has checkpoints, and a missing checkpoint", async () => {
    const { run, manager } = await placeWith(2, 1);
    const taken = await run("fork", "task-1", "@1", "task-2");
    expect([taken.code, taken.stdout, taken.stderr]).toEqual([
      6,
      "",
      expect.stringMatching(/^waymark: There is a task "task-2" already, .* choose a task id that has none\./),
    ]);
    expect((await run("fork", "task-1", "@9", "new")).code).toBe(3);
    expect((await run("fork", "nobody", "@1", "new")).code).toBe(3);
    expect((await run("fork", "task-1", "@1")).code).toBe(2);
    expect((await run("fork", "task-1", "@1", "x".repeat(600))).code).toBe(2);
    expect((await manager.tasks()).map(({ count }) => count)).toEqual([1, 1]);
    await manager.close();
  });

  it("takes an encrypted state if it has the key, and otherwise says where keys come from", async () => {
    const { run, cwd, manager } = await newPlace("sqlite:checkpoints.db", {
      transforms: [encrypt({ keys: { k: Buffer.alloc(32, 7) }, current: "k" })],
    });
    await manager.save("t", { secret: 1 });
    const without = await run("fork", "t", "@1", "u");
    expect([without.code, without.stderr]).toEqual([
      1,
      expect.stringContaining("takes transforms and their keys from"),
    ]);
    expect(await manager.has("u")).toBe(false);
    writeFileSync(
      join(cwd, "waymark.config.mjs"),
      `import { encrypt } from ${JSON.stringify(import.meta.resolve("waymark"))};
       export default { transforms: [encrypt({ keys: { k: Buffer.alloc(32, 7) }, current: "k" })] };`,
    );
    expect(await run("fork", "t", "@1", "u")).toMatchObject({ code: 0, stderr: "" });
    expect((await manager.latest("u"))?.state).toEqual({ secret: 1 });
    await manager.close();
  });
});

describe("waymark rewind", () => {
  it("redacts the label that it copies, as the configuration says", async () => {
    const { cwd, run, manager } = await newPlace();
    await manager.save("t", 1, { label: "token abc" });
    await manager.close();
    writeFileSync(join(cwd, "waymark.config.json"), '{ "redact": { "paths": ["label"] } }');
    expect(JSON.parse((await run("rewind", "t", "@1", "--json")).stdout)).toMatchObject({ label: "[redacted]" });
  });

  it("saves a checkpoint that continues from an old one, and removes nothing", async () => {
    const { run, manager } = await placeWith(1, 3);
    await manager.complete("task-1");
    const { code, stdout } = await run("rewind", "task-1", "@1");
    const [newest, , , oldest] = await manager.list("task-1");
    expect([code, stdout]).toEqual([0, `Task "task-1" continues at @4 ${newest?.id} (s1) with the state of @1.\n`]);
    expect(newest).toMatchObject({ parentId: oldest?.id, status: "running", stage: "s1" });
    expect((await manager.latest("task-1"))?.state).toEqual({ n: 1 });
    const json = await run("rewind", "task-1", "@3", "--json");
    expect(JSON.parse(json.stdout)).toEqual((await manager.list("task-1"))[0]);
    expect((await run("rewind", "task-1", "@9")).code).toBe(3);
    await manager.close();
  });
});

describe.each([
  ["fork", ["t", "@2", "u"]],
  ["rewind", ["t", "@2"]],
])("waymark %s of a damaged checkpoint", (command, args) => {
  it.each(["header", "state"])("is refused if its %s was changed, and stores nothing", async (part) => {
    const { run, cwd, manager } = await newPlace("files:store");
    for (const word of ["one", "two", "three"]) await manager.save("t", { word }, { label: `After ${word}` });
    await manager.close();
    const folder = join(cwd, "store", "t");
    const file = join(folder, readdirSync(folder).find((name) => name.startsWith("000000000002-")) ?? "");
    const before = readdirSync(folder);
    const changed = part === "header" ? ["After two", "After too"] : ['"word":"two"', '"word":"too"'];
    writeFileSync(file, readFileSync(file, "utf8").replace(changed[0] ?? "", changed[1] ?? ""));
    const { code, stdout, stderr } = await run(command, ...args);
    expect([code, stdout]).toEqual([5, ""]);
    expect(stderr).toMatch(
      /^waymark: Checkpoint @2 of task "t" can't be read: .* "waymark verify" lists all damage.*\n$/,
    );
    expect(stderr).not.toContain("latest()");
    expect(readdirSync(folder)).toEqual(before);
    expect(readdirSync(join(cwd, "store"))).toEqual(["t"]);
  });
});

/** A record with every field. */
async function richPlace(url: string) {
  const place = await newPlace(url, { transforms: [gzip()], stateVersion: 4 });
  const { manager } = place;
  await manager.save(
    "t/1 ü",
    { a: "\u2028 line\n" },
    { stage: "s", label: "l\u0085", metadata: { b: 1, a: [null] }, parentId: "none" },
  );
  await manager.save("t/1 ü", new Map([["x", 1n]]), { status: "paused" });
  await manager.save("t/1 ü", 3);
  await manager.fail("t/1 ü", Object.assign(new Error("bad"), { code: "E_BAD" }));
  await manager.save("u", "gap");
  const [first] = await manager.list("u");
  await manager.save("u", "kept");
  await manager.remove("u", first!.id);
  await manager.complete("u");
  await manager.close();
  const plain = await place.open();
  await plain.save("v", { plain: ["json", "\u2029"] });
  await plain.close();
  return place;
}

describe.each(["sqlite:to.db", "files:to", "tasks:to"])("export, import and copy into %s", (target) => {
  it("export and import keep payload, status, error, sequence and seal", async () => {
    const { place, cwd, run } = await richPlace("sqlite:from.db");
    const exported = await run("export");
    const into = { cwd, env: { WAYMARK_STORAGE: target } };
    expect(await waymark(into, ["import"], exported.stdout)).toMatchObject({
      code: 0,
      stdout: "Imported 5 checkpoints; 0 there already.\n",
    });
    expect(await recordsOf(cwd, target)).toEqual(await recordsOf(cwd, "sqlite:from.db"));
    expect((await waymark(into, ["import"], exported.stdout)).stdout).toBe("Imported nothing; 5 there already.\n");
    expect((await waymark({ cwd, env: into.env }, ["export", "t/1 ü", "u", "v"])).stdout.split("\n").slice(1)).toEqual(
      exported.stdout.split("\n").slice(1).with(-2, expect.stringContaining('"trailer"')),
    );
    expect(place.cwd).toBe(cwd);
  });

  it("copy keeps the same, compares record by record, and says N of N identical", async () => {
    const { cwd, run } = await richPlace("files:from");
    const first = await run("copy", "--to", target);
    expect(first).toMatchObject({
      code: 0,
      stdout: `Copied 5 checkpoints to ${wholeUrl(cwd, target)}.\n5 of 5 identical\n`,
    });
    expect(await recordsOf(cwd, target)).toEqual(await recordsOf(cwd, "files:from"));
    expect(JSON.parse((await run("copy", "--to", target, "--json")).stdout)).toEqual({
      records: 5,
      identical: 5,
      copied: 0,
      logRecords: 0,
      extra: 0,
      unreadable: 0,
      leftOut: [],
    });
  });
});

describe("waymark copy", () => {
  it("copies checkpoints and changed statuses since an earlier copy", async () => {
    const { run, manager, cwd } = await placeWith(1, 2);
    await run("copy", "--to", "files:to");
    await manager.fail("task-1", new Error("x"));
    await manager.save("task-1", "third");
    expect((await run("copy", "--to", "files:to")).stdout).toBe(
      `Copied 1 checkpoint to ${wholeUrl(cwd, "files:to")}.\n3 of 3 identical\n`,
    );
    expect(await recordsOf(cwd, "files:to")).toEqual(await recordsOf(cwd, "sqlite:checkpoints.db"));
    await manager.close();
  });

  it("writes nothing to a task with another history, names it, and copies the others", async () => {
    const { run, manager, open, cwd } = await placeWith(2, 3);
    await manager.close();
    const other = await open("files:to");
    for (const who of ["another program's", "and its second"]) await other.save("task-1", who);
    const before = await recordsOf(cwd, "files:to");
    const { code, stdout, stderr } = await run("copy", "--to", "files:to");
    expect([code, stdout]).toEqual([6, expect.stringMatching(/^Copied 3 checkpoints to .*\n3 of 6 identical\n$/)]);
    expect(stderr).toMatch(/warning: task "task-1" was left out: its checkpoint @1 is another one\n/);
    expect(stderr).toMatch(/\nwaymark: 1 task was left out, because .* has another history of it\. Delete those tasks/);
    const after = await recordsOf(cwd, "files:to");
    expect(after.filter(({ taskId }) => taskId === "task-1")).toEqual(before);
    expect(after.filter(({ taskId }) => taskId === "task-2")).toHaveLength(3);
    const json = await run("copy", "--to", "files:to", "--json");
    expect([json.code, JSON.parse(json.stdout)]).toEqual([
      6,
      { records: 6, identical: 3, copied: 0, logRecords: 0, extra: 0, unreadable: 0, leftOut: ["task-1"] },
    ]);
    await other.close();
  });

  it("changes no status if a later checkpoint shows that the history is another one", async () => {
    const { run, manager, open, cwd } = await placeWith(1, 1);
    await run("copy", "--to", "files:to");
    await manager.fail("task-1", new Error("here"));
    await manager.save("task-1", "second here");
    await using other = await open("files:to");
    await other.save("task-1", "second there");
    const before = await recordsOf(cwd, "files:to");
    expect((await run("copy", "--to", "files:to")).stderr).toContain("its checkpoint @2 is another one");
    expect(await recordsOf(cwd, "files:to")).toEqual(before);
    await manager.close();
  });

  it("leaves a task out if no checkpoint is in both storages: pruning has removed what could be compared", async () => {
    const { run, manager, open, cwd } = await placeWith(1, 3);
    await manager.retention.prune("task-1", { keepLast: 1 });
    await using other = await open("files:to");
    for (const n of [1, 2]) await other.save("task-1", n);
    const before = await recordsOf(cwd, "files:to");
    const { code, stderr } = await run("copy", "--to", "files:to");
    expect([code, stderr]).toEqual([
      6,
      expect.stringContaining('task "task-1" was left out: no checkpoint is in both'),
    ]);
    expect(await recordsOf(cwd, "files:to")).toEqual(before);
    await manager.close();
  });

  it("repeats a copy although the source has pruned old checkpoints, or a run has replaced its own", async () => {
    const { run, manager, open } = await placeWith(1, 3);
    await manager.run("run", async (on) => {
      await on.step("a", () => 1);
      expect((await run("copy", "--to", "files:to")).code).toBe(0);
      await on.step("b", () => 2);
    });
    await manager.retention.prune("task-1", { keepLast: 1 });
    await manager.save("task-1", "fourth");
    expect(await run("copy", "--to", "files:to")).toMatchObject({ code: 0, stderr: "" });
    await using copied = await open("files:to");
    expect((await copied.latest("run"))?.status).toBe("completed");
    await manager.close();
  });

  it("repeats a copy although retention has left no checkpoint that is in both storages", async () => {
    const { run, manager, open } = await placeWith(1, 3);
    expect((await run("copy", "--to", "files:to")).code).toBe(0);
    for (const n of [4, 5]) await manager.save("task-1", n);
    await manager.retention.prune("task-1", { keepLast: 2 });
    expect(await run("copy", "--to", "files:to")).toMatchObject({ code: 0, stderr: "" });
    await using copied = await open("files:to");
    expect((await copied.list("task-1")).map(({ sequence }) => sequence)).toEqual([5, 4, 3, 2, 1]);
    await manager.close();
  });

  it("copies nothing of a task that is ahead in the target, and counts its newer checkpoints", async () => {
    const { run, manager, open } = await placeWith(1, 2);
    await run("copy", "--to", "files:to");
    await using ahead = await open("files:to");
    await ahead.save("task-1", "third");
    const { code, stdout } = await run("copy", "--to", "files:to");
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^Copied 0 .*\n.* has 1 more checkpoint .*\n2 of 2 ident/),
    ]);
    await manager.close();
  });

  it("leaves a task out if its sequences are taken by checkpoints that were removed in the target", async () => {
    const { run, manager, open, cwd } = await placeWith(2, 1);
    await run("copy", "--to", "files:to");
    await using other = await open("files:to");
    const removed = await other.save("task-1", "second there");
    await other.remove("task-1", removed.id);
    for (const task of ["task-1", "task-2"]) await manager.save(task, "second here");
    const { code, stderr } = await run("copy", "--to", "files:to");
    expect([code, stderr]).toEqual([6, expect.stringMatching(/task "task-1" was left out: Sequence 2 .* is taken/)]);
    expect((await recordsOf(cwd, "files:to")).map(({ taskId }) => taskId)).toEqual(["task-1", "task-2", "task-2"]);
    await manager.close();
  });

  it("leaves a task out with its events if the history of one of the two is another one", async () => {
    const { run, manager, open, cwd } = await placeWith(2, 1);
    await manager.send("task-1", "approve", 1);
    await manager.send("task-2", "approve", 1);
    await using other = await open("files:to");
    await other.save("task-1", "another program's");
    await other.send("task-2", "reject", 2);
    const before = await recordsOf(cwd, "files:to");
    const { code, stdout } = await run("copy", "--to", "files:to", "--json");
    expect([code, JSON.parse(stdout)]).toEqual([
      6,
      expect.objectContaining({ records: 4, copied: 0, leftOut: ["task-1", "task-2"] }),
    ]);
    expect(await recordsOf(cwd, "files:to")).toEqual(before);
    await manager.close();
  });

  it("leaves a thread of LangGraph out as a whole", async () => {
    const { run, manager, open, cwd } = await newPlace();
    for (const thread of ["one", "two"]) {
      for (const part of ["c/", "c/x"]) await manager.save(`langgraph/${thread}/${part}`, part);
    }
    await using other = await open("files:to");
    await other.save("langgraph/one/c/x", "another program's");
    const { code, stdout, stderr } = await run("copy", "--to", "files:to", "--json");
    expect([code, JSON.parse(stdout)]).toEqual([
      6,
      expect.objectContaining({ records: 4, copied: 2, leftOut: ["langgraph/one/c/"] }),
    ]);
    expect(stderr).toContain('warning: task "one" was left out: its checkpoint @1 is another one');
    expect((await recordsOf(cwd, "files:to")).map(({ taskId }) => taskId)).toEqual([
      "langgraph/one/c/x",
      "langgraph/two/c/",
      "langgraph/two/c/x",
    ]);
    await manager.close();
  });

  it("reports a checkpoint that was encrypted anew since an earlier copy", async () => {
    const { cwd, run, manager } = await placeWith(1, 1);
    await run("copy", "--to", "files:to");
    const keyed = new CheckpointManager({
      storage: openStorage("sqlite:checkpoints.db", { relativeTo: cwd }),
      transforms: [encrypt({ keys: { k: Buffer.alloc(32, 7) }, current: "k" })],
    });
    await keyed.maintenance.rekey();
    await keyed.save("task-1", 2);
    const { code, stdout, stderr } = await run("copy", "--to", "files:to");
    expect([code, stdout]).toEqual([6, expect.stringContaining("1 of 2 identical")]);
    expect(stderr).toMatch(/\(@1\) of task "task-1" differs: its content differs\n/);
    await keyed.close();
    await manager.close();
  });

  it("refuses to copy a storage to itself", async () => {
    const { run, manager } = await placeWith(1, 1);
    await manager.close();
    expect((await run("copy", "--to", "sqlite:./checkpoints.db")).code).toBe(2);
    expect((await run("copy")).code).toBe(2);
  });
});

describe("waymark import refuses", () => {
  async function exportOf() {
    const { run, cwd, manager } = await placeWith(2, 2);
    await manager.close();
    const text = (await run("export")).stdout;
    const importing = async (content: string) => {
      writeFileSync(join(cwd, "x.ndjson"), content);
      return waymark({ cwd, env: { WAYMARK_STORAGE: "sqlite:new.db" } }, ["import", "x.ndjson"]);
    };
    return { lines: text.trimEnd().split("\n"), importing, cwd };
  }
  const damaged = (line: number, reason: string) => ({
    code: 5,
    stdout: "",
    stderr: expect.stringMatching(
      new RegExp(`^waymark: x.ndjson, line ${line}: ${reason}.* Nothing was imported.*\n$`),
    ),
  });

  it("a line that fails its checksum, and names the line", async () => {
    const { lines, importing } = await exportOf();
    const changed = lines.with(2, lines[2]!.replace('"stage":"s2"', '"stage":"s3"'));
    expect(await importing(changed.join("\n"))).toEqual(damaged(3, "its checksum doesn't match"));
  });

  it("no export to which an editor added carriage returns and a byte order mark", async () => {
    const { lines, importing } = await exportOf();
    expect(await importing(`\ufeff${lines.join("\r\n")}\r\n`)).toMatchObject({
      code: 0,
      stdout: "Imported 4 checkpoints; 0 there already.\n",
    });
  });

  it("a file that is no export, without advice to import the part before the fault", async () => {
    const { lines, importing } = await exportOf();
    for (const content of ["hello\n", lines.slice(1).join("\n"), `${lines[0]}\n{}\n`]) {
      const { code, stderr } = await importing(content);
      expect([code, stderr]).toEqual([5, expect.stringMatching(/ Nothing was imported\.\n$/)]);
    }
    expect((await importing(lines.slice(0, 3).join("\n"))).stderr).toMatch(
      /Nothing was imported; to import the 2 checkpoints before it: waymark import - < x\.ndjson\n$/,
    );
  });

  it("an export without its trailer, or cut in the middle of a line", async () => {
    const { lines, importing } = await exportOf();
    expect(await importing(`${lines.slice(0, -1).join("\n")}\n`)).toEqual(damaged(6, "the trailer is missing"));
    expect(await importing(lines.join("\n").slice(0, -9))).toEqual(damaged(6, "it is no whole line of an export"));
    expect(await importing("")).toEqual(damaged(1, "it is empty"));
  });

  it("an export with a missing line, or with two lines exchanged", async () => {
    const { lines, importing } = await exportOf();
    expect(await importing(lines.toSpliced(2, 1).join("\n"))).toEqual(damaged(5, "the trailer doesn't match"));
    const swapped = lines.with(1, lines[2]!).with(2, lines[1]!);
    expect(await importing(swapped.join("\n"))).toEqual(damaged(6, "the trailer doesn't match"));
    expect(await importing(lines.concat(lines[1]!).join("\n"))).toEqual(damaged(7, "it comes after the trailer"));
  });

  it("a checkpoint whose sequence another one has, naming the line, with exit code 6", async () => {
    const { lines, importing, cwd } = await exportOf();
    await waymark({ cwd }, ["copy", "--storage", "sqlite:checkpoints.db", "--to", "sqlite:new.db"]);
    await waymark({ cwd }, ["delete", "task-1", "@1", "--yes", "--storage", "sqlite:new.db"]);
    const { code, stderr } = await importing(lines.join("\n"));
    expect([code, stderr]).toEqual([6, expect.stringMatching(/^waymark: x.ndjson, line 2: Sequence 1 .*\n$/)]);
  });

  it("a file with a task of which the storage has another history, before it stores an event or another task", async () => {
    const { run, cwd, manager, open } = await placeWith(2, 1);
    await manager.send("task-2", "approve", 1);
    await manager.close();
    await run("export", "--out", "x.ndjson");
    await using other = await open("sqlite:new.db");
    await other.save("task-2", "another program's");
    const into = { cwd, env: { WAYMARK_STORAGE: "sqlite:new.db" } };
    const { code, stderr } = await waymark(into, ["import", "x.ndjson"]);
    expect([code, stderr]).toEqual([
      6,
      expect.stringMatching(
        /^waymark: x.ndjson, line 3: Sequence 1 of task "task-2" is taken: .* Nothing was imported\. /,
      ),
    ]);
    expect(await recordsOf(cwd, "sqlite:new.db")).toMatchObject([{ taskId: "task-2" }]);
  });

  it.each([["x.ndjson"], ["-"]])(
    "checkpoints that come after others of the task, of which %s has none",
    async (file) => {
      const { run, cwd, manager, open } = await placeWith(1, 3);
      await manager.retention.prune("task-1", { keepLast: 1 });
      await manager.close();
      await run("export", "--out", "x.ndjson");
      await using other = await open("sqlite:new.db");
      for (const n of [1, 2]) await other.save("task-1", n);
      const into = { cwd, env: { WAYMARK_STORAGE: "sqlite:new.db" } };
      const { code, stderr } = await waymark(into, ["import", file], readFileSync(join(cwd, "x.ndjson"), "utf8"));
      expect([code, stderr]).toEqual([
        6,
        expect.stringMatching(/line 2: .* another history\. Nothing was imported\. Import/),
      ]);
      expect(await recordsOf(cwd, "sqlite:new.db")).toHaveLength(2);
    },
  );
});

describe("waymark export --out", () => {
  it("writes a new file, and never overwrites one", async () => {
    const { run, cwd, manager } = await placeWith(1, 2);
    await manager.close();
    expect((await run("export", "--out", "a.ndjson")).stdout).toBe("Exported 2 checkpoints of 1 task.\n");
    const before = readFileSync(join(cwd, "a.ndjson"), "utf8");
    const again = await run("export", "--out", "a.ndjson");
    expect([again.code, again.stderr]).toEqual([6, expect.stringContaining("a.ndjson is there already")]);
    expect(readFileSync(join(cwd, "a.ndjson"), "utf8")).toBe(before);
    expect((await run("export", "--out", "no/such/folder.ndjson")).stderr).toMatch(
      /^waymark: no\/such\/folder.ndjson can't be created \(ENOENT\).*\n$/,
    );
  });
});
