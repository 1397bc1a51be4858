// Tests that followers poll if the system can't watch folders.
import type { FSWatcher } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { FolderWatches } from "../../../../adapters/files/watch.js";
import { recordingLogger } from "../../../support/recording-logger.js";
import { tempFolder } from "../../../support/temp-folder.js";

const watches = vi.hoisted(() => ({
  made: (_watcher: FSWatcher): void => undefined,
  code: undefined as string | undefined,
  calls: 0,
}));

vi.mock("node:fs", async (original) => {
  const real: typeof import("node:fs") = await original();
  const watch = (path: string, options: { persistent: boolean }) => {
    watches.calls += 1;
    if (watches.code !== undefined) throw Object.assign(new Error(watches.code), { code: watches.code });
    const made = real.watch(path, options);
    watches.made(made);
    return made;
  };
  return { ...real, watch, default: { ...real, watch } };
});

async function twoManagers() {
  const path = join(await tempFolder(), "store");
  const open = () => new CheckpointManager({ storage: new JsonFileAdapter({ path }), logger: recordingLogger() });
  return { here: open(), other: open() };
}

it.each(["ENOSPC", "EMFILE", "ENOENT"])("a follower sees records although fs.watch throws %s", async (code) => {
  const { here, other } = await twoManagers();
  await other.save("t", 1);
  Object.assign(watches, { code, calls: 0 });
  const following = here.follow("t");
  for (const n of [1, 2]) {
    expect(await following.next()).toMatchObject({ value: { sequence: n } });
    await other.save("t", n + 1);
  }
  expect(await following.next()).toMatchObject({ value: { sequence: 3 } });
  expect(watches.calls).toBeGreaterThan(0);
  watches.code = undefined;
  await Promise.all([here.close(), other.close()]);
});

it("a watch that breaks ends, and the follower polls", async () => {
  const { here, other } = await twoManagers();
  await other.save("t", 1);
  const made = new Promise<FSWatcher>((resolve) => {
    watches.made = resolve;
  });
  const following = here.follow("t");
  await following.next();
  const next = following.next();
  (await made).emit("error", new Error("the system dropped it"));
  await other.save("t", 2);
  expect(await next).toMatchObject({ value: { sequence: 2 } });
  await Promise.all([here.close(), other.close()]);
});

it("a watch tells of a folder that is gone by the time its last change is read, and opens the one in its place", async () => {
  const root = await tempFolder();
  const path = join(root, "task");
  await mkdir(path);
  const made: FSWatcher[] = [];
  Object.assign(watches, { code: undefined, calls: 0, made: (watcher: FSWatcher) => void made.push(watcher) });
  const folders = new FolderWatches(root);
  let told = 0;
  let tell = (): void => undefined;
  const next = () =>
    new Promise<void>((resolve) => {
      tell = resolve;
    });
  const opened = next();
  const end = folders.add(path, () => {
    told += 1;
    tell();
  });
  await opened;
  const [first] = made;
  // A file was renamed in the folder, but the folder is the same.
  told = 0;
  first?.emit("change", "rename", "a file");
  expect([told, watches.calls]).toEqual([1, 1]);
  await rm(path, { recursive: true });
  told = 0;
  first?.emit("change", "rename", "task");
  expect(told).toBeGreaterThan(0);
  const again = next();
  await mkdir(path);
  await again;
  expect(made.length).toBeGreaterThan(2);
  end();
  folders.end();
});
