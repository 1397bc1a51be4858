// Each kind of value, and its form after a saver has stored it. The table in docs/langgraph.md has the kinds that
// differ.
import { readFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { Document } from "@langchain/core/documents";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { Overwrite, Send } from "@langchain/langgraph";
import { type BaseCheckpointSaver, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { threadOf } from "./storages.js";

class Session {
  readonly user = "ann";
}

function cycle(): unknown {
  const node: { name: string; self?: unknown } = { name: "a" };
  node.self = node;
  return node;
}

/** Each kind is tried in an object next to a text. */
const KINDS: Readonly<Record<string, () => unknown>> = {
  "text, finite numbers, booleans, `null`, arrays, plain objects": () => ["é", 1.5, true, null, [{ a: {} }]],
  "`undefined`": () => [undefined, { a: undefined }],
  "`Map`, `Set`": () => [new Map([["a", 1]]), new Set([1])],
  "`Uint8Array`": () => Uint8Array.of(0, 255),
  "`RegExp`": () => /a+/gi,
  "`BigInt`": () => 1n,
  "`Date`": () => new Date(0),
  "`URL`": () => new URL("https://example.org/"),
  "`NaN`, `Infinity`": () => [Number.NaN, Number.POSITIVE_INFINITY],
  "`-0`": () => -0,
  "`Buffer`": () => Buffer.of(0, 255),
  "other typed arrays, `DataView`": () => [Float32Array.of(1.5), new DataView(new ArrayBuffer(1))],
  "`ArrayBuffer`": () => new ArrayBuffer(1),
  "`Error`, `RangeError`, `AggregateError`, …": () =>
    Object.assign(new RangeError("too far", { cause: new Error("why") }), { limit: 7 }),
  "an object without a prototype": () => Object.assign(Object.create(null), { a: 1 }),
  "an array with empty places": () => Object.assign(new Array(3), { 0: 1, 2: 3 }),
  messages: () => new AIMessage({ content: "hello", tool_calls: [{ name: "find", args: { q: 1 }, id: "c" }] }),
  "a `Date`, a `Map` … in a message": () =>
    new ToolMessage({ content: "found", tool_call_id: "c", artifact: { at: new Date(0), rows: new Map([["a", 1]]) } }),
  "a `BigInt` in a message": () => new ToolMessage({ content: "found", tool_call_id: "c", artifact: { big: 1n } }),
  "`Send`": () => new Send("node", { a: 1 }),
  "`Overwrite`": () => new Overwrite(1),
  "`Document`": () => new Document({ pageContent: "text", metadata: { page: 1 } }),
  'an object `{ lc: 2, type: "undefined" }`': () => ({ lc: 2, type: "undefined" }),
  "an instance of your class": () => new Session(),
  "a cycle": cycle,
  "a function": () => [() => 1, { run: () => 1 }],
  "a symbol": () => [Symbol("s"), { s: Symbol("s") }],
};

/** The outcome in words, for a channel's value and for a pending write; one text if both are the same. */
async function becomes(saver: BaseCheckpointSaver, name: string): Promise<string> {
  const outcomes = [];
  for (const where of ["value", "write"] as const) outcomes.push(await outcomeOf(saver, name, where));
  return [...new Set(outcomes)].join("; in a write ");
}

async function outcomeOf(saver: BaseCheckpointSaver, name: string, where: "value" | "write"): Promise<string> {
  const make = () => ({ beside: "text", kind: KINDS[name]?.() });
  const thread = threadOf(`${name} ${where}`, { checkpoint_ns: "" });
  try {
    const channel_values = where === "value" ? { value: make() } : {};
    const checkpoint = { ...emptyCheckpoint(), channel_values, channel_versions: { value: 1 } };
    const config = await saver.put(thread, checkpoint, { source: "loop", step: 0, parents: {} }, { value: 1 });
    if (where === "write") await saver.putWrites(config, [["value", make()]], "task");
  } catch (error) {
    return error instanceof TypeError ? "a `TypeError`" : `an error: ${String(error)}`;
  }
  const tuple = await saver.getTuple(thread);
  const { channel_values: values } = tuple?.checkpoint ?? {};
  if (values === undefined) return "lost";
  const read: unknown = where === "value" ? values["value"] : tuple?.pendingWrites?.[0]?.[2];
  if (isDeepStrictEqual(read, make())) return "unchanged";
  if (typeof read !== "object" || read === null) return "lost";
  return shown(Reflect.get(read, "kind"));
}

/** A part of a value as JSON has it. */
function shown(value: unknown): string {
  if (value === undefined) return "left out";
  if (value instanceof ToolMessage) return `\`${JSON.stringify(value.artifact)}\``;
  if (value instanceof Error) return `\`new ${value.name}(${JSON.stringify(value.message)})\``;
  return `\`${JSON.stringify(value)}\``;
}

/** The outcomes of all kinds, in their order. */
export async function tableOf(saver: BaseCheckpointSaver): Promise<readonly string[]> {
  const outcomes = [];
  for (const name of Object.keys(KINDS)) outcomes.push(await becomes(saver, name));
  return outcomes;
}

/** The rows for kinds that become something else in two savers, as docs/langgraph.md has them. */
export function differences(here: readonly string[], theirs: readonly string[]): string {
  return Object.keys(KINDS)
    .map((name, i) => ({ name, here: here[i], theirs: theirs[i] }))
    .filter((kind) => kind.here !== kind.theirs)
    .map((kind) => `| ${kind.name} | ${kind.here} | ${kind.theirs} |\n`)
    .join("");
}

/** The rows of the table in docs/langgraph.md. */
export async function documentedDifferences(): Promise<string> {
  const page = await readFile(new URL("../../../docs/langgraph.md", import.meta.url), "utf8");
  return /^\| value \|.*\n\| ---.*\n((?:\|.*\n)+)/m.exec(page)?.[1] ?? "";
}
