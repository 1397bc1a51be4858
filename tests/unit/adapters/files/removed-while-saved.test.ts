import { rmSync } from "node:fs";
import { expect, it, onTestFinished, vi } from "vitest";
import { draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

/** Called once, right before a folder whose path ends like this is opened for its sync. */
const meanwhile = vi.hoisted(() => ({ folder: "", call: () => {} }));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const openSync: typeof real.openSync = (path, ...options) => {
    if (meanwhile.folder !== "" && String(path) === meanwhile.folder) {
      meanwhile.folder = "";
      meanwhile.call();
    }
    return real.openSync(path, ...options);
  };
  return { ...real, openSync, default: { ...real, openSync } };
});

it.each([
  ["json-file", newJsonStore],
  ["task-file", newTaskStore],
])("%s: a save succeeds even if another process removes the task right after its commit", async (_kind, make) => {
  const { root, adapter, open } = await make();
  await adapter.append(draft("t", "a1"));
  onTestFinished(() => expect(meanwhile.folder).toBe(""));
  Object.assign(meanwhile, { folder: `${root}/t`, call: () => rmSync(`${root}/t`, { recursive: true }) });
  expect(await adapter.append(draft("t", "a2"))).toBe(2);
  expect(await adapter.append(draft("t", "b1"))).toBe(1);
  expect(await open().get("t", "b1")).toMatchObject({ sequence: 1 });
});
