// waymark langgraph import: moves threads of LangGraph's own savers to a WaymarkSaver.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../support/temp-folder.js";
import { agentOn, answers, fill, historyOf, saverOn, thread, WITHOUT_LANGGRAPH } from "./langgraph-agent.js";
import { recordsOf, waymark, waymarkProcess } from "./waymark.js";

/** The database of a SqliteSaver with three threads: one waits, one is done, and one has branched. */
async function placeWithSqlite() {
  const cwd = await tempFolder();
  const database = new Database(join(cwd, "theirs.db"));
  onTestFinished(() => void database.close());
  const theirs = new SqliteSaver(database);
  await fill(theirs);
  const run = (...args: string[]) => waymark({ cwd }, ["langgraph", "import", "--from", "sqlite:theirs.db", ...args]);
  return { cwd, database, theirs, run };
}

it.each(["files:ours", "sqlite:ours.db"])(
  "moves a SqliteSaver's threads to %s, where a graph continues them",
  async (to) => {
    const { cwd, theirs, run } = await placeWithSqlite();
    const first = await run("--to", to);
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(
      /^Imported (\d+) checkpoints of 3 threads to \S+; 0 there already\.\n\1 of \1 identical\n$/,
    );
    const ours = saverOn(cwd, to);
    for (const id of ["waits", "done", "branched"])
      expect(await historyOf(ours, id)).toEqual(await historyOf(theirs, id));

    const resume = await answers(ours, "waits");
    const [here, there] = [agentOn(ours), agentOn(theirs)].map((agent) =>
      agent.invoke(new Command({ resume }), thread("waits")),
    );
    expect((await here)?.log.at(-1)).toBe("sum");
    expect(await here).toEqual(await there);
    const { next, values } = await agentOn(ours).getState(thread("branched"));
    expect(next).toEqual(["approve", "look", "mail"]);
    expect(values.log).toContain("another way");
  },
);

it("stores unchanged values once, and keeps the checkpoints' own times", async () => {
  const { cwd, run, theirs } = await placeWithSqlite();
  await run("--to", "sqlite:ours.db");
  const manager = new CheckpointManager({ storage: openStorage("sqlite:ours.db", { relativeTo: cwd }) });
  const newest = await theirs.getTuple(thread("done"));
  const [summary] = await manager.list("langgraph/done/c/", { limit: 1 });
  await manager.close();
  expect(summary).toMatchObject({
    id: newest?.checkpoint.id,
    createdAt: newest?.checkpoint.ts,
    metadata: { holders: { plan: expect.any(String) } },
  });
});

it("adds nothing if it is run again, and continues where it was stopped", async () => {
  const { cwd, run } = await placeWithSqlite();
  await run("--to", "sqlite:ours.db");
  const records = async () => {
    const manager = new CheckpointManager({ storage: openStorage("sqlite:ours.db", { relativeTo: cwd }) });
    const tasks = await manager.tasks();
    await manager.close();
    return tasks.map(({ taskId, count }) => [taskId, count]);
  };
  const all = await records();
  expect((await run("--to", "sqlite:ours.db")).stdout).toMatch(
    /^Imported 0 checkpoints .*; (\d+) there already\.\n\1 of \1 identical\n$/,
  );
  expect(await records()).toEqual(all);

  // The state after a kill: the newest checkpoints and some writes are missing.
  const storage = openStorage("sqlite:ours.db", { relativeTo: cwd });
  const newest: string[] = [];
  for await (const { id = "" } of storage.list({ taskId: "langgraph/done/c/", order: "newest", limit: 2 }))
    newest.push(id);
  await storage.remove("langgraph/done/c/", newest);
  await storage.remove(`langgraph/done/w//${newest[1]}`, "all");
  await storage.close();
  expect((await run("--to", "sqlite:ours.db")).stdout).toMatch(/^Imported 2 checkpoints .*\n(\d+) of \1 identical\n$/);
  expect(await records()).toEqual(all);
});

it("only reads the source, even while a program writes to it", async () => {
  const { cwd, run, database, theirs } = await placeWithSqlite();
  const before = database.serialize();
  database.exec("BEGIN IMMEDIATE; UPDATE checkpoints SET metadata = NULL");
  expect(await run("--to", "sqlite:ours.db")).toMatchObject({ code: 0 });
  database.exec("ROLLBACK");
  expect(database.serialize()).toEqual(before);
  expect(await historyOf(saverOn(cwd, "sqlite:ours.db"), "done")).toEqual(await historyOf(theirs, "done"));
});

