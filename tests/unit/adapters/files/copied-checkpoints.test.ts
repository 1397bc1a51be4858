import { copyFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const NEWEST = { taskId: "t", order: "newest" } as const;
const REPAIR = { dryRun: false, leftoversOlderThanMs: 0 } as const;

describe("a line of a task's file", () => {
  /** Checkpoints i1 to i5 of one task; line n holds i<n>. */
  async function populated() {
    const { adapter, pathOf, root } = await newTaskStore();
    for (const id of ["i1", "i2", "i3", "i4", "i5"]) await adapter.append(draft("t", id));
    const path = pathOf("t");
    const change = (by: (lines: string[]) => void) => {
      const lines = readFileSync(path, "utf8").split(/,?\n/);
      by(lines);
      const [first, ...rest] = lines.filter((line) => line !== "" && line !== "]}");
      writeFileSync(path, `${first}\n${rest.join(",\n")}\n]}\n`);
    };
    return { adapter, path, root, change };
  }

  it.each([
    ["an older one over a newer one", 2, 4, ["i5", "!?", "i3", "i2", "i1"], "i4"],
    ["a newer one over an older one", 4, 2, ["i5", "i4", "i3", "!?", "i1"], "i2"],
    ["an older one over the last one", 2, 5, ["!?", "i4", "i3", "i2", "i1"], "i5"],
    ["the last one over the first one", 5, 1, ["i5", "i4", "i3", "i2", "!?"], "i1"],
  ])("that was copied, %s, is damaged, and the one it is a copy of isn't", async (_what, from, to, ids, lost) => {
    const { adapter, path, change, root } = await populated();
    change((lines) => lines.splice(to, 1, lines[from] ?? ""));
    expect(await idsOf(adapter.list(NEWEST))).toEqual(ids);
    expect(await adapter.get("t", `i${from}`)).toMatchObject({ id: `i${from}`, sequence: from });
    expect(await adapter.get("t", lost)).toMatchObject({ corrupt: true, location: `${path} (line ${to + 1})` });
    expect(await collect(adapter.tasks({ order: "taskId" }))).toContainEqual(
      expect.objectContaining({ count: 5, newest: expect.objectContaining({ id: ids.find((id) => id !== "!?") }) }),
    );

    const steps = await collect(adapter.repair!(REPAIR));
    const reason = expect.stringMatching(/^it holds checkpoint i\d \(sequence \d\), which another line holds too/);
    expect(steps).toMatchObject([{ action: "quarantined", finding: { kind: "record", reason } }]);
    expect(readFileSync(join(root, ".quarantine", "t", `line-${to + 1}.json`), "utf8")).toContain(`"id":"i${from}"`);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(ids.filter((id) => id !== "!?"));
    expect(await adapter.append(draft("t", "i6"))).toBe(6);
  });

  it("that was moved over another is damaged, and is still told by its id", async () => {
    const { adapter, change } = await populated();
    change((lines) => lines.splice(4, 1, ...lines.splice(1, 1)));
    // i1 stands where i5 was.
    expect((await idsOf(adapter.list(NEWEST))).sort()).toEqual(["!i1", "i2", "i3", "i4"]);
  });

  it("stays where it is through the writes that come before a repair", async () => {
    const { adapter, change } = await populated();
    change((lines) => lines.splice(4, 1, lines[2] ?? ""));
    expect(await adapter.append(draft("t", "i6"))).toBe(6);
    expect(await adapter.setStatus("t", "i2", { status: "paused" })).toBe(true);
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["i6", "i5", "!?", "i3", "i2", "i1"]);
    expect(await adapter.get("t", "i2")).toMatchObject({ status: "paused" });
  });

  it("is none of these where another program has put its own, and ours, in another order", async () => {
    const { adapter, pathOf, root } = await newTaskStore();
    mkdirSync(join(root, "t"), { recursive: true });
    const foreign = (id: string, hour: number) => ({
      id,
      taskId: "t",
      createdAt: `2026-01-01T0${hour}:00:00.000Z`,
      state: {},
    });
    const write = (checkpoints: unknown[]) =>
      writeFileSync(pathOf("t"), JSON.stringify({ ...JSON.parse(readFileSync(pathOf("t"), "utf8")), checkpoints }));
    writeFileSync(pathOf("t"), '{"version":"1.0","checkpoints":[]}');
    write([foreign("b", 2), foreign("a", 1)]);
    await adapter.append(draft("t", "c"));
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["c", "b", "a"]);
    write(JSON.parse(readFileSync(pathOf("t"), "utf8")).checkpoints.toReversed());
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["c", "b", "a"]);
    await adapter.append(draft("t", "d"));
    expect(await idsOf(adapter.list(NEWEST))).toEqual(["d", "c", "b", "a"]);
  });
});

describe("a checkpoint's file", () => {
  async function populated() {
    const { adapter, root } = await newJsonStore();
    for (const id of ["i1", "i2", "i3"]) await adapter.append(draft("t", id));
    const pathOf = (name: string) => join(root, "t", name);
    return { adapter, pathOf };
  }

  it.each([2, 4])("that was copied to sequence %i hides nothing of the intact one of its id", async (sequence) => {
    const { adapter, pathOf } = await populated();
    copyFileSync(pathOf("000000000003-i3.json"), pathOf(`00000000000${sequence}-i3.json`));
    expect(await adapter.get("t", "i3")).toMatchObject({ id: "i3", sequence: 3 });
    expect(await adapter.setStatus("t", "i3", { status: "paused" })).toBe(true);
    expect(await collect(adapter.repair!(REPAIR))).toMatchObject([{ action: "quarantined", finding: { sequence } }]);
    expect(await adapter.get("t", "i3")).toMatchObject({ sequence: 3, status: "paused" });
  });

  it("that is intact and has another intact one's sequence or id is reported, and left where it is", async () => {
    const { adapter, pathOf } = await populated();
    const other = await newJsonStore();
    for (const id of ["i2", "x2"]) await other.adapter.append(draft("t", id));
    for (const name of ["000000000001-i2.json", "000000000002-x2.json"]) {
      renameSync(join(other.root, "t", name), pathOf(name));
    }
    const findings = (await collect(adapter.verify!({ quick: false }))).filter(({ kind }) => kind !== "checked");
    expect(findings).toMatchObject([
      { kind: "stray", location: pathOf("000000000001-i2.json") },
      { kind: "stray", location: pathOf("000000000002-i2.json") },
      { kind: "stray", location: pathOf("000000000002-x2.json") },
    ]);
    expect((await collect(adapter.repair!(REPAIR))).map(({ action }) => action)).toEqual(["left", "left", "left"]);
    expect(await adapter.get("t", "i2")).toMatchObject({ sequence: 2 });
  });
});
