import { readdirSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { JsonFileAdapter, type JsonFileAdapterOptions } from "waymark/adapters/json-file";
import { TaskFileAdapter, type TaskFileAdapterOptions } from "waymark/adapters/task-file";
import { tempFolder } from "../../../support/temp-folder.js";

/** Makes an adapter on a root folder that doesn't exist yet. */
export async function newJsonStore(options: Partial<JsonFileAdapterOptions> = {}) {
  const root = join(await tempFolder(), "store");
  const open = () => closing(new JsonFileAdapter({ path: root, ...options }));
  return { root, open, adapter: open() };
}

/** Makes an adapter on a root folder that doesn't exist yet. */
export async function newTaskStore(options: Partial<TaskFileAdapterOptions> = {}) {
  const root = join(await tempFolder(), "store");
  const open = () => closing(new TaskFileAdapter({ path: root, ...options }));
  return { root, open, adapter: open(), pathOf: (taskId: string) => join(root, taskId, "checkpoints.json") };
}

/** Returns every file and folder below a folder, except locks. */
export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => !name.includes(".lock"))
    .toSorted();
}

function closing<Adapter extends { close(): Promise<void> }>(adapter: Adapter): Adapter {
  onTestFinished(() => adapter.close());
  return adapter;
}
