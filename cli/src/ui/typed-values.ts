import { types } from "node:util";
import { formatPath, type PathStep } from "../state-path.js";
import type { StatePath, Typed } from "./api-parts.js";
import type { SearchAnswer } from "./api-states.js";

/** The maximum number of children of a node that are sent at once. */
const MOST_CHILDREN = 500;
/** The maximum number of nodes in an answer, but the first level is always sent. Deeper nodes are closed. */
const MOST_NODES = 5_000;
const MOST_LEVELS = 8;
const MOST_UNITS = 1_000;
const MOST_UNITS_ALONE = 1_000_000;
const SHOWN_BYTES = 1_024;
const MOST_FOUND = 500;

type ParentKind = Extract<Typed, readonly ["closed", ...unknown[]]>[1];

/** A value with children. The key of an item of an array or of a set is its index. */
interface Parent {
  readonly kind: ParentKind;
  readonly children: readonly (readonly [key: unknown, value: unknown])[];
  /** For a map: whether every key is a text. */
  readonly hasTextKeys?: boolean;
}

/**
 * Returns a value with its types, for the page. Long and deep values are cut.
 *
 * @param from - The first child to send, of a long list.
 */
export function typedValue(value: unknown, from = 0): Typed {
  let levels = 1;
  while (levels < MOST_LEVELS && fits(value, levels + 1)) levels += 1;
  return typedNode(value, levels, from);
}

/** Like `typedValue`, for one part of a state. If the part is a text, it may be much longer. */
export function typedPart(value: unknown, from = 0): Typed {
  if (typeof value !== "string") return typedValue(value, from);
  const part = value.slice(from, from + MOST_UNITS_ALONE);
  return part === value ? value : ["text", part, value.length];
}

/**
 * Returns the part of a state at a path, and the path as text for people and for `waymark show --path`.
 *
 * @throws {RangeError} Nothing is there.
 */
export function partAtPath(state: unknown, path: StatePath): { readonly value: unknown; readonly text: string } {
  let value = state;
  const steps: PathStep[] = [];
  for (const position of path) {
    const parent = findParent(value);
    const child = parent?.children[position];
    if (parent === undefined || child === undefined) {
      throw new RangeError(`The state has nothing at position ${position} of ${formatPath(steps) || "its top"}.`);
    }
    steps.push(...stepsTo(parent, position));
    value = child[1];
  }
  return { value, text: formatPath(steps) };
}

/** Finds a text in the keys and values of a state, ignoring case. */
export function searchState(state: unknown, text: string): Omit<SearchAnswer, "besides"> {
  const wanted = text.toLowerCase();
  const found: SearchAnswer["found"][number][] = [];
  let isCut = false;
  const look = (value: unknown, path: StatePath, steps: readonly PathStep[], key: unknown): void => {
    const parent = findParent(value);
    const isIn = (part: "key" | "value", text: string) => {
      if (isCut || !text.toLowerCase().includes(wanted)) return;
      if (found.length === MOST_FOUND) isCut = true;
      else found.push({ path, text: formatPath(steps), in: part, value: typedNode(value, 1, 0) });
    };
    if (typeof key !== "number" && key !== undefined) isIn("key", shownText(key));
    if (parent === undefined) isIn("value", shownText(value));
    for (const [position, [childKey, child]] of parent?.children.entries() ?? []) {
      if (isCut || parent === undefined) return;
      look(child, [...path, position], [...steps, ...stepsTo(parent, position)], childKey);
    }
  };
  look(state, [], [], undefined);
  return { found, isCut };
}

/** Whether the value's first levels have few enough nodes. */
function fits(value: unknown, levels: number): boolean {
  let left = MOST_NODES;
  const count = (node: unknown, depth: number): boolean => {
    if (depth === 0) return true;
    const shown = findParent(node)?.children.slice(0, MOST_CHILDREN) ?? [];
    left -= shown.length;
    return left >= 0 && shown.every(([, child]) => count(child, depth - 1));
  };
  return count(value, levels);
}