it("names differences, imports the rest, and exits with 1", async () => {
  const { run, database } = await placeWithSqlite();
  await run("--to", "sqlite:ours.db");
  const ids = database.prepare("SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1").pluck();
  const [damaged = "", python = ""] = ids.all("waits").map(String);
  const set = database.prepare("UPDATE checkpoints SET checkpoint = ? WHERE checkpoint_id = ?");
  set.run("{", damaged);
  const versions = { v: 4, id: python, ts: "2026-11-23", channel_versions: { log: "0001.02" } };
  set.run(JSON.stringify(versions), python);
  database.prepare("DELETE FROM writes WHERE thread_id = 'done'").run();
  const [own = ""] = ids.all("branched").map(String);
  database.prepare("UPDATE checkpoints SET type = 'aes' WHERE checkpoint_id = ?").run(own);

  for (const to of ["sqlite:ours.db", "sqlite:new.db"]) {
    const { code, stdout, stderr } = await run("--to", to, "--json");
    expect(code).toBe(1);
    const { checkpoints, identical, different } = JSON.parse(stdout);
    expect(identical).toBe(checkpoints - different.length);
    expect(different).toEqual(
      expect.arrayContaining([
        { threadId: "waits", namespace: "", id: damaged, reason: expect.stringMatching(/^it can't be read: .*JSON/) },
        { threadId: "branched", namespace: "", id: own, reason: expect.stringContaining('wrote it as "aes"') },
        { threadId: "waits", namespace: "", id: python, reason: expect.stringContaining("LangGraph for Python") },
      ]),
    );
    if (to === "sqlite:new.db") {
      expect(different).toHaveLength(3);
      expect(stderr).toContain(`checkpoint ${damaged} of thread waits: `);
    } else
      expect(different).toContainEqual(expect.objectContaining({ threadId: "done", reason: "it has other writes" }));
  }
});

it("encrypts the stored threads, as the configuration says", async () => {
  const { cwd, run } = await placeWithSqlite();
  const config = `import { encrypt } from ${JSON.stringify(import.meta.resolve("waymark"))};
    export default { transforms: [encrypt({ keys: { k1: Buffer.alloc(32, 1) }, current: "k1" })] };`;
  writeFileSync(join(cwd, "waymark.config.mjs"), config);
  expect(await run("--to", "sqlite:ours.db")).toMatchObject({ code: 0 });
  const encodings = (await recordsOf(cwd, "sqlite:ours.db")).map(({ payload }) => payload.encoding);
  expect(new Set(encodings)).toEqual(new Set(["json+encrypt"]));
});

it("keeps bytes in writes and values, which a SqliteSaver returns damaged", async () => {
  const { cwd, run, theirs } = await placeWithSqlite();
  const bytes = new Uint8Array([0, 255, 200, 10]);
  const id = "1f000000-0000-6000-8000-000000000001";
  const config = { configurable: { thread_id: "bytes", checkpoint_ns: "" } };
  const checkpoint = {
    v: 4,
    id,
    ts: new Date(0).toISOString(),
    channel_values: { image: bytes },
    channel_versions: { image: 1 },
    versions_seen: {},
  };
  const put = await theirs.put(config, checkpoint, { source: "input", step: -1, parents: {} });
  await theirs.putWrites(put, [["image", bytes]], "task-1");
  expect(await run("--to", "files:ours")).toMatchObject({ code: 0 });
  const tuple = await saverOn(cwd, "files:ours").getTuple(config);
  expect(tuple?.checkpoint.channel_values).toEqual({ image: bytes });
  expect(tuple?.pendingWrites).toEqual([["task-1", "image", bytes]]);
});

it.each([
  [["--from", "sqlite:none.db", "--to", "files:x"], 3, /There is no database at .*none\.db/],
  [["--from", "sqlite:other.db", "--to", "files:x"], 3, /has no threads of LangGraph's SqliteSaver: no such table/],
  [["--from", "files:x", "--to", "files:y"], 2, /--from is sqlite:FILE or postgres:/],
  [["--from", "sqlite:other.db", "--to", "sqlite:./other.db"], 2, /can't be both/],
  [["--to", "files:x"], 2, /required option '--from <url>'/],
  [["--from", "sqlite:other.db"], 2, /No storage is named/],
  [
    ["--from", "postgres://u:secret@127.0.0.1:1/d", "--to", "files:x"],
    3,
    /^waymark: postgres:\/\/127\.0\.0\.1:1\/d, schema "public", gives no threads.*ECONNREFUSED/,
  ],
])("%j ends with %i and says why", async (args, code, message) => {
  const cwd = await tempFolder();
  const other = new Database(join(cwd, "other.db"));
  other.exec("CREATE TABLE notes (note TEXT)");
  other.close();
  const ended = await waymark({ cwd }, ["langgraph", "import", ...args]);
  expect([ended.code, ended.stderr]).toEqual([code, expect.stringMatching(message)]);
  expect(ended.stderr).not.toContain("secret");
});

it("says which package is missing", async () => {
  const { cwd } = await placeWithSqlite();
  const args = ["langgraph", "import", "--from", "sqlite:theirs.db", "--to", "files:ours"];
  const env = { NODE_OPTIONS: `--import ${WITHOUT_LANGGRAPH}` };
  expect(await waymarkProcess({ cwd, env }, args)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /needs the package @langchain\/langgraph-checkpoint.*npm install waymark-cli @langchain/,
    ),
  });
});
