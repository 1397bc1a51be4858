import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type CheckpointManagerOptions, gzip } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { compareStates } from "../../../src/manager/state-diff.js";

const changes = (from: unknown, to: unknown) => [...compareStates(from, to)];

async function twoStates(from: unknown, to: unknown, options: Partial<CheckpointManagerOptions> = {}) {
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), ...options });
  const [a, b] = [await manager.save("t", from), await manager.save("t", to)];
  return { manager, a: a.id, b: b.id };
}

describe("manager.diff", () => {
  it("returns the changes from the first checkpoint to the second", async () => {
    const { manager, a, b } = await twoStates(
      { phase: 1, done: ["compile"], old: true },
      { phase: 2, done: ["compile", "test"], at: new Date(3) },
      { transforms: [gzip()] },
    );
    expect(await manager.diff("t", a, b)).toEqual([
      { kind: "changed", path: ["phase"], from: 1, to: 2 },
      { kind: "added", path: ["done", 1], to: "test" },
      { kind: "removed", path: ["old"], from: true },
      { kind: "added", path: ["at"], to: new Date(3) },
    ]);
    expect((await manager.diff("t", b, a))[0]).toEqual({ kind: "changed", path: ["phase"], from: 2, to: 1 });
    expect(await manager.diff("t", a, a)).toEqual([]);
  });

  it.each([
    [7n, "7n"],
    [12, "12"],
    [Number.NaN, "NaN"],
    [-0, "0"],
    [undefined, "undefined"],
    [new Date(0), "1970-01-01T00:00:00.000Z"],
    [{ file: "a", size: 7n }, "{ file: 'a', size: 7n }"],
    [{ file: "a" }, '{"file":"a"}'],
  ])("names the key %o of a Map as a program would write it, never by its stored tag", async (key, step) => {
    const { manager, a, b } = await twoStates(new Map([[key, 1]]), new Map([[key, 2]]));
    expect(await manager.diff("t", a, b)).toEqual([{ kind: "changed", path: [step], from: 1, to: 2 }]);
  });

  it("compares states in their stored form and current version, whatever a schema decodes them to", async () => {
    const storage = new MemoryAdapter();
    const old = new CheckpointManager({ storage });
    const { id: a } = await old.save("t", { count: 1, by: "day" });
    class Money {
      readonly cents: number;
      constructor(cents: number) {
        this.cents = cents;
      }
    }
    const price = z.codec(z.number(), z.instanceof(Money), {
      decode: (n) => new Money(n),
      encode: ({ cents }) => cents,
    });
    const now = new CheckpointManager({
      storage,
      schema: z.object({ total: z.number(), by: z.string(), price }),
      stateVersion: 2,
      migrations: { 1: (stored) => ({ total: (stored as { count: number }).count, by: "day", price: 5 }) },
    });
    const { id: b } = await now.save("t", { total: 1, by: "day", price: new Money(7) });
    expect(await now.diff("t", a, b)).toEqual([{ kind: "changed", path: ["price"], from: 5, to: 7 }]);
  });

  it("throws the errors of restore", async () => {
    const { manager, a } = await twoStates(1, 2);
    await expect(manager.diff("t", a, "other")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND", id: "other" });
    await expect(manager.diff("t", "other", a)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND", id: "other" });
    await expect(manager.diff("", a, a)).rejects.toThrow(/taskId/);
    await manager.close();
    await expect(manager.diff("t", a, a)).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("the changes of two states", () => {
  it("distinguish kinds, and a property from its absence", () => {
    expect(changes({ a: undefined }, {})).toEqual([{ kind: "removed", path: ["a"], from: undefined }]);
    for (const [from, to] of [
      [Number.NaN, "NaN"],
      [-0, 0],
      [1n, 1],
      [null, undefined],
      [new Map([["a", 1]]), { a: 1 }],
      [new Set([1]), [1]],
      [[], {}],
      [new Date(0), new Date(1)],
      [Uint8Array.of(1), Uint8Array.of(2)],
    ]) {
      expect(changes({ at: from }, { at: to })).toEqual([{ kind: "changed", path: ["at"], from, to }]);
    }
  });

  it("are inside maps, sets and errors, whatever their keys are", () => {
    const key = { file: "a" };
    expect(changes(new Map([[key, { n: 1 }]]), new Map([[{ file: "a" }, { n: 2 }]]))).toEqual([
      { kind: "changed", path: ['{"file":"a"}', "n"], from: 1, to: 2 },
    ]);
    expect(changes(new Set(["a", "b"]), new Set(["a", "c", "b"]))).toEqual([{ kind: "added", path: [1], to: "c" }]);
    expect(changes(new Error("one"), new Error("two"))).toEqual([
      { kind: "changed", path: ["message"], from: "one", to: "two" },
    ]);
  });

  it("match items by their id, or else by their content", () => {
    expect(changes([{ id: 1 }, { id: 2 }, { id: 3 }], [{ id: 3 }, { id: 1 }, { id: 2, x: 1 }])).toEqual([
      { kind: "added", path: [2, "x"], to: 1 },
      { kind: "moved", path: [2], toIndex: 0 },
    ]);
    expect(changes(["a", "b", "c"], ["b", "c"])).toEqual([{ kind: "removed", path: [0], from: "a" }]);
    expect(changes([{ x: 1 }, { x: 2 }], [{ x: 1 }, { x: 3 }])).toEqual([
      { kind: "changed", path: [1, "x"], from: 2, to: 3 },
    ]);
    expect(changes([{ x: 1 }], ["x"])).toEqual([
      { kind: "removed", path: [0], from: { x: 1 } },
      { kind: "added", path: [0], to: "x" },
    ]);
    expect(changes(["a", "a", "b", "a"], ["a", "b", "a"])).toEqual([{ kind: "removed", path: [1], from: "a" }]);
  });

  it("of two long lists without common items need no table of all pairs", () => {
    const list = (sign: string) => Array.from({ length: 20_000 }, (_, n) => `${sign}${n}`);
    expect(changes(list("a"), list("b"))).toHaveLength(20_000);
    expect(changes(list("a"), list("a").reverse())).toHaveLength(19_999);
  });

  it("turn the old list into the new one, and are empty if both are equal", () => {
    const items = fc.array(fc.constantFrom("a", "b", "c", "d", 1, 2, null), { maxLength: 12 });
    fc.assert(
      fc.property(items, items, (from, to) => {
        const found = changes(from, to);
        expect(found.length === 0).toBe(JSON.stringify(from) === JSON.stringify(to));
        expect(applied(from, to.length, found)).toEqual(to);
      }),
    );
  });
});

/** Returns the list after its changes. */
function applied(from: readonly unknown[], length: number, found: readonly ReturnType<typeof changes>[number][]) {
  const to: unknown[] = Array(length).fill(undefined);
  const placed = new Set<number>();
  const gone = new Set<number>();
  for (const change of found) {
    const at = Number(change.path[0]);
    if (change.kind === "moved") to[change.toIndex] = from[at];
    else if (change.kind !== "removed") to[at] = change.to;
    // A replaced item was at the same place.
    if (change.kind !== "added") gone.add(at);
    if (change.kind !== "removed") placed.add(change.kind === "moved" ? change.toIndex : at);
  }
  const kept = from.filter((_, at) => !gone.has(at));
  for (let at = 0; at < length; at++) if (!placed.has(at)) to[at] = kept.shift();
  expect(kept).toEqual([]);
  return to;
}
