import { closeSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointCorruptError } from "waymark";
import { findDamage, isCorrupt, type StoredCheckpoint } from "waymark/adapter";
import { draft, fullDraft } from "../../../../conformance/drafts.js";
import { collect, connect, idsOf, listed, newStore, openAdapter } from "./support.js";

/** Makes a closed store with checkpoints c1 … of task t and an intact checkpoint of task u. */
async function closedStore(count: number, payloadBytes = 10) {
  const { adapter, path } = await newStore({ durability: "normal" });
  for (let number = 1; number <= count; number++) {
    await adapter.append(draft("t", `c${number}`, { body: JSON.stringify(`${number}`.repeat(payloadBytes)) }));
  }
  await adapter.append(draft("u", "intact"));
  await adapter.close();
  return path;
}

/** Runs SQL behind the adapter's back. */
function alter(path: string, ...statements: string[]): void {
  const database = new Database(path);
  for (const sql of statements) database.exec(sql);
  database.close();
}

/** Returns the page numbers of a table or index: leaves, overflow pages, or all. */
function pagesOf(path: string, name: string, kind?: "leaf" | "overflow"): number[] {
  const database = new Database(path);
  const pages = database
    .prepare("SELECT pageno, pagetype FROM dbstat WHERE name = ? ORDER BY path")
    .all(name)
    .map((row) => row as { pageno: number; pagetype: string })
    .filter(({ pagetype }) => kind === undefined || pagetype === kind)
    .map(({ pageno }) => pageno);
  database.close();
  return pages;
}

/** Writes 0xFF over pages, or over their first bytes, as a failing disk might. */
function spoil(path: string, pages: readonly number[], bytes = 4096): void {
  const file = openSync(path, "r+");
  for (const page of pages) writeSync(file, Buffer.alloc(bytes, 0xff), 0, bytes, (page - 1) * 4096);
  closeSync(file);
}

describe("payloads", () => {
  it("are not read by lists, tasks, status changes and conditions", async () => {
    const path = await closedStore(3);
    const adapter = openAdapter({ path });
    // A statement that was prepared before would fail now, and a new one couldn't be prepared.
    await listed(adapter);
    alter(path, "DROP TABLE waymark_payloads");
    expect(await listed(adapter)).toEqual(["c3", "c2", "c1"]);
    expect(
      await idsOf(adapter.list({ taskId: "t", order: "oldest", status: ["running"], stage: undefined })),
    ).toHaveLength(3);
    expect(await collect(adapter.tasks({ order: "recent" }))).toHaveLength(2);
    expect(await adapter.setStatus("t", "c3", { status: "completed" }, { expectedSequence: 3 })).toBe(true);
  });

  it("that can't be read are reported with their checkpoint, and the others are read", async () => {
    const path = await closedStore(5, 30_000);
    const overflow = pagesOf(path, "waymark_payloads", "overflow");
    // The first bytes are the number of the next page.
    spoil(path, overflow.slice(8, 9), 4);
    const adapter = openAdapter({ path });
    expect(await listed(adapter)).toEqual(["c5", "c4", "c3", "c2", "c1"]);
    const read = await idsOf(adapter.read({ taskId: "t", order: "oldest" }));
    expect(read.filter((id) => !id.startsWith("corrupt"))).toHaveLength(4);
    const lost = Number(read.find((id) => id.startsWith("corrupt"))?.split(" c")[1]);
    expect(await adapter.get("t", `c${lost}`)).toMatchObject({
      corrupt: true,
      location: expect.stringContaining(`${path}, table waymark_checkpoints, number`),
      reason: "SQLite can't read its payload",
      id: `c${lost}`,
    });
  });

  it("that are gone or of another size make their checkpoint corrupt, and harm no other", async () => {
    const path = await closedStore(3);
    alter(
      path,
      "DELETE FROM waymark_payloads WHERE number = 1",
      "UPDATE waymark_payloads SET body = body || 'é' WHERE number = 2",
      "UPDATE waymark_payloads SET body = x'00' WHERE number = 3",
      // The checkpoint is the newest of all, so that its sequence might be used again.
      "DELETE FROM waymark_payloads WHERE number = 4",
    );
    const adapter = openAdapter({ path });
    const found = await collect(adapter.read({ taskId: "t", order: "oldest" }));
    expect(found.map((record) => isCorrupt(record) && record.reason)).toEqual(["its payload is missing", false, false]);
    const unverified = found.map((record) => (isCorrupt(record) ? "corrupt" : findDamage(record)));
    expect(unverified.slice(1)).toEqual(Array(2).fill("its payload fails its SHA-256 checksum"));
    await adapter.append(draft("t", "c4"));
    expect(await adapter.remove("u", "all")).toBe(1);
    expect(await adapter.get("t", "c4")).toMatchObject({ sequence: 4, payload: draft("t", "c4").payload });
  });
});

