import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, StorageError } from "waymark";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../../../support/temp-folder.js";

type Scheme = "files" | "tasks";

const DAMAGED = { files: "000000000002-i2.json", tasks: "checkpoints.json" } as const;
const QUARANTINED = { files: "000000000002-i2.json", tasks: "checkpoint-2.json" } as const;

/** Task `t` of three checkpoints, the second of which is damaged. */
async function damaged(scheme: Scheme) {
  const folder = await tempFolder();
  const [root, outside] = [join(folder, "store"), join(folder, "outside")];
  mkdirSync(outside);
  let saves = 0;
  const manager = new CheckpointManager({
    storage: await openStorage(`${scheme}:${root}`),
    createId: () => `i${++saves}`,
  });
  onTestFinished(() => manager.close());
  for (const n of [1, 2, 3]) await manager.save("t", { n });
  const path = join(root, "t", DAMAGED[scheme]);
  replaceIn(path, '"n":2', '"n":7');
  return { root, outside, manager, path, quarantine: join(root, ".quarantine") };
}

function replaceIn(path: string, from: string, to: string): void {
  writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
}

describe.each<Scheme>(["files", "tasks"])("the quarantine of %s", (scheme) => {
  it.each([
    ["its folder", "outside", "", "a symbolic link"],
    ["its folder, which leads nowhere", "nowhere", "", "a symbolic link"],
    ["a task's folder in it", "outside", "t", "a symbolic link"],
    ["a task's folder in it, which leads nowhere", "nowhere", "t", "a symbolic link"],
  ])("isn't followed out of the store by a link in the place of %s", async (_what, leadsTo, name, said) => {
    const { root, outside, manager, path, quarantine } = await damaged(scheme);
    const before = readFileSync(path);
    if (name !== "") mkdirSync(quarantine);
    symlinkSync(join(root, "..", leadsTo), join(quarantine, name));

    const error = await manager.repair().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StorageError);
    expect(String(error)).toContain(`${join(quarantine, name)} is ${said}`);
    expect(readdirSync(outside)).toEqual([]);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it.each<[string, (path: string, outside: string) => void]>([
    ["a folder", (path) => mkdirSync(path)],
    ["a link that leads nowhere", (path, outside) => symlinkSync(join(outside, "x"), path)],
    // Windows has none.
    ...(process.platform === "win32"
      ? []
      : [["a pipe", (path) => execFileSync("mkfifo", [path])] as [string, (path: string) => void]]),
  ])("takes another name where %s has the record's", async (_what, plant) => {
    const { outside, manager, quarantine } = await damaged(scheme);
    const name = QUARANTINED[scheme];
    mkdirSync(join(quarantine, "t"), { recursive: true });
    plant(join(quarantine, "t", name), outside);

    const { steps } = await manager.repair();
    expect(steps).toMatchObject([{ action: "quarantined", to: join(quarantine, "t", `${name}.2`) }]);
    expect(readdirSync(join(quarantine, "t")).sort()).toEqual([name, `${name}.2`, `${name}.2.reason.json`]);
    expect(readdirSync(outside)).toEqual([]);
  });
});
