import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const OLDEST = { taskId: "t", order: "oldest" } as const;
const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;
const HIGHEST = Number.MAX_SAFE_INTEGER;
const BEYOND = 10 ** 12;

/** A json-file task of three checkpoints, the last of which is damaged, with junk under other sequences' names. */
async function withJunk(...sequences: number[]) {
  const { adapter, root } = await newJsonStore();
  for (const id of ["c1", "c2", "c3"]) await adapter.append(draft("t", id));
  const folder = join(root, "t");
  writeFileSync(join(folder, "000000000003-c3.json"), "junk");
  for (const sequence of sequences) writeFileSync(join(folder, `${String(sequence).padStart(12, "0")}-x.json`), "junk");
  const lastKept = () => JSON.parse(readFileSync(join(folder, "numbering.json"), "utf8")).lastSequence;
  return { adapter, folder, lastKept };
}

describe("json-file: a damaged checkpoint whose name tells a sequence that counting can't have come to", () => {
  it("is repaired without its sequence: the next one is given after those that can be", async () => {
    const { adapter, lastKept } = await withJunk(HIGHEST);
    const dry = await collect(adapter.repair({ ...REPAIR, dryRun: true }));
    const steps = await collect(adapter.repair(REPAIR));
    expect(steps.map(({ action }) => action)).toEqual(["quarantined", "quarantined"]);
    expect(dry).toEqual(steps);
    expect(lastKept()).toBe(3);
    expect(await adapter.append(draft("t", "c4"))).toBe(4);
    expect((await collect(adapter.verify({ quick: false }))).filter(({ kind }) => kind !== "checked")).toEqual([]);
  });

  it("is in the way of no save before that", async () => {
    const { adapter } = await withJunk(HIGHEST - 1);
    expect(await adapter.append(draft("t", "c4"))).toBe(4);
    expect(await adapter.append(draft("t", "c5"))).toBe(5);
    expect(await idsOf(adapter.list(OLDEST))).toEqual(["c1", "c2", "!c3", "c4", "c5", "!x"]);
    await collect(adapter.repair(REPAIR));
    expect(await adapter.append(draft("t", "c6"))).toBe(6);
  });

  it("has more than twelve digits: below that, a task may have a gap as wide", async () => {
    const { adapter, lastKept } = await withJunk(BEYOND - 1, BEYOND);
    await collect(adapter.repair(REPAIR));
    expect(lastKept()).toBe(BEYOND - 1);
  });

  it("is more than a million above what is intact, where that has come as far", async () => {
    const { adapter, folder, lastKept } = await withJunk();
    await adapter.append(draft("t", "c4"), { sequence: BEYOND });
    for (const above of [1_000_000, 1_000_001]) writeFileSync(join(folder, `${BEYOND + above}-x.json`), "junk");
    await collect(adapter.repair(REPAIR));
    expect(lastKept()).toBe(BEYOND + 1_000_000);
  });

  it("leaves the kept numbering as it is", async () => {
    const { adapter, folder, lastKept } = await withJunk();
    await collect(adapter.repair(REPAIR));
    for (const name of ["000001000003-a.json", "000001000004-b.json"]) writeFileSync(join(folder, name), "junk");
    await collect(adapter.repair(REPAIR));
    expect(lastKept()).toBe(1_000_004);
    writeFileSync(join(folder, `${HIGHEST}-c.json`), "junk");
    await collect(adapter.repair(REPAIR));
    expect(lastKept()).toBe(1_000_004);
  });

  it("is removed without its sequence", async () => {
    const { adapter, lastKept } = await withJunk(HIGHEST);
    expect(await adapter.remove("t", ["x", "c3"])).toBe(2);
    expect(lastKept()).toBe(3);
    expect(await adapter.append(draft("t", "c4"))).toBe(4);
  });

  it("keeps no sequence of those that are removed below it", async () => {
    const { adapter, lastKept } = await withJunk(HIGHEST);
    await adapter.remove("t", ["c3"]);
    expect(lastKept()).toBe(3);
  });

  it("isn't what a damaged numbering is recovered by", async () => {
    const { adapter, folder, lastKept } = await withJunk(HIGHEST);
    for (const name of ["numbering.json", "999999999999-c9.json.bak"]) writeFileSync(join(folder, name), sealed("0"));
    const steps = await collect(adapter.repair(REPAIR));
    expect(steps.map(({ action }) => action).toSorted()).toEqual(["left", "quarantined", "quarantined", "renumbered"]);
    expect(lastKept()).toBe(BEYOND - 1 + 1_000_000);
    expect(readdirSync(folder)).toContain("999999999999-c9.json.bak");
  });

  it("has more than twelve digits also where nothing else is known", async () => {
    const { adapter, root } = await newJsonStore();
    await adapter.append(draft("t", "c1"), { sequence: 5_000_000 });
    writeFileSync(join(root, "t", "000005000000-c1.json"), "junk");
    writeFileSync(join(root, "t", "1000000000000-x.json"), "junk");
    expect(await adapter.append(draft("u", "c1"))).toBe(1);
    await collect(adapter.repair(REPAIR));
    expect(await adapter.append(draft("t", "c2"))).toBe(5_000_001);
  });

  it("is told from one whose state alone is damaged: what its head says is sealed", async () => {
    const { adapter, root } = await newJsonStore();
    await adapter.append(draft("t", "c1"), { sequence: 5_000_000 });
    const path = join(root, "t", "000005000000-c1.json");
    writeFileSync(path, readFileSync(path, "utf8").replace('{"of":"c1"}', '{"of":"c2"}'));
    await collect(adapter.repair(REPAIR));
    expect(await adapter.append(draft("t", "c2"))).toBe(5_000_001);
  });
});

it("task-file: a damaged line's sequence that counting can't have come to isn't kept, where no numbering bounds it", async () => {
  const { adapter, pathOf } = await newTaskStore();
  for (const id of ["c1", "c2"]) await adapter.append(draft("t", id));
  const path = pathOf("t");
  const [head = "", first, second = ""] = readFileSync(path, "utf8").split("\n");
  const damaged = second.replace('"sequence":2', '"sequence":999999999999999');
  writeFileSync(path, [head.replaceAll('"', "'"), first, damaged, "]}", ""].join("\n"));
  expect(await idsOf(adapter.list(OLDEST))).toHaveLength(3);
  const steps = await collect(adapter.repair(REPAIR));
  expect(steps).toContainEqual(expect.objectContaining({ action: "renumbered", lastSequence: 1_000_001 }));
  expect(await adapter.append(draft("t", "c3"))).toBe(1_000_002);
});

/** A numbering whose seal is no number's that is searched. */
function sealed(digit: string): string {
  return `{"waymark":1,"taskId":"t","seal":"${digit.repeat(64)}"}\n`;
}
