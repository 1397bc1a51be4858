import type { StatePath, Typed } from "../../src/ui/api-parts.js";

export type NodeKind = "object" | "array" | "map" | "set" | "error";

/** A node with the children that were sent. */
export interface OpenNode {
  readonly kind: NodeKind;
  readonly children: readonly Child[];
  /** The number of children that weren't sent. */
  readonly more: number;
}

export interface Child {
  /** A property's name, an index, or the key of a map. */
  readonly key: Typed;
  readonly value: Typed;
}

/** How a value without children is shown. */
export interface Leaf {
  readonly text: string;
  readonly look: "text" | "number" | "word";
  /** The kind, if the text doesn't show it: `date`, `bigint`, `4,096 bytes`. */
  readonly kind?: string;
  /** How much of a long text was left out, in UTF-16 units. */
  readonly left: number;
}

/** Returns the node's kind and the number of its children; `undefined` for a leaf. */
export function countItems(value: Typed): { readonly kind: NodeKind; readonly size: number } | undefined {
  if (!isTagged(value)) return undefined;
  switch (value[0]) {
    case "object":
    case "array":
    case "map":
    case "set":
    case "error":
      return { kind: value[0], size: value[1].length + value[2] };
    case "closed":
      return { kind: value[1], size: value[2] };
    default:
      return undefined;
  }
}

/** Returns a node with the children that were sent; `undefined` for a leaf, or if the children weren't sent. */
export function openNode(value: Typed): OpenNode | undefined {
  if (!isTagged(value)) return undefined;
  switch (value[0]) {
    case "object":
    case "map":
    case "error":
      return { kind: value[0], children: value[1].map(([key, child]) => ({ key, value: child })), more: value[2] };
    case "array":
    case "set":
      return {
        kind: value[0],
        children: value[1].map((child, index) => ({ key: index, value: child })),
        more: value[2],
      };
    default:
      return undefined;
  }
}

/** Returns the node with the next part's children added after its own. */
export function joined(node: Typed, next: Typed): Typed {
  if (!isTagged(node) || !isTagged(next)) return next;
  switch (node[0]) {
    case "object":
      return next[0] === "object" ? ["object", [...node[1], ...next[1]], next[2]] : next;
    case "error":
      return next[0] === "error" ? ["error", [...node[1], ...next[1]], next[2]] : next;
    case "map":
      return next[0] === "map" ? ["map", [...node[1], ...next[1]], next[2]] : next;
    case "array":
      return next[0] === "array" ? ["array", [...node[1], ...next[1]], next[2]] : next;
    case "set":
      return next[0] === "set" ? ["set", [...node[1], ...next[1]], next[2]] : next;
    default:
      return next;
  }
}

export function renderLeaf(value: Typed): Leaf {
  if (typeof value === "string") return { text: value, look: "text", left: 0 };
  if (typeof value === "number") return { text: String(value), look: "number", left: 0 };
  if (!isTagged(value)) return { text: String(value), look: "word", left: 0 };
  switch (value[0]) {
    case "text":
      return { text: value[1], look: "text", left: value[2] - value[1].length };
    case "date":
      return { text: value[1], look: "number", kind: "date", left: 0 };
    case "bigint":
      return { text: `${value[1]}n`, look: "number", kind: "bigint", left: 0 };
    case "number":
      return { text: value[1], look: "number", left: 0 };
    case "undefined":
      return { text: "undefined", look: "word", left: 0 };
    case "regexp":
      return { text: value[1], look: "word", kind: "regexp", left: 0 };
    case "url":
      return { text: value[1], look: "word", kind: "URL", left: 0 };
    case "bytes":
      return {
        text: hexOf(value[3]),
        look: "number",
        kind: `${value[1]}, ${value[2].toLocaleString("en-US")} bytes`,
        left: 0,
      };
    default:
      return { text: summaryText(value), look: "word", left: 0 };
  }
}

/** Returns a short text: `{3 keys}`, `[12 items]`, `Map(2)`, `Error: it broke`. */
export function summaryText(value: Typed): string {
  const node = countItems(value);
  if (node === undefined) return renderLeaf(value).text;
  const { kind, size } = node;
  const count = size.toLocaleString("en-US");
  switch (kind) {
    case "object":
      return size === 0 ? "{}" : `{${count} ${size === 1 ? "key" : "keys"}}`;
    case "array":
      return size === 0 ? "[]" : `[${count} ${size === 1 ? "item" : "items"}]`;
    case "map":
      return `Map(${count})`;
    case "set":
      return `Set(${count})`;
    case "error":
      return errorText(value);
  }
}

/** Returns all of the value that was sent, as JSON-like text. Kinds that JSON lacks are named. */
export function typedText(value: Typed, indent = ""): string {
  const node = openNode(value);
  if (node === undefined) {
    const { text, look, left } = renderLeaf(value);
    if (countItems(value) !== undefined) return text;
    if (look !== "text") return text;
    return left === 0 ? JSON.stringify(text) : `${JSON.stringify(text)} … ${left.toLocaleString("en-US")} more`;
  }
  const { kind, children, more } = node;
  const [open, close] = BRACKETS[kind];
  if (children.length === 0 && more === 0) return `${open}${close}`;
  const inner = `${indent}  `;
  const lines = children.map(({ key, value: child }) => {
    const label = kind === "array" || kind === "set" ? "" : `${typedText(key, inner)}${kind === "map" ? " => " : ": "}`;
    return `${inner}${label}${typedText(child, inner)}`;
  });
  if (more > 0) lines.push(`${inner}… ${more.toLocaleString("en-US")} more`);
  return `${open}\n${lines.join(",\n")}\n${indent}${close}`;
}

/**
 * Returns the JSON path of a place, as `waymark show --path` accepts it: `$.messages[3].role`.
 *
 * @param at - Returns the node at a path.
 */
export function jsonPath(path: StatePath, at: (path: StatePath) => Typed | undefined): string {
  let text = "$";
  for (const [depth, position] of path.entries()) {
    const node = openNode(at(path.slice(0, depth)) ?? null);
    const key = node?.children[position]?.key;
    if (node === undefined || key === undefined) return text;
    if (node.kind !== "map") text += stepText(key);
    // For `--path`, a map whose keys aren't all texts is a list of pairs.
    else text += node.children.every((child) => typeof child.key === "string") ? stepText(key) : `[${position}][1]`;
  }
  return text;
}

export function pathKey(path: StatePath): string {
  return path.join(".");
}

const BRACKETS: Readonly<Record<NodeKind, readonly [string, string]>> = {
  object: ["{", "}"],
  array: ["[", "]"],
  map: ["Map {", "}"],
  set: ["Set [", "]"],
  error: ["Error {", "}"],
};

const WORD = /^[^.[\]"\s$]+$/;

function stepText(key: Typed): string {
  if (typeof key === "number") return `[${key}]`;
  const text = renderLeaf(key).text;
  return WORD.test(text) ? `.${text}` : `[${JSON.stringify(text)}]`;
}

function errorText(value: Typed): string {
  const children = openNode(value)?.children ?? [];
  const textAt = (name: string) => {
    const found = children.find(({ key }) => key === name)?.value;
    return found === undefined ? "" : renderLeaf(found).text;
  };
  const [name, message] = [textAt("name") || "Error", textAt("message")];
  return message === "" ? name : `${name}: ${message}`;
}

function hexOf(base64: string): string {
  return [...atob(base64)].map((unit) => unit.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
}

/** Whether a value is tagged: every array among typed values begins with its kind. */
function isTagged(value: Typed): value is Extract<Typed, readonly unknown[]> {
  return Array.isArray(value);
}
