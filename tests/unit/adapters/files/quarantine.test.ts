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

async function emptyStore(scheme: Scheme) {
  const folder = await tempFolder();
  const [root, outside] = [join(folder, "store"), join(folder, "outside")];
  mkdirSync(outside);
  let saves = 0;
  const manager = new CheckpointManager({
    storage: await openStorage(`${scheme}:${root}`),
    createId: ({ stage }) => stage ?? `i${++saves}`,
  });
  onTestFinished(() => manager.close());
  return { root, outside, manager, quarantine: join(root, ".quarantine") };
}

/** Task `t` of three checkpoints, the second of which is damaged. */
async function damaged(scheme: Scheme) {
  const store = await emptyStore(scheme);
  const { root, manager } = store;
  for (const n of [1, 2, 3]) await manager.save("t", { n });
  const path = join(root, "t", DAMAGED[scheme]);
  replaceIn(path, '"n":2', '"n":7');
  return { ...store, path };
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
      : [["a pipe", (path) => execFileSync("sh", ["-c", 'mkfifo "$0"', path])] as [string, (path: string) => void]]),
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

describe("a name in quarantine", () => {
  async function store() {
    const { root, manager, quarantine } = await emptyStore("files");
    /** Saves the only checkpoint of task `t`, damages it, has it moved, and removes the rest of the task. */
    const quarantined = async (id: string, n: number) => {
      await manager.save("t", { n }, { stage: id });
      replaceIn(join(root, "t", `000000000001-${id}.json`), `"n":${n}`, '"n":0');
      const { steps } = await manager.repair();
      await manager.removeTask("t");
      return steps.map((step) => ("to" in step ? step.to.slice(join(quarantine, "t").length + 1) : undefined));
    };
    const kept = (name: string) => readFileSync(join(quarantine, "t", name), "utf8");
    return { quarantined, kept, quarantine };
  }

  it("is another one where the reason's would be a record's", async () => {
    const { quarantined, kept } = await store();
    expect(await quarantined("a.json.reason", 1)).toEqual(["000000000001-a.json.reason.json"]);
    expect(await quarantined("a", 2)).toEqual(["000000000001-a.json.2"]);
    expect(kept("000000000001-a.json.reason.json")).toContain('"state":{"n":0}');
    expect(JSON.parse(kept("000000000001-a.json.2.reason.json"))).toMatchObject({ id: "a" });
  });

  it("is another one where the record's would be a reason's", async () => {
    const { quarantined, kept } = await store();
    expect(await quarantined("a", 1)).toEqual(["000000000001-a.json"]);
    expect(await quarantined("a.json.reason", 2)).toEqual(["000000000001-a.json.reason.json.2"]);
    expect(JSON.parse(kept("000000000001-a.json.reason.json"))).toMatchObject({ id: "a" });
  });

  it("is the same again where somebody was killed before the original was taken away", async () => {
    const { root, manager, path, quarantine } = await damaged("files");
    const bytes = readFileSync(path);
    await manager.repair();
    writeFileSync(path, bytes);
    expect((await manager.repair()).steps).toMatchObject([{ to: join(quarantine, "t", QUARANTINED.files) }]);
    expect(readdirSync(join(root, ".quarantine", "t"))).toHaveLength(2);
  });
});
