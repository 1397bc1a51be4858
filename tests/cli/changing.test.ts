// waymark delete, complete, fork and rewind.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { encrypt } from "waymark";
import { newPlace } from "./waymark.js";

async function placeWith(tasks: number, checkpoints: number, url?: string) {
  const place = await newPlace(url);
  for (let t = 1; t <= tasks; t++) {
    for (let n = 1; n <= checkpoints; n++) await place.manager.save(`task-${t}`, { n }, { stage: `s${n}` });
  }
  return place;
}

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
    expect(await refusal("--prefix", "")).toEqual([2, expect.stringContaining("An empty prefix")]);
    expect(await refusal("--prefix", "lang")).toEqual([2, expect.stringContaining("longer prefix")]);
    expect(await refusal("task-1", "--prefix", "t")).toEqual([
      2,
      expect.stringContaining("Pass one task, or --prefix"),
    ]);
    expect(await refusal()).toEqual([2, expect.stringContaining("Pass one task, or --prefix")]);
    expect(await manager.tasks()).toHaveLength(2);
    await manager.close();
  });

  it("complete marks the newest only after an answer, and reports if it was completed before", async () => {
    const { run, manager } = await placeWith(1, 2);
    expect((await run("complete", "task-1")).stderr).toMatch(/Task "task-1" is running at @2 .*--yes/);
    expect((await run("complete", "task-1", "--yes")).stdout).toBe('Task "task-1" is completed.\n');
    expect((await manager.latest("task-1"))?.status).toBe("completed");
    expect((await run("complete", "task-1")).stdout).toBe('Task "task-1" is completed already.\n');
    await manager.close();
  });
});

describe("waymark fork", () => {
  it("begins a task with the state of a checkpoint, and names the checkpoint", async () => {
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
      expect.stringMatching(/^waymark: Task "task-2" already has checkpoints or events, .* choose an unused task id\./),
    ]);
    expect((await run("fork", "task-1", "@9", "new")).code).toBe(3);
    expect((await run("fork", "nobody", "@1", "new")).code).toBe(3);
    expect((await run("fork", "task-1", "@1")).code).toBe(2);
    expect((await run("fork", "task-1", "@1", "x".repeat(600))).code).toBe(2);
    expect((await manager.tasks()).map(({ count }) => count)).toEqual([1, 1]);
    await manager.close();
  });

  it("takes an encrypted state if it has the key, and otherwise explains where keys come from", async () => {
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
