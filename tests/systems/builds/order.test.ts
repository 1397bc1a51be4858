import { join } from "node:path";
import fc from "fast-check";
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

describe("the newest checkpoint, where the spec's program writes into the same seconds", () => {
  /** Both programs on one database, and a clock for both. */
  async function bothPrograms() {
    const setClock = clockAt(10, 0, 0);
    const path = join(await tempFolder(), "nova.db");
    const { db } = specProgram(path);
    const insert = db.prepare(
      "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,'[]',1)",
    );
    const { saveCheckpoint, getLatestCheckpoint, cleanupOldCheckpoints } = await openBuilds({ path });
    const setMs = (ms: number) => setClock(10, 0, 0, ms);
    const ours = (id: string, buildId = "b") => saveCheckpoint(checkpoint(id, { buildId })).timestamp;
    /** As `datetime('now')` has it, by this clock. */
    const theirs = (id: string, buildId = "b") => {
      const timestamp = new Date().toISOString().slice(0, 19).replace("T", " ");
      insert.run(id, buildId, timestamp);
      return timestamp;
    };
    return {
      db,
      getLatestCheckpoint,
      setMs,
      ours,
      theirs,
      /** Who has saved what in which second. */
      writeAll: (buildId: string, writes: readonly { by: "ours" | "theirs"; clockMs: number }[]) =>
        writes.map(({ by, clockMs }, n) => {
          setMs(clockMs);
          const id = `${buildId}-${n}`;
          const timestamp = by === "ours" ? ours(id, buildId) : theirs(id, buildId);
          return { id, buildId, second: timestamp.slice(0, 19) };
        }),
      /** The oldest first: that which retention takes first. */
      expectOrder(saved: readonly { id: string; buildId: string }[]) {
        const ids = saved.map(({ id }) => id);
        const buildId = saved[0]?.buildId ?? "";
        expect(getLatestCheckpoint(buildId)?.id).toBe(ids.at(-1));
        for (let keep = ids.length - 1; keep > 0; keep--) {
          cleanupOldCheckpoints(buildId, keep);
          const kept = rowsOf(db, buildId).map(({ id }) => id);
          expect(kept.sort()).toEqual(ids.slice(-keep).sort());
        }
      },
    };
  }

  it("is the one saved last, whoever saved it", async () => {
    const { setMs, ours, theirs, getLatestCheckpoint } = await bothPrograms();
    for (const [ms, save, id] of [
      [100, theirs, "s1"],
      [300, ours, "w1"],
      [500, theirs, "s2"],
      [600, theirs, "s3"],
      [700, ours, "w2"],
      [900, theirs, "s4"],
    ] as const) {
      setMs(ms);
      save(id);
      expect(getLatestCheckpoint("b")?.id).toBe(id);
    }
  });

  it("is ours by the spec's query too, where the clock was set back within the second", async () => {
    const { setMs, ours, theirs, getLatestCheckpoint, db } = await bothPrograms();
    setMs(300);
    ours("w1");
    theirs("s1");
    setMs(200);
    expect(ours("w2")).toBe("2026-11-22 10:00:00.300001");
    expect(getLatestCheckpoint("b")?.id).toBe("w2");
    expect(specLatest(db, "b")?.id).toBe("w2");
  });

  const anyWrite = fc.record({ by: fc.constantFrom("ours", "theirs"), clockMs: fc.integer({ min: 0, max: 2_999 }) });
  const anyWrites = fc.array(anyWrite, { minLength: 1, maxLength: 7 });

  it("is the one saved last, and the one saved first goes first, as long as the clock is never set back", async () => {
    const programs = await bothPrograms();
    const writesInTime = anyWrites.map((writes) => writes.toSorted((a, b) => a.clockMs - b.clockMs));
    let build = 0;
    fc.assert(
      fc.property(writesInTime, (writes) => {
        const saved = programs.writeAll(`b${build++}`, writes);
        programs.expectOrder(saved);
      }),
      { numRuns: 60 },
    );
  });

  it("is the last one of the latest second, wherever the clock goes", async () => {
    const programs = await bothPrograms();
    let build = 0;
    fc.assert(
      fc.property(anyWrites, (writes) => {
        const saved = programs.writeAll(`b${build++}`, writes);
        // A stable sort: within a second they stay as they came.
        programs.expectOrder(saved.toSorted((a, b) => a.second.localeCompare(b.second)));
      }),
      { numRuns: 60 },
    );
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