describe("a changed row that still makes sense", () => {
  it.each(["created_at = '2020-01-01T00:00:00.000Z'", "label = 'another'", "metadata = '{}'"])(
    "is reported by lists too: %s",
    async (change) => {
      const path = await closedStore(3);
      alter(path, `UPDATE waymark_checkpoints SET ${change} WHERE task_id = 't' AND sequence = 3`);
      const adapter = openAdapter({ path });
      expect(await listed(adapter)).toEqual([expect.stringContaining("corrupt"), "c2", "c1"]);
      const tasks = await collect(adapter.tasks({ order: "taskId" }));
      expect(tasks.map((task) => (isCorrupt(task) ? task.reason : task.newest?.id))).toEqual([
        "its seal doesn't match its content",
        "c2",
        "intact",
      ]);
    },
  );

  it("isn't sealed again by a new status or payload, which would make it look intact", async () => {
    const path = await closedStore(3);
    alter(path, "UPDATE waymark_checkpoints SET label = 'another' WHERE task_id = 't' AND sequence = 3");
    const adapter = openAdapter({ path });
    const { payload } = (await adapter.get("t", "c2")) as StoredCheckpoint;
    const damaged = await adapter.get("t", "c3");
    const { sha256 } = (damaged as StoredCheckpoint).payload;
    await expect(adapter.setStatus("t", "c3", { status: "paused" })).rejects.toThrow(CheckpointCorruptError);
    await expect(adapter.replacePayload("t", "c3", payload, sha256)).rejects.toThrow(CheckpointCorruptError);
    expect(await adapter.get("t", "c3")).toEqual(damaged);
  });
});

