import { isRecord } from "waymark/kit";
import { findChecks } from "./item-gates.js";
import type { ItemStatus, Mark, Plan, PlanItem } from "./plan.js";

type Fields = Readonly<Record<string, unknown>>;
type Path = readonly (string | number)[];

/** Reads `prd.json` or Taskmaster's `tasks.json`. If the file is neither, returns what it is instead. */
export function readJsonList(bytes: Buffer, tag: string | undefined): Omit<Plan, "path"> | string {
  const text = bytes.toString("utf8").replace(/^\ufeff/, "");
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return "not JSON";
  }
  const places = findPlaces(bytes.toString("latin1"));
  if (!isRecord(json)) return Array.isArray(json) ? "a JSON array" : "a single JSON value";
  if (Array.isArray(json["userStories"])) {
    return { format: "prd.json", items: readStories(json["userStories"].filter(isRecord), places) };
  }
  const lists = Object.entries(json).filter(([, list]) => isRecord(list) && Array.isArray(list["tasks"]));
  const own = Array.isArray(json["tasks"]);
  const names = lists.map(([name]) => name);
  const chosen = tag ?? (names.includes("master") ? "master" : names.length === 1 ? names[0] : undefined);
  if (own && tag === undefined) {
    if (!looksLikeTasks(json["tasks"])) return `JSON whose tasks have no status`;
    return { format: "Taskmaster", items: readTasks(json["tasks"], ["tasks"], places) };
  }
  const list = chosen === undefined ? undefined : json[chosen];
  if (chosen !== undefined && isRecord(list) && looksLikeTasks(list["tasks"])) {
    return { format: `Taskmaster (${chosen})`, items: readTasks(list["tasks"], [chosen, "tasks"], places) };
  }
  if (names.length > 0) return `a file of several lists, so name one (--tag): ${names.join(", ")}`;
  return `JSON with ${Object.keys(json).slice(0, 8).join(", ") || "no fields"}`;
}

function readStories(stories: readonly Fields[], places: Places): readonly PlanItem[] {
  const items = stories.map((story, index) => {
    const id = textIn(story, "id") || `${index + 1}`;
    const criteria = listIn(story, "acceptanceCriteria").map(String);
    const { gates, checks } = findChecks(criteria);
    const parts = [textIn(story, "description"), ...criteria.map((each) => `- ${each}`), textIn(story, "notes")];
    const isDone = story["passes"] === true;
    const priority = typeof story["priority"] === "number" ? story["priority"] : Number.POSITIVE_INFINITY;
    const mark = findMark(places, ["userStories", index], "passes", { done: "true", open: "false", isDone });
    const after = listIn(story, "dependsOn").map(String);
    const item = { id, title: textIn(story, "title"), text: parts.filter(Boolean).join("\n"), after, gates, checks };
    return { item: { ...item, ...PLAIN, status: toStatus(isDone ? "done" : ""), marks: [mark] }, priority };
  });
  return items.toSorted((a, b) => a.priority - b.priority || 0).map(({ item }) => item);
}

const PLAIN = { within: [], isOptional: false, isGroup: false };

function looksLikeTasks(tasks: unknown): tasks is readonly Fields[] {
  return Array.isArray(tasks) && tasks.every((task) => isRecord(task) && "status" in task);
}

/** Returns the items of tasks. A task comes after its subtasks, and is done once they are done. */
function readTasks(tasks: readonly Fields[], path: Path, places: Places): readonly PlanItem[] {
  return tasks.flatMap((task, index) => {
    const own = [...path, index];
    const id = String(task["id"] ?? index + 1);
    const title = textIn(task, "title");
    const before = listIn(task, "dependencies").map(String);
    const subtasks = listIn(task, "subtasks").filter(isRecord);
    const children = subtasks.map((subtask, nth) => {
      const within = [`${id} ${title}: ${textIn(subtask, "description") === "" ? "" : textIn(task, "description")}`];
      const siblings = listIn(subtask, "dependencies").map((each) => withParent(String(each), id, subtasks));
      const childId = `${id}.${String(subtask["id"] ?? nth + 1)}`;
      return {
        ...toItem(subtask, childId, [...own, "subtasks", nth], places),
        within,
        after: [...before, ...siblings],
      };
    });
    const after = [...before, ...children.filter(({ status }) => status !== "deferred").map((child) => child.id)];
    const item = { ...toItem(task, id, own, places), after, isGroup: children.length > 0 };
    // If a task is deferred, its open subtasks are also deferred.
    const status = item.status === "deferred" ? ("deferred" as const) : undefined;
    return [...children.map((child) => (status && child.status !== "done" ? { ...child, status } : child)), item];
  });
}

