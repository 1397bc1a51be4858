import { basename } from "node:path";
import { expect, it, vi } from "vitest";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { draft } from "../../../../src/conformance/drafts.js";
import { tempFolder } from "../../../support/temp-folder.js";

/** How often another process is to remove a lock's folder, which was empty, right after it was made. */
const removals = vi.hoisted(() => ({ left: 0 }));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const makeFolder = (path: string, options: import("node:fs").MakeDirectoryOptions) => {
    real.mkdirSync(path, options);
    if (!basename(path).endsWith(".lock") || removals.left === 0) return;
    removals.left -= 1;
    real.rmdirSync(path);
  };
  return { ...real, mkdirSync: makeFolder, default: real };
});

it("a checkpoint is there though another process removes the lock's folder at each moment that it may", async () => {
  const adapter = new TaskFileAdapter({ path: await tempFolder() });
  await adapter.append(draft("t", "c1"));
  for (const left of [1, 2, 3]) {
    removals.left = left;
    expect(await adapter.setStatus("t", "c1", { status: "paused" })).toBe(true);
    expect(removals.left).toBe(0);
  }
  removals.left = 1;
  expect(await adapter.remove("t", ["c1"])).toBe(1);
  await adapter.close();
});
