import { hash } from "node:crypto";
import { types } from "node:util";
import { diff } from "jsondiffpatch";
import { makePayload } from "waymark/adapter";
import { kindOf } from "./plain-json.js";
import type { PathStep } from "./state-path.js";

/** One difference between two states. Its path is in the new state; for a removed or moved part, in the old one. */
export type StateChange =
  | { readonly kind: "added"; readonly path: readonly PathStep[]; readonly to: unknown }
  | { readonly kind: "removed"; readonly path: readonly PathStep[]; readonly from: unknown }
  | { readonly kind: "changed"; readonly path: readonly PathStep[]; readonly from: unknown; readonly to: unknown }
  | { readonly kind: "moved"; readonly path: readonly PathStep[]; readonly toIndex: number };

/**
 * The delta of jsondiffpatch between two states as they are stored, with a tag for each value that JSON has no place for;
 * `undefined` if the states are equal.
 */
export function deltaOf(from: unknown, to: unknown): unknown {
  return diff(JSON.parse(textOf(from)), JSON.parse(textOf(to)));
}

/** The changes from one state to another. Values of two kinds are different, and so are a property and its absence. */
export function* changesOf(from: unknown, to: unknown, path: readonly PathStep[] = []): Generator<StateChange> {
  const [old, current] = [partsOf(from), partsOf(to)];
  if (kindOf(from) === kindOf(to) && old !== undefined && current !== undefined) {
    if (Array.isArray(old) && Array.isArray(current)) yield* changesOfItems(old, current, path);
    if (old instanceof Map && current instanceof Map) yield* changesOfMembers(old, current, path);
  } else if (identityOf(from) !== identityOf(to)) yield { kind: "changed", path, from, to };
}

/** Members by name, or items in order; `undefined` for what is compared as a whole. */
function partsOf(value: unknown): unknown[] | Map<unknown, unknown> | undefined {
  if (Array.isArray(value)) return Array.from<unknown>(value);
  if (value instanceof Set) return [...value];
  if (value instanceof Map) return value;
  if (types.isNativeError(value)) {
    const { name, message, cause } = value;
    return new Map(Object.entries({ ...value, name, message, cause }));
  }
  return kindOf(value) === "Object" ? new Map(Object.entries(value as object)) : undefined;
}

function* changesOfMembers(
  from: ReadonlyMap<unknown, unknown>,
  to: ReadonlyMap<unknown, unknown>,
  path: readonly PathStep[],
): Generator<StateChange> {
  const stepTo = (key: unknown) => [...path, typeof key === "string" ? key : textOf(key)];
  // A key that is an object was read anew for each state, so keys match by their content.
  const [old, current] = [byIdentity(from), byIdentity(to)];
  for (const [identity, [key, value]] of old) {
    const now = current.get(identity);
    if (now === undefined) yield { kind: "removed", path: stepTo(key), from: value };
    else yield* changesOf(value, now[1], stepTo(key));
  }
  for (const [identity, [key, value]] of current) {
    if (!old.has(identity)) yield { kind: "added", path: stepTo(key), to: value };
  }
}

function byIdentity(members: ReadonlyMap<unknown, unknown>): ReadonlyMap<string, readonly [unknown, unknown]> {
  return new Map([...members].map((member) => [identityOf(member[0]), member]));
}

/** Items match by their id; without one, by their content. What came into the place of a removed one changed it. */
function* changesOfItems(
  from: readonly unknown[],
  to: readonly unknown[],
  path: readonly PathStep[],
): Generator<StateChange> {
  const { places, moved, added } = matched(from.map(itemIdentity), to.map(itemIdentity));
  for (const [at, item] of from.entries()) {
    const isReplaced = !places.has(at) && added.has(at) && kindOf(item) === kindOf(to[at]);
    const place = isReplaced ? at : places.get(at);
    if (isReplaced) added.delete(at);
    if (moved.has(at) && place !== undefined) yield { kind: "moved", path: [...path, at], toIndex: place };
    if (place === undefined) yield { kind: "removed", path: [...path, at], from: item };
    else yield* changesOf(item, to[place], [...path, place]);
  }
  for (const at of added) yield { kind: "added", path: [...path, at], to: to[at] };
}

const MOVED = 3;

/** Where the old items are in the new list, which of them moved, and which new items were none of them. */
function matched(from: readonly string[], to: readonly string[]) {
  const places = new Map<number, number>();
  const moved = new Set<number>();
  const left = new Set(from.keys());
  const added = new Set<number>();
  const taken = new Set<number>();
  for (const [key, change] of Object.entries(diff(from, to) ?? {})) {
    if (!Array.isArray(change)) continue;
    const at = Number(key.replace("_", ""));
    if (!key.startsWith("_")) added.add(at);
    else left.delete(at);
    if (change[2] !== MOVED) continue;
    places.set(at, Number(change[1]));
    moved.add(at);
    taken.add(Number(change[1]));
  }
  // The rest stand in both lists in the same order.
  const others = [...to.keys()].filter((at) => !added.has(at) && !taken.has(at));
  for (const [order, at] of [...left].entries()) {
    const place = others[order];
    if (place !== undefined) places.set(at, place);
  }
  return { places, moved, added };
}

function itemIdentity(item: unknown): string {
  const id: unknown = kindOf(item) === "Object" ? Reflect.get(item as object, "id") : undefined;
  return id === undefined ? identityOf(item) : `id ${identityOf(id)}`;
}

/** Equal for equal values of one kind. */
function identityOf(value: unknown): string {
  return hash("sha256", textOf(value), "base64");
}

const CONTEXT = { taskId: "diff", id: "diff", stateVersion: 1 };

/** As it would be stored, in one text. */
function textOf(value: unknown): string {
  const made = makePayload(value, { context: CONTEXT, maxBytes: Number.MAX_SAFE_INTEGER });
  if (made instanceof Promise || typeof made.payload.body !== "string")
    throw new TypeError("Without transforms it is text.");
  return made.payload.body;
}
