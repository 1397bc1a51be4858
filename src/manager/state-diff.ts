import { hash } from "node:crypto";
import { inspect, types } from "node:util";
import { encodeJson } from "../codec/json.js";

/**
 * One difference between two states. `path` consists of property names, indexes and keys of Maps. A Map's key that
 * isn't text is shown as JSON or, if JSON can't store it, as Node prints it: `7n`. If the part was removed or moved,
 * `path` is its path in the old state, otherwise in the new state.
 */
export type StateChange =
  | { readonly kind: "added"; readonly path: readonly (string | number)[]; readonly to: unknown }
  | { readonly kind: "removed"; readonly path: readonly (string | number)[]; readonly from: unknown }
  | {
      readonly kind: "changed";
      readonly path: readonly (string | number)[];
      readonly from: unknown;
      readonly to: unknown;
    }
  | { readonly kind: "moved"; readonly path: readonly (string | number)[]; readonly toIndex: number };

type Path = StateChange["path"];

/**
 * Yields the changes from one state to another. Values of different kinds differ, and so do a property that is
 * `undefined` and a missing property.
 */
export function* compareStates(from: unknown, to: unknown, path: Path = []): Generator<StateChange, void, void> {
  if (Object.is(from, to)) return;
  const [old, current] = [listParts(from), listParts(to)];
  if (readKind(from) === readKind(to) && old !== undefined && current !== undefined) {
    if (Array.isArray(old) && Array.isArray(current)) yield* compareItems(old, current, path);
    if (types.isMap(old) && types.isMap(current)) yield* compareMembers(old, current, path);
  } else if (encodeText(from) !== encodeText(to)) yield { kind: "changed", path, from, to };
}

/** Returns the kind of a value: `Map`, `Null`, `String`. */
function readKind(value: unknown): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

/** Returns a value's members by name, or its items in order; `undefined` if the value is compared as a whole. */
function listParts(value: unknown): unknown[] | Map<unknown, unknown> | undefined {
  if (Array.isArray(value)) return Array.from<unknown>(value);
  if (types.isSet(value)) return [...value];
  if (types.isMap(value)) return value;
  if (types.isNativeError(value)) {
    const { name, message, cause } = value;
    return new Map(Object.entries({ ...value, name, message, cause }));
  }
  return readKind(value) === "Object" ? new Map(Object.entries(value as object)) : undefined;
}

function* compareMembers(
  from: ReadonlyMap<unknown, unknown>,
  to: ReadonlyMap<unknown, unknown>,
  path: Path,
): Generator<StateChange, void, void> {
  const stepTo = (key: unknown) => [...path, typeof key === "string" ? key : formatKey(key)];
  // Keys match by content, because each state has its own copies of keys that are objects.
  const [old, current] = [keyByIdentity(from), keyByIdentity(to)];
  for (const [identity, [key, value]] of old) {
    const now = current.get(identity);
    if (now === undefined) yield { kind: "removed", path: stepTo(key), from: value };
    else yield* compareStates(value, now[1], stepTo(key));
  }
  for (const [identity, [key, value]] of current) {
    if (!old.has(identity)) yield { kind: "added", path: stepTo(key), to: value };
  }
}

function formatKey(key: unknown): string {
  const { encoding, text } = encodeJson(key, Number.POSITIVE_INFINITY);
  const whole = { depth: Infinity, breakLength: Infinity, maxArrayLength: Infinity, maxStringLength: Infinity };
  return encoding === "json" ? text : inspect(key, whole);
}

function keyByIdentity(members: ReadonlyMap<unknown, unknown>): ReadonlyMap<string, readonly [unknown, unknown]> {
  return new Map([...members].map((member) => [identify(member[0]), member]));
}

/**
 * Items match by their id, or else by their content. If a new item has the index of a removed item, they count as one
 * change.
 */
function* compareItems(
  from: readonly unknown[],
  to: readonly unknown[],
  path: Path,
): Generator<StateChange, void, void> {
  const places = matchItems(from.map(identifyItem), to.map(identifyItem));
  const kept = ascending(places.values());
  const taken = new Set(places.values());
  const added = new Set([...to.keys()].filter((at) => !taken.has(at)));
  for (const [at, item] of from.entries()) {
    const isReplaced = !places.has(at) && added.has(at) && readKind(item) === readKind(to[at]);
    const place = isReplaced ? at : places.get(at);
    if (isReplaced) added.delete(at);
    else if (place !== undefined && !kept.has(place)) yield { kind: "moved", path: [...path, at], toIndex: place };
    if (place === undefined) yield { kind: "removed", path: [...path, at], from: item };
    else yield* compareStates(item, to[place], [...path, place]);
  }
  for (const at of added) yield { kind: "added", path: [...path, at], to: to[at] };
}

/** Returns the new index of each old item that is still in the list, by its old index. Equal items match in order. */
function matchItems(from: readonly string[], to: readonly string[]): ReadonlyMap<number, number> {
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && from[start] === to[start]) start += 1;
  let end = 0;
  while (end < shorter - start && from.at(-1 - end) === to.at(-1 - end)) end += 1;
  const free = new Map<string | undefined, number[]>();
  // The items are added from the last to the first, so that `pop` takes the first.
  for (let at = to.length - end - 1; at >= start; at--) {
    const same = free.get(to[at]);
    if (same === undefined) free.set(to[at], [at]);
    else same.push(at);
  }
  const places = new Map<number, number>();
  for (const [at, identity] of from.entries()) {
    const isAtEnd = at >= from.length - end;
    const place = at < start ? at : isAtEnd ? at - from.length + to.length : free.get(identity)?.pop();
    if (place !== undefined) places.set(at, place);
  }
  return places;
}

/** Finds the longest ascending subsequence of the numbers. */
function ascending(numbers: Iterable<number>): ReadonlySet<number> {
  interface Link {
    readonly number: number;
    readonly before: Link | undefined;
  }
  /** `ends[n]` is the lowest last number of all ascending subsequences of n + 1 numbers. */
  const ends: Link[] = [];
  for (const number of numbers) {
    let length = ends.length;
    for (let low = 0; low < length; ) {
      const middle = Math.floor((low + length) / 2);
      if ((ends[middle]?.number ?? number) < number) low = middle + 1;
      else length = middle;
    }
    ends[length] = { number, before: ends[length - 1] };
  }
  const longest = new Set<number>();
  for (let link = ends.at(-1); link !== undefined; link = link.before) longest.add(link.number);
  return longest;
}

function identifyItem(item: unknown): string {
  const id: unknown = readKind(item) === "Object" ? Reflect.get(item as object, "id") : undefined;
  return id === undefined ? identify(item) : `id ${identify(id)}`;
}

/** Returns a hash that is equal for equal values of one kind. */
function identify(value: unknown): string {
  return hash("sha256", encodeText(value), "base64");
}

/** Returns the whole value as a text that is equal for equal values of one kind. */
function encodeText(value: unknown): string {
  const { encoding, text } = encodeJson(value, Number.POSITIVE_INFINITY);
  return `${encoding} ${text}`;
}
