import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckpointManager } from "waymark";
import { collect, draft, idsOf } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const stores = { "json-file": newJsonStore, "task-file": newTaskStore };
type Kind = keyof typeof stores;
const KINDS = Object.keys(stores) as Kind[];

/**
 * A repository after a merge: `first` is common, one branch saved `z-early` and `later`, the other `a-late` and `even`.
 * So two checkpoints have sequence 2, and two have sequence 3.
 */
async function merged(kind: Kind) {
  const { root, open } = await stores[kind]();
  const other = `${root}-branch`;
  const save = (adapter: ReturnType<typeof open>, id: string, hour: number) =>
    adapter.append(draft("t", id, { createdAt: `2026-01-02T${String(hour).padStart(2, "0")}:00:00.000Z` }));
  const ours = open();
  await save(ours, "first", 1);
  cpSync(root, other, { recursive: true });
  await save(ours, "z-early", 2);
  await save(ours, "later", 5);
  await ours.close();
  const theirs = kind === "json-file" ? await newJsonStore() : await newTaskStore();
  cpSync(other, theirs.root, { recursive: true });
  await save(theirs.adapter, "a-late", 4);
  await save(theirs.adapter, "even", 5);
  if (kind === "json-file") cpSync(theirs.root, root, { recursive: true });
  else {
    const linesIn = (path: string) => readFileSync(join(path, "t", "checkpoints.json"), "utf8").split("\n");
    const [head = "", first = "", early = "", later = "", ...end] = linesIn(root);
    const [, , late = "", even = ""] = linesIn(theirs.root);
    // A manual merge: one branch's checkpoints, then the other's.
    const lines = [head, first, early, `${later},`, late, even, ...end];
    writeFileSync(join(root, "t", "checkpoints.json"), lines.join("\n"));
  }
  rmSync(other, { recursive: true });
  return { adapter: open(), root };
}

/** Files are ordered by sequence, then by id. Lines of a file are ordered by sequence, then by position. */
const IN_ORDER = {
  "json-file": ["first", "a-late", "z-early", "even", "later"],
  "task-file": ["first", "z-early", "a-late", "later", "even"],
} as const;

describe.each(KINDS)("two merged branches of a repository, in a %s store", (kind) => {
  const [first, ...rest] = IN_ORDER[kind];
  const [, second, , newest] = rest;

  it("are read by sequence, always in the same order", async () => {
    const { adapter } = await merged(kind);
    expect(await idsOf(adapter.list({ taskId: "t", order: "oldest" }))).toEqual([first, ...rest]);
    expect(await idsOf(adapter.read({ taskId: "t", order: "oldest" }))).toEqual([first, ...rest]);
    expect(await idsOf(adapter.list({ taskId: "t", order: "newest" }))).toEqual([first, ...rest].toReversed());
    expect(await collect(adapter.tasks({ order: "recent" }))).toMatchObject([{ count: 5, newest: { id: newest } }]);
    expect((await new CheckpointManager({ storage: adapter }).latest("t"))?.state).toEqual({ of: newest });
  });

  it("are not separated by a limit, so that no page loses one", async () => {
    const { adapter } = await merged(kind);
    const [two, three] = [rest.slice(0, 2), rest.slice(2)];
    for (const read of [adapter.list.bind(adapter), adapter.read.bind(adapter)]) {
      expect(await idsOf(read({ taskId: "t", order: "newest", limit: 1 }))).toEqual(three.toReversed());
      const before = { taskId: "t", order: "newest", limit: 1, beforeSequence: 3 } as const;
      expect(await idsOf(read(before))).toEqual(two.toReversed());
      expect(await idsOf(read({ taskId: "t", order: "oldest", limit: 2 }))).toEqual([first, ...two]);
      expect(await idsOf(read({ taskId: "t", order: "oldest", limit: 3 }))).toEqual([first, ...two]);
      expect(await idsOf(read({ taskId: "t", order: "oldest", limit: 0 }))).toEqual([]);
    }
    const manager = new CheckpointManager({ storage: adapter });
    expect((await manager.list("t", { limit: 1 })).map(({ id }) => id)).toEqual(three.toReversed());
  });

  it("are reported by verify, and left by repair", async () => {
    const { adapter } = await merged(kind);
    const found = await collect(adapter.maintenance.verify({ quick: false }));
    const findings = found.filter((item) => item.kind !== "checked");
    expect(findings).toMatchObject([
      { kind: "merged", taskId: "t", id: second, sequence: 2, reason: `${rest[0]} also has sequence 2` },
      { kind: "merged", taskId: "t", id: newest, sequence: 3, reason: `${rest[2]} also has sequence 3` },
    ]);
    const steps = await collect(adapter.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    expect(steps.map(({ action }) => action)).toEqual(["left", "left"]);
    expect(await idsOf(adapter.list({ taskId: "t", order: "oldest" }))).toEqual([first, ...rest]);
  });

  it("continue above both branches, and each checkpoint can be changed and removed", async () => {
    const { adapter } = await merged(kind);
    expect(await adapter.append(draft("t", "next"), { expectedSequence: 3 })).toBe(4);
    expect(await adapter.setStatus("t", "even", { status: "paused" })).toBe(true);
    expect(await adapter.get("t", "later")).toMatchObject({ sequence: 3, status: "running" });
    expect(await adapter.remove("t", ["next", "later", "z-early"])).toBe(3);
    expect(await idsOf(adapter.list({ taskId: "t", order: "oldest" }))).toEqual(["first", "a-late", "even"]);
    const found = await collect(adapter.maintenance.verify({ quick: false }));
    expect(found.map(({ kind: what }) => what)).toEqual(["checked", "checked", "checked"]);
    expect(await adapter.append(draft("t", "last"), { expectedSequence: 3 })).toBe(5);
  });

  it("keep the numbering as long as one of the two newest is left", async () => {
    const { adapter } = await merged(kind);
    await adapter.remove("t", ["later"]);
    expect(await idsOf(adapter.list({ taskId: "t", order: "newest", limit: 1 }))).toEqual(["even"]);
    await adapter.remove("t", ["even"]);
    expect(await adapter.append(draft("t", "next"), { expectedSequence: 2 })).toBe(4);
  });
});
