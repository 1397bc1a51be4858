import { isRecord } from "waymark/kit";
import { sumUsage, usageIn } from "../usage.js";
import type { Chat, ChatMessage } from "./api-parts.js";

const MOST_MESSAGES = 100;
const MOST_UNITS = 10_000;

/** Returns the chat in a state: its first field that is a list of messages. `undefined` if there is none. */
export function chatIn(state: unknown): Chat | undefined {
  const list = isRecord(state) ? Object.values(state).find(isChat) : undefined;
  if (list === undefined) return undefined;
  const usage = sumUsage(list.map((message) => usageIn(fieldsOf(message))));
  return { messages: list.slice(-MOST_MESSAGES).map(describeMessage), total: list.length, ...(usage && { usage }) };
}

function isChat(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.length > 0 && value.every((one) => roleOf(one) !== undefined);
}

/** Returns who wrote a message, for a message of LangChain and for `{ role, content }`. */
function roleOf(message: unknown): string | undefined {
  if (!isRecord(message)) return undefined;
  const { id, kwargs, role, content } = message;
  if (!isRecord(kwargs)) return typeof role === "string" && content !== undefined ? role : undefined;
  const [, name] = /^(\w+?)Message(?:Chunk)?$/.exec(String(Array.isArray(id) ? id.at(-1) : undefined)) ?? [];
  return name === undefined ? undefined : name === "AI" ? "ai" : name.toLowerCase();
}

/** Returns the message's fields, which LangChain's form has in `kwargs`. */
function fieldsOf(message: unknown): Readonly<Record<string, unknown>> {
  if (!isRecord(message)) return {};
  return isRecord(message["kwargs"]) ? message["kwargs"] : message;
}

function describeMessage(message: unknown): ChatMessage {
  const { content, name, tool_calls: calls } = fieldsOf(message);
  return {
    role: roleOf(message) ?? "",
    ...(typeof name === "string" && name !== "" && { name }),
    text: cut(contentText(content)),
    calls: (Array.isArray(calls) ? calls : []).filter(isRecord).map((call) => {
      // OpenAI's form has the name and the arguments, as JSON, within `function`.
      const called = isRecord(call["function"]) ? call["function"] : call;
      const args = called["args"] ?? called["arguments"];
      return { name: String(called["name"]), args: cut(typeof args === "string" ? args : jsonText(args)) };
    }),
  };
}

/** The content is a text or a list of parts: texts, and images or other parts that only their type stands for. */
function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === undefined || content === null ? "" : jsonText(content);
  return content
    .map((part) => {
      if (typeof part === "string") return part;
      const { text, type } = isRecord(part) ? part : {};
      return typeof text === "string" ? text : `[${String(type)}]`;
    })
    .join("\n");
}

function jsonText(value: unknown): string {
  return JSON.stringify(value, undefined, 2) ?? "";
}

function cut(text: string): string {
  return text.length > MOST_UNITS ? `${text.slice(0, MOST_UNITS)}…` : text;
}
