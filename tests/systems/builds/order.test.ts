import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { tempFolder } from "../../support/temp-folder.js";
import { checkpoint, connect, openBuilds, rowsOf, specProgram } from "./support.js";

/** A clock that stands still, with a function to set it. */
function clockAt(...time: [hour: number, minute: number, second: number]) {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 10, 22, ...time) });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  return (...later: [hour: number, minute: number, second: number]) =>
    vi.setSystemTime(Date.UTC(2026, 10, 22, ...later));
}

it("the newest checkpoint is the one saved last, even if the clock was set back", async () => {
  const setClock = clockAt(10, 0, 0);
  const { saveCheckpoint, getLatestCheckpoint, path } = await openBuilds();
  saveCheckpoint(checkpoint("c1"));
  setClock(7, 30, 0);
  for (const id of ["c2", "c3"]) {
    saveCheckpoint(checkpoint(id));
    expect(getLatestCheckpoint("b")?.id).toBe(id);
  }
  setClock(10, 0, 1);
  saveCheckpoint(checkpoint("c4"));
  expect(getLatestCheckpoint("b")?.id).toBe("c4");
  expect(rowsOf(connect(path), "b").map(({ timestamp }) => timestamp)).toEqual([
    "2026-11-22 10:00:00",
    "2026-11-22 10:00:00",
    "2026-11-22 10:00:00",
    "2026-11-22 10:00:01",
  ]);
});

it("the newest checkpoint is the one saved after a row of the spec's program, of the same second or a later one", async () => {
  clockAt(1, 2, 3);
  const path = join(await tempFolder(), "nova.db");
  const { db } = specProgram(path);
  const insert = db.prepare(
    "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase) VALUES (?,?,?,?,?)",
  );
  const { saveCheckpoint, getLatestCheckpoint } = await openBuilds({ path });
  for (const [n, timestamp] of ["2026-11-22 01:02:03", "2026-11-22 05:00:00", "2026-11-22 05:00:00.5"].entries()) {
    insert.run(`s${n}`, "b", timestamp, "[]", 1);
    saveCheckpoint(checkpoint(`w${n}`));
    expect(getLatestCheckpoint("b")?.id).toBe(`w${n}`);
  }
});

it("the newest checkpoint depends only on its own build, not on other builds' clocks", async () => {
  const setClock = clockAt(10, 0, 0);
  const { saveCheckpoint, getLatestCheckpoint } = await openBuilds();
  saveCheckpoint(checkpoint("c1"));
  setClock(9, 0, 0);
  saveCheckpoint(checkpoint("d1", { buildId: "b2" }));
  expect(getLatestCheckpoint("b2")?.timestamp).toBe("2026-11-22 09:00:00");
});

it("a timestamp is UTC: with a Z it is a Date", async () => {
  clockAt(10, 0, 0);
  const { saveCheckpoint } = await openBuilds();
  const { timestamp } = saveCheckpoint(checkpoint("c1"));
  expect(new Date(`${timestamp}Z`).toISOString()).toBe("2026-11-22T10:00:00.000Z");
});