describe("a row that makes no sense", () => {
  it.each([
    ["metadata = '{'", "its metadata isn't an object"],
    ["metadata = '[1]'", "its metadata isn't an object"],
    ["error = '{\"message\": 1}'", "its error isn't an object of texts"],
    ["error = 'x'", "its error isn't an object of texts"],
    ["error = '[]'", "its error isn't an object of texts"],
    ['error = \'{"message": "m", "code": 2}\'', "its error isn't an object of texts"],
    ["status = 'done'", "its status is unknown"],
    ["state_version = 0", "its stateVersion isn't a whole number from 1"],
    ["size_bytes = -1", "its sizeBytes isn't a whole number from 0"],
  ])("is reported whatever the filter says, and its neighbours are given: %s", async (change, reason) => {
    const path = await closedStore(3);
    alter(path, `UPDATE waymark_checkpoints SET ${change} WHERE task_id = 't' AND sequence = 2`);
    const adapter = openAdapter({ path });
    const location = `${path}, table waymark_checkpoints, number 2`;
    expect(await adapter.get("t", "c2")).toMatchObject({ corrupt: true, reason, location, id: "c2", sequence: 2 });
    expect(await idsOf(adapter.list({ taskId: "t", order: "newest" }))).toEqual(["c3", "corrupt c2", "c1"]);
    expect(await idsOf(adapter.read({ taskId: "t", order: "oldest", limit: 2 }))).toEqual(["c1", "corrupt c2", "c3"]);
    expect(await idsOf(adapter.list({ taskId: "t", order: "newest", stage: "nowhere" }))).toEqual(["corrupt c2"]);
    expect(await idsOf(adapter.read({ taskId: "t", order: "newest", status: [] }))).toEqual(["corrupt c2"]);
    await expect(adapter.setStatus("t", "c2", { status: "completed" })).rejects.toThrow(CheckpointCorruptError);
  });

  it("is replaced by the newest readable one in a list of tasks", async () => {
    const path = await closedStore(4);
    alter(path, "UPDATE waymark_checkpoints SET metadata = '{', status = 'completed' WHERE sequence > 2");
    const adapter = openAdapter({ path });
    for (const order of ["taskId", "recent"] as const) {
      const tasks = await collect(adapter.tasks({ order, status: ["running"] }));
      const shown = tasks.map((task) => (isCorrupt(task) ? `corrupt ${task.id}` : `${task.taskId} ${task.newest?.id}`));
      expect(shown.toSorted()).toEqual(["corrupt c3", "corrupt c4", "t c2", "u intact"].toSorted());
      expect(shown.indexOf("t c2")).toBeGreaterThan(shown.indexOf("corrupt c3"));
    }
    expect(await collect(adapter.tasks({ order: "taskId", prefix: "t" }))).toMatchObject([{}, {}, { count: 4 }]);
  });
});

describe("damaged pages", () => {
  it.each(["waymark_checkpoints", "waymark_checkpoints_by_sequence"])(
    "of %s are a typed error that says what to do, and nothing is changed",
    async (name) => {
      const path = await closedStore(40);
      spoil(path, pagesOf(path, name));
      const before = readFileSync(path);
      const adapter = openAdapter({ path });
      for (const call of [
        () => listed(adapter),
        () => collect(adapter.tasks({ order: "recent" })),
        () => adapter.append(draft("t", "more")),
      ]) {
        await expect(call()).rejects.toThrow(CheckpointCorruptError);
        await expect(call()).rejects.toThrow(/is damaged.*Nothing was changed.*\.recover/);
      }
      await adapter.close();
      expect(readFileSync(path).equals(before)).toBe(true);
    },
  );

  it("that give rows out of order end a listing with a typed error instead of continuing forever", async () => {
    const path = await closedStore(6);
    // JavaScript can't distinguish these numbers.
    alter(path, "UPDATE waymark_checkpoints SET sequence = 9223372036854775800 + sequence WHERE task_id = 't'");
    await expect(idsOf(openAdapter({ path }).read({ taskId: "t", order: "newest" }))).rejects.toThrow(/out of order/);
  });

  it("that are missing from a file that was cut short are a typed error", async () => {
    const path = await closedStore(300);
    truncateSync(path, 4096 * 3);
    await expect(listed(openAdapter({ path }))).rejects.toThrow(CheckpointCorruptError);
  });

  it("don't turn a file with a lost header into an empty store", async () => {
    const path = await closedStore(3);
    spoil(path, [1], 100);
    await expect(listed(openAdapter({ path }))).rejects.toThrow(CheckpointCorruptError);
    writeFileSync(path, readFileSync(path).subarray(0, 50));
    await expect(openAdapter({ path }).append(draft("t", "c4"))).rejects.toThrow(CheckpointCorruptError);
  });
});

describe("a checkpoint that was moved to another task", () => {
  it("keeps its own seal, so that the manager detects it", async () => {
    const { adapter, path } = await newStore();
    await adapter.append(fullDraft("t", "c1"));
    const before = await adapter.get("t", "c1");
    connect(path).exec("UPDATE waymark_checkpoints SET task_id = 'other'");
    expect(await adapter.get("other", "c1")).toMatchObject({
      taskId: "other",
      seal: before && "seal" in before && before.seal,
    });
  });
});