/** Returns the full id of a dependency. Within a task, `1` means the task's own subtask 1. */
function withParent(id: string, parent: string, siblings: readonly Fields[]): string {
  return siblings.some((sibling) => String(sibling["id"]) === id) ? `${parent}.${id}` : id;
}

function toItem(task: Fields, id: string, path: Path, places: Places): PlanItem {
  const strategy = textIn(task, "testStrategy");
  const texts = [textIn(task, "description"), textIn(task, "details"), strategy && `Test strategy: ${strategy}`];
  const status = toStatus(textIn(task, "status"));
  const mark = findMark(places, path, "status", { done: '"done"', open: '"pending"', isDone: status === "done" });
  const text = texts.filter(Boolean).join("\n\n");
  return {
    id,
    title: textIn(task, "title"),
    text,
    ...PLAIN,
    // All tasks may be worked on in parallel: only dependencies make a task wait.
    beside: "",
    status,
    after: [],
    ...findChecks(strategy.split("\n")),
    marks: [mark],
  };
}

function toStatus(status: string): ItemStatus {
  if (/^(?:done|completed?)$/i.test(status)) return "done";
  if (/^(?:deferred|cancell?ed)$/i.test(status)) return "deferred";
  return /^(?:in[-_ ]progress|review)$/i.test(status) ? "begun" : "open";
}

function textIn(fields: Fields, name: string): string {
  const value = fields[name];
  return typeof value === "string" || typeof value === "number" ? String(value).trim() : "";
}

function listIn(fields: Fields, name: string): readonly unknown[] {
  const value = fields[name];
  return Array.isArray(value) ? value : [];
}

/** The position of each value in a JSON text, in bytes. */
type Places = ReadonlyMap<string, readonly [start: number, end: number]>;

/**
 * Returns the mark in an object's field. If the field is missing, the mark is an empty range at the object's beginning.
 */
function findMark(
  places: Places,
  object: Path,
  field: string,
  { done, open, isDone }: Omit<Mark, "start" | "end">,
): Mark {
  const place = places.get(JSON.stringify([...object, field]));
  if (place !== undefined) return { start: place[0], end: place[1], done, open, isDone };
  const start = (places.get(JSON.stringify(object))?.[0] ?? 0) + 1;
  const inserted = (value: string) => ` ${JSON.stringify(field)}: ${value},`;
  return { start, end: start, done: inserted(done), open: inserted(open), isDone };
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/** @param text - Valid JSON, one character for each byte. */
function findPlaces(text: string): Places {
  const places = new Map<string, readonly [number, number]>();
  const tokens = [...text.replace(/^\xef\xbb\xbf/, "   ").matchAll(TOKEN)].map(({ 0: token, index }) => ({
    token,
    index,
  }));
  let at = 0;
  const isNext = (token: string) => tokens[at]?.token === token;
  const readValue = (path: Path): void => {
    const first = tokens[at++];
    const closing = first?.token === "{" ? "}" : first?.token === "[" ? "]" : undefined;
    for (let nth = 0; closing !== undefined && at < tokens.length && !isNext(closing); nth++) {
      if (isNext(",")) at += 1;
      const key = closing === "}" ? readKey(tokens[at]?.token ?? "") : nth;
      if (closing === "}") at += 2;
      readValue([...path, key]);
    }
    if (closing !== undefined) at += 1;
    const last = tokens[at - 1];
    if (first && last) places.set(JSON.stringify(path), [first.index, last.index + last.token.length]);
  };
  readValue([]);
  return places;
}

function readKey(token: string): string {
  return String(JSON.parse(Buffer.from(token, "latin1").toString("utf8")));
}
