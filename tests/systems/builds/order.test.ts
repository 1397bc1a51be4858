import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { tempFolder } from "../../support/temp-folder.js";
import { checkpoint, connect, openBuilds, rowsOf, specLatest, specProgram } from "./support.js";

/** A clock that stands still until it is set. */
function clockAt(...time: [hour: number, minute: number, second: number, ms?: number]) {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 10, 22, ...time) });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  return (...later: [hour: number, minute: number, second: number, ms?: number]) =>
    vi.setSystemTime(Date.UTC(2026, 10, 22, ...later));
}

describe("the newest checkpoint, by Waymark and by the spec's own query", () => {
  it("is the one saved last where the clock was set back", async () => {
    const setClock = clockAt(10, 0, 0);
    const { saveCheckpoint, getLatestCheckpoint, path } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    setClock(7, 30, 0);
    for (const id of ["c2", "c3"]) {
      saveCheckpoint(checkpoint(id));
      expect(getLatestCheckpoint("b")?.id).toBe(id);
      expect(specLatest(connect(path), "b")?.id).toBe(id);
    }
    setClock(10, 0, 1);
    saveCheckpoint(checkpoint("c4"));
    expect(rowsOf(connect(path), "b").map(({ timestamp }) => timestamp)).toEqual([
      "2026-11-22 10:00:00.000000",
      "2026-11-22 10:00:00.000001",
      "2026-11-22 10:00:00.000002",
      "2026-11-22 10:00:01.000000",
    ]);
  });

  it("is the one saved after a row of the spec's program of the same second, or of a later one", async () => {
    clockAt(1, 2, 3, 0);
    const path = join(await tempFolder(), "nova.db");
    const { db } = specProgram(path);
    const insert = db.prepare(
      "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,?,?)",
    );
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds({ path });
    for (const [n, timestamp] of ["2026-11-22 01:02:03", "2026-11-22 05:00:00", "2026-11-22 05:00:00.5"].entries()) {
      insert.run(`s${n}`, "b", timestamp, "[]", 1);
      saveCheckpoint(checkpoint(`w${n}`));
      expect(specLatest(db, "b")?.id).toBe(`w${n}`);
      expect(getLatestCheckpoint("b")?.id).toBe(`w${n}`);
    }
    expect(
      rowsOf(db, "b")
        .map(({ timestamp }) => timestamp)
        .at(-1),
    ).toBe("2026-11-22 05:00:00.500001");
  });

  it("is the one saved after rows whose times have another form", async () => {
    clockAt(1, 2, 3, 0);
    const path = join(await tempFolder(), "nova.db");
    const { db } = specProgram(path);
    const insert = db.prepare(
      "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,?,?)",
    );
    insert.run("iso", "b", "2026-11-22T01:02:03.900Z", "[]", 1);
    insert.run("word", "b", "now", "[]", 1);
    insert.run("number", "b", "9999999", "[]", 1);
    const { saveCheckpoint, getLatestCheckpoint, lines } = await openBuilds({ path, retention: { keepLast: 2 } });
    expect(getLatestCheckpoint("b")?.id).toBe("iso");

    saveCheckpoint(checkpoint("c1"));
    expect(getLatestCheckpoint("b")).toMatchObject({ id: "c1", timestamp: "2026-11-22 01:02:04.000000" });
    expect(rowsOf(db, "b").map(({ id }) => id)).toEqual(["iso", "c1"]);
    expect(lines).toEqual([]);
  });

  it("is the one saved last at the end of time too", async () => {
    const path = join(await tempFolder(), "nova.db");
    const { db } = specProgram(path);
    const insert = db.prepare(
      "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,?,?)",
    );
    insert.run("last", "b", "9999-12-31 23:59:59.999998", "[]", 1);
    insert.run("day that isn't", "b2", "2999-02-30 00:00:00", "[]", 1);
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds({ path });
    expect(saveCheckpoint(checkpoint("c1")).timestamp).toBe("9999-12-31 23:59:59.999999");
    expect(specLatest(db, "b")?.id).toBe("c1");
    saveCheckpoint(checkpoint("c2"));
    expect(getLatestCheckpoint("b")?.id).toBe("c2");
    saveCheckpoint(checkpoint("d1", { buildId: "b2" }));
    expect(getLatestCheckpoint("b2")?.id).toBe("d1");
  });

  it("is of its own build: others' clocks don't concern it", async () => {
    const setClock = clockAt(10, 0, 0);
    const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    setClock(9, 0, 0);
    saveCheckpoint(checkpoint("d1", { buildId: "b2" }));
    expect(getLatestCheckpoint("b2")?.timestamp).toBe("2026-11-22 09:00:00.000000");
  });
});

describe("a timestamp", () => {
  it("is UTC: with a Z it is a Date", async () => {
    const before = Date.now();
    const { saveCheckpoint } = await openBuilds();
    const { timestamp } = saveCheckpoint(checkpoint("c1"));
    const ms = new Date(`${timestamp}Z`).getTime();
    expect(ms).toBeGreaterThanOrEqual(before);
    expect(ms).toBeLessThanOrEqual(Date.now());
  });

  it("is a time to SQLite", async () => {
    clockAt(1, 2, 3, 456);
    const { saveCheckpoint, path } = await openBuilds();
    saveCheckpoint(checkpoint("c1"));
    expect(connect(path).prepare("SELECT datetime(timestamp) FROM checkpoints").pluck().get()).toBe(
      "2026-11-22 01:02:03",
    );
  });
});