function typedNode(value: unknown, levels: number, from: number): Typed {
  const parent = findParent(value);
  if (parent === undefined) return typedLeaf(value);
  const { kind, children } = parent;
  if (levels === 0 && children.length > 0) return ["closed", kind, children.length];
  const shown = children.slice(from, from + MOST_CHILDREN);
  const more = Math.max(0, children.length - from - shown.length);
  const typed = (value: unknown): Typed => typedNode(value, levels - 1, 0);
  switch (kind) {
    case "object":
    case "error":
      return [kind, shown.map(([key, child]) => [String(key), typed(child)] as const), more];
    case "map":
      return [kind, shown.map(([key, child]) => [typed(key), typed(child)] as const), more];
    default:
      return [kind, shown.map(([, child]) => typed(child)), more];
  }
}

function typedLeaf(value: unknown): Typed {
  switch (typeof value) {
    case "string":
      return value.length > MOST_UNITS ? ["text", value.slice(0, MOST_UNITS), value.length] : value;
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : ["number", shownText(value)];
    case "bigint":
      return ["bigint", String(value)];
    case "object":
      if (value === null) return null;
      if (value instanceof Date) return ["date", shownText(value)];
      if (value instanceof RegExp) return ["regexp", String(value)];
      if (value instanceof URL) return ["url", value.href];
      return ["bytes", ...toBytes(value)];
    default:
      return ["undefined"];
  }
}

function toBytes(value: object): [type: string, sizeBytes: number, start: string] {
  const isView = ArrayBuffer.isView(value);
  const all = isView
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value instanceof ArrayBuffer ? value : new ArrayBuffer(0));
  const type = isView ? value.constructor.name : "ArrayBuffer";
  return [type, all.byteLength, Buffer.from(all.subarray(0, SHOWN_BYTES)).toString("base64")];
}

/** Returns a leaf as the page shows it. */
function shownText(value: unknown): string {
  if (typeof value === "string") return value;
  if (Object.is(value, -0)) return "-0";
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  return typeof value === "object" && value !== null && findParent(value) !== undefined ? "" : String(value);
}

/** Returns the children of a value; `undefined` for a leaf. */
function findParent(value: unknown): Parent | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  // Array.from also visits holes.
  if (Array.isArray(value)) return { kind: "array", children: Array.from<unknown>(value).map(indexed) };
  if (value instanceof Map) {
    const children = [...value];
    return { kind: "map", children, hasTextKeys: children.every(([key]) => typeof key === "string") };
  }
  if (value instanceof Set) return { kind: "set", children: [...value].map(indexed) };
  if (value instanceof Error || types.isNativeError(value)) return { kind: "error", children: partsOfError(value) };
  const isLeaf =
    value instanceof Date ||
    value instanceof RegExp ||
    value instanceof URL ||
    value instanceof ArrayBuffer ||
    ArrayBuffer.isView(value);
  return isLeaf ? undefined : { kind: "object", children: Object.entries(value) };
}

function indexed(value: unknown, index: number): [unknown, unknown] {
  return [index, value];
}

function partsOfError(error: Error): (readonly [string, unknown])[] {
  const { name, message, stack, cause } = error;
  const named = ["name", "message", "stack", "cause"];
  return [
    ["name", name],
    ["message", message],
    ...(stack === undefined ? [] : [["stack", stack] as const]),
    ...(cause === undefined ? [] : [["cause", cause] as const]),
    ...Object.entries(error).filter(([key]) => !named.includes(key)),
  ];
}

/** Returns the steps of a text path to a child, in the layout of `plainJson`. */
function stepsTo({ kind, children, hasTextKeys }: Parent, position: number): PathStep[] {
  const key = children[position]?.[0];
  if (kind === "array" || kind === "set") return [position];
  // A map with other keys becomes an array of pairs.
  return kind === "map" && hasTextKeys !== true ? [position, 1] : [String(key)];
}
