import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { Thread } from "./task-ids.js";

/** LangGraph's `RunnableConfig`. */
export type Config = Parameters<BaseCheckpointSaver["getTuple"]>[0];

/** `undefined` if the config names no thread. */
export function threadIn(config: Config): Thread | undefined {
  const { threadId, namespace = "" } = namesIn(config);
  return threadId === undefined ? undefined : { threadId, namespace };
}

/** @throws {TypeError} `thread_id` or `checkpoint_ns` isn't a string. */
export function namesIn({ configurable = {} }: Config): { readonly threadId?: string; readonly namespace?: string } {
  const { thread_id: threadId, checkpoint_ns: namespace } = configurable;
  for (const [key, name] of [
    ["thread_id", threadId],
    ["checkpoint_ns", namespace],
  ] as const) {
    if (name === undefined || (typeof name === "string" && (name !== "" || key === "checkpoint_ns"))) continue;
    throw new TypeError(`"${key}" in "configurable" must be a string that isn't empty; it is ${JSON.stringify(name)}.`);
  }
  return { threadId, namespace };
}

export function requiredThread(config: Config, what: string): Thread {
  const thread = threadIn(config);
  if (thread !== undefined) return thread;
  throw new TypeError(
    `Can't ${what}: the config has no "thread_id" in "configurable". Pass one: ` +
      `graph.invoke(input, { configurable: { thread_id: "support-42" } }).`,
  );
}

/** @throws {TypeError} The id isn't a string, or is empty. */
export function checkThreadId(threadId: string): void {
  if (typeof threadId === "string" && threadId !== "") return;
  throw new TypeError(`A thread's id must be a string that isn't empty; it is ${JSON.stringify(threadId)}.`);
}

export function makeConfig({ threadId, namespace }: Thread, id: string) {
  return { configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: id } };
}

/** Whether `value` has every property of `filter`, at any depth. */
export function contains(value: unknown, filter: unknown): boolean {
  if (typeof filter !== "object" || filter === null) return Object.is(value, filter);
  if (typeof value !== "object" || value === null || Array.isArray(value) !== Array.isArray(filter)) return false;
  const properties = new Map<string, unknown>(Object.entries(value));
  if (Array.isArray(filter) && filter.length !== properties.size) return false;
  return Object.entries(filter).every(([key, part]) => part === undefined || contains(properties.get(key), part));
}
