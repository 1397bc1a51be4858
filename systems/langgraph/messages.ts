import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { isRecord, type JsonRecord } from "../../src/codec/tags.js";

const OF_ALL = ["additional_kwargs", "response_metadata"];

/** The classes of chat messages, with the arguments whose names `load` keeps as they are. */
const CLASSES: Readonly<
  Record<string, { readonly make: new (fields: never) => object; readonly names: readonly string[] }>
> = {
  HumanMessage: { make: HumanMessage, names: OF_ALL },
  SystemMessage: { make: SystemMessage, names: OF_ALL },
  AIMessage: { make: AIMessage, names: [...OF_ALL, "tool_calls", "invalid_tool_calls", "usage_metadata"] },
  ToolMessage: { make: ToolMessage, names: [...OF_ALL, "tool_call_id"] },
};

/**
 * Makes a message from its plain record, as LangChain's `load` does, but without a promise for each part. In a long
 * chat, those promises take most of the reading time. `undefined` if only `load` can make it.
 *
 * @param record - The message takes over its parts without copying them.
 */
export function makeMessage({ id, kwargs }: JsonRecord): object | undefined {
  if (!Array.isArray(id) || id.length !== 3 || id[0] !== "langchain_core" || id[1] !== "messages") return undefined;
  const name: unknown = id[2];
  const found = typeof name === "string" && Object.hasOwn(CLASSES, name) ? CLASSES[name] : undefined;
  if (found === undefined || !isRecord(kwargs) || hasTheirs(kwargs)) return undefined;
  const isKept = (key: string) => found.names.includes(key) || !/[-_\s]/.test(key);
  return Object.keys(kwargs).every(isKept) ? Reflect.construct(found.make, [kwargs]) : undefined;
}

/** Whether a part of the value needs LangChain's `load`. */
function hasTheirs(part: unknown): boolean {
  if (typeof part !== "object" || part === null) return false;
  if (Object.hasOwn(part, "lc") || Object.hasOwn(part, "__lc_escaped__")) return true;
  return Object.values(part).some(hasTheirs);
}
