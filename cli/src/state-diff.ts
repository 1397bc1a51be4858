import { create } from "jsondiffpatch";
import type { PlainJson } from "./plain-json.js";
import type { PathStep } from "./state-path.js";

/** One difference between two states. Its path is in the new state; for a removed part, in the old one. */
export type StateChange =
  | { readonly kind: "added"; readonly path: readonly PathStep[]; readonly to: unknown }
  | { readonly kind: "removed"; readonly path: readonly PathStep[]; readonly from: unknown }
  | { readonly kind: "changed"; readonly path: readonly PathStep[]; readonly from: unknown; readonly to: unknown }
  | { readonly kind: "moved"; readonly path: readonly PathStep[]; readonly toIndex: number };

/** The delta of jsondiffpatch; `undefined` if the states are equal. */
export function deltaOf(from: PlainJson, to: PlainJson): unknown {
  return patcher.diff(from, to);
}

/** The changes in a delta of jsondiffpatch, in the order of the states' keys. */
export function* changesOf(delta: unknown, path: readonly PathStep[] = []): Generator<StateChange> {
  if (delta === undefined) return;
  if (Array.isArray(delta)) yield leaf(delta, path);
  else if (typeof delta === "object" && delta !== null) {
    const isArray = "_t" in delta && delta._t === "a";
    for (const [key, child] of Object.entries(delta)) {
      // `_t` marks the delta of an array; `_3` is an index of the old array.
      if (isArray && key === "_t") continue;
      yield* changesOf(child, [...path, isArray ? Number(key.replace("_", "")) : key]);
    }
  }
}

const MOVED = 3;

/** Items of an array match by their id; without one, by content or position. */
const patcher = create({
  objectHash: (item, index) => ("id" in item ? `id ${JSON.stringify(item.id)}` : `index ${index}`),
});

/** `[new]`, `[old, new]`, `[old, 0, 0]`, or `["", index, 3]`. */
function leaf(delta: readonly unknown[], path: readonly PathStep[]): StateChange {
  const [first, second, third] = delta;
  if (delta.length === 1) return { kind: "added", path, to: first };
  if (delta.length === 2) return { kind: "changed", path, from: first, to: second };
  return third === MOVED ? { kind: "moved", path, toIndex: Number(second) } : { kind: "removed", path, from: first };
}
