// Where the system can't watch folders, followers poll.
import type { FSWatcher } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { CheckpointManager } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
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
