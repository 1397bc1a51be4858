// waymark export, import and copy.
import { readFileSync, writeFileSync } from "node:fs";
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

  it("copy keeps the same, compares record by record, and reports N of N identical", async () => {
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
    expect(await importing(lines.join("\n").slice(0, -9))).toEqual(damaged(6, "it isn't a whole line of an export"));
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
