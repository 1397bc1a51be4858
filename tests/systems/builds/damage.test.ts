import { closeSync, openSync, writeSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointCorruptError, type CorruptRecord } from "waymark";
import { checkpoint, connect, openBuilds, rowsOf } from "./support.js";

/** Three checkpoints, c1 to c3, and the reported damage. */
async function threeCheckpoints() {
  const corrupt: CorruptRecord[] = [];
  const builds = await openBuilds({ onCorrupt: (record) => corrupt.push(record) });
  for (const id of ["c1", "c2", "c3"]) builds.saveCheckpoint(checkpoint(id));
  return { ...builds, corrupt, db: connect(builds.path) };
}

describe("a row that can't be read", () => {
  it.each([
    ["tasks = '[{\"id\":'", "tasks"],
    ["tasks = '{}'", "tasks"],
    ["tasks = x'5b5d'", "tasks"],
    ["metadata = 'oops'", "metadata"],
    ["metadata = '[1]'", "metadata"],
    ["current_phase = 'two'", "current_phase"],
  ])("is skipped for the newest intact one, and reported: %s", async (change, column) => {
    const { getLatestCheckpoint, corrupt, db, path } = await threeCheckpoints();
    db.exec(`UPDATE checkpoints SET ${change} WHERE id = 'c3'`);
    const before = db.prepare("SELECT * FROM checkpoints WHERE id = 'c3'").get();

    expect(getLatestCheckpoint("b")?.id).toBe("c2");
    const reason = `its ${column} can't be read`;
    const location = `${path}, table checkpoints, id "c3"`;
    expect(corrupt).toMatchObject([{ corrupt: true, taskId: "b", id: "c3", location, reason }]);
    expect(db.prepare("SELECT * FROM checkpoints WHERE id = 'c3'").get()).toEqual(before);
  });

  it("is logged as a warning if there is no listener", async () => {
    const { saveCheckpoint, getLatestCheckpoint, path, lines } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    saveCheckpoint(checkpoint("c2"));
    connect(path).exec("UPDATE checkpoints SET tasks = '' WHERE id = 'c2'");

    expect(getLatestCheckpoint("b")?.id).toBe("c1");
    expect(lines).toMatchObject([
      { level: "warn", message: expect.stringMatching(/id "c2" was skipped and left untouched: its tasks/) },
    ]);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("listener");
      },
    ],
    // Untyped code may return this.
    ["rejects", (() => Promise.reject(new Error("listener"))) as () => never],
  ])("doesn't disturb the reading if its listener %s", async (_how, onCorrupt) => {
    const { saveCheckpoint, getLatestCheckpoint, path, lines } = await openBuilds({ onCorrupt });
    saveCheckpoint(checkpoint("c1"));
    saveCheckpoint(checkpoint("c2"));
    connect(path).exec("UPDATE checkpoints SET tasks = '' WHERE id = 'c2'");

    expect(getLatestCheckpoint("b")?.id).toBe("c1");
    await new Promise(setImmediate);
    expect(lines).toMatchObject([{ level: "error", message: "onCorrupt threw" }]);
  });

  it("is an error if nothing intact is left, and never null", async () => {
    const { getLatestCheckpoint, corrupt, db } = await threeCheckpoints();
    db.exec("UPDATE checkpoints SET tasks = substr(tasks, 3)");

    expect(() => getLatestCheckpoint("b")).toThrow(CheckpointCorruptError);
    expect(corrupt.map(({ id }) => id)).toEqual(["c3", "c2", "c1"]);
    expect(() => getLatestCheckpoint("b")).toThrow(/Build "b" has checkpoints.*none of the 3 can be read.*untouched/);
    expect(getLatestCheckpoint("b2")).toBeNull();
    expect(rowsOf(db, "b")).toHaveLength(3);
  });

  it("includes a row without a time: it comes last, and alone it is an error", async () => {
    const { getLatestCheckpoint, db } = await threeCheckpoints();
    db.exec("UPDATE checkpoints SET timestamp = 'now' WHERE id <> 'c2'");
    expect(getLatestCheckpoint("b")?.id).toBe("c2");
    db.exec("DELETE FROM checkpoints WHERE id = 'c2'");
    expect(() => getLatestCheckpoint("b")).toThrow(/none of the 2 can be read: its timestamp can't be read/);
  });

  it("may be a row that SQLite itself can't read", async () => {
    const { saveCheckpoint, close, path } = await openBuilds();
    for (const id of ["c1", "c2", "c3"]) {
      saveCheckpoint(checkpoint(id, { tasks: Array.from({ length: 4000 }, (_, i) => `${id} ${i}`) }));
    }
    close();
    spoilLastOverflowPage(path);
    const again = await openBuilds({ path });

    expect(again.getLatestCheckpoint("b")?.id).toBe("c2");
    expect(again.lines).toMatchObject([
      { level: "warn", message: expect.stringMatching(/id "c3".*SQLite can't read it/) },
    ]);
    expect(() => again.cleanupOldCheckpoints("b", 1)).toThrow(CheckpointCorruptError);
    // Retention doesn't read the checkpoints that it keeps, so nothing goes wrong.
    again.saveCheckpoint(checkpoint("c4"));
    expect(again.getLatestCheckpoint("b")?.id).toBe("c4");
    expect(again.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("doesn't stop a build from continuing", async () => {
    const { getLatestCheckpoint, saveCheckpoint, db } = await threeCheckpoints();
    db.exec("UPDATE checkpoints SET tasks = ''");
    expect(() => saveCheckpoint(checkpoint("c3"))).toThrow(/c3 exists with another content/);
    saveCheckpoint(checkpoint("c4"));
    expect(getLatestCheckpoint("b")?.id).toBe("c4");
  });

  it("is never kept by a cleanup instead of the last intact one", async () => {
    const { cleanupOldCheckpoints, getLatestCheckpoint, saveCheckpoint, db } = await threeCheckpoints();
    saveCheckpoint(checkpoint("d1", { buildId: "b2" }));
    saveCheckpoint(checkpoint("d2", { buildId: "b2" }));
    db.exec("UPDATE checkpoints SET tasks = '' WHERE id IN ('c2', 'c3')");
    for (const cleanup of [() => cleanupOldCheckpoints("b", 2), () => cleanupOldCheckpoints(1)]) {
      expect(cleanup).toThrow(CheckpointCorruptError);
      expect(cleanup).toThrow(/Nothing of build "b" was removed.*none of the \d checkpoints to keep can be read/);
    }
    expect(getLatestCheckpoint("b")?.id).toBe("c1");
    // The other build was cleaned up all the same.
    expect(rowsOf(db, "b2").map(({ id }) => id)).toEqual(["d2"]);
  });

  it("of the list of builds is skipped and reported; an unreadable state is an error", async () => {
    const { saveBuildState, listSavedBuilds, getBuildState, corrupt, db } = await threeCheckpoints();
    const state = { prdFile: "p", startTime: "s", tasks: [], completedTasks: [], failedTasks: [], currentPhase: 1 };
    for (const buildId of ["b1", "b2", "b3"]) saveBuildState({ ...state, buildId, logs: [] });
    db.exec("UPDATE build_states SET prd_file = x'00' WHERE build_id = 'b2'");
    db.exec("UPDATE build_states SET logs = 'began' WHERE build_id = 'b3'");

    expect(
      listSavedBuilds()
        .map(({ buildId }) => buildId)
        .sort(),
    ).toEqual(["b1", "b3"]);
    expect(corrupt).toMatchObject([{ taskId: "b2", location: expect.stringContaining("table build_states") }]);
    expect(() => getBuildState("b2")).toThrow(CheckpointCorruptError);
    expect(() => getBuildState("b3")).toThrow(/state of build "b3".*its logs is damaged.*untouched/);
    expect(getBuildState("b1")).toEqual({ ...state, buildId: "b1", logs: [] });
  });
});

describe("a retention that fails", () => {
  it("doesn't fail the save: the checkpoint is stored, and the error is logged", async () => {
    const { saveCheckpoint, getLatestCheckpoint, path, lines } = await openBuilds({ retention: { keepLast: 1 } });
    saveCheckpoint(checkpoint("c1"));
    connect(path).exec(
      "CREATE TRIGGER keep_all BEFORE DELETE ON checkpoints BEGIN SELECT raise(ABORT, 'nothing is removed here'); END",
    );
    saveCheckpoint(checkpoint("c2"));

    expect(getLatestCheckpoint("b")?.id).toBe("c2");
    expect(rowsOf(connect(path), "b")).toHaveLength(2);
    expect(lines).toMatchObject([
      {
        level: "error",
        message: 'Old checkpoints of build "b" could not be removed; checkpoint c2 is stored',
        details: { error: { message: expect.stringContaining("nothing is removed here") } },
      },
    ]);
  });
});

/** Damages the last overflow page but one of the last inserted row: overwrites the number of its next page. */
function spoilLastOverflowPage(path: string): void {
  const database = new Database(path);
  const cell = `SELECT pageno FROM dbstat WHERE name = 'checkpoints' AND pagetype = 'overflow' ORDER BY path DESC`;
  const pages = database.prepare<[], number>(cell).pluck().all();
  database.close();
  const file = openSync(path, "r+");
  writeSync(file, Buffer.alloc(4, 0xff), 0, 4, (pages[1]! - 1) * 4096);
  closeSync(file);
}
