import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CheckpointCorruptError, CheckpointManager, UnsupportedFormatError } from "waymark";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { tempFolder } from "../../../support/temp-folder.js";
import { filesIn } from "./stores.js";

async function taskOf(content: string) {
  const path = await tempFolder();
  const folder = join(path, "t");
  mkdirSync(folder);
  writeFileSync(join(folder, "checkpoints.json"), content);
  return { folder, adapter: new TaskFileAdapter({ path }) };
}

it("moves two damaged files to two names, and loses neither", async () => {
  const { folder, adapter } = await taskOf("first");
  await adapter.setAside("t");
  writeFileSync(join(folder, "checkpoints.json"), "second");
  const { movedTo } = (await adapter.setAside("t")) ?? {};
  expect(movedTo).toMatch(/checkpoints\.json\.damaged-[0-9a-f]{16}$/);
  expect(
    filesIn(folder)
      .map((name) => readFileSync(join(folder, name), "utf8"))
      .sort(),
  ).toEqual(["first", "second"]);
  await adapter.close();
});

it("leaves a writable file, even if parts of it are damaged, and a missing file", async () => {
  const { folder, adapter } = await taskOf("");
  await adapter.setAside("t");
  const manager = new CheckpointManager({ storage: adapter });
  await manager.save("t", "kept");
  expect(await adapter.setAside("t")).toBeUndefined();
  expect(await adapter.setAside("nobody")).toBeUndefined();
  const path = join(folder, "checkpoints.json");
  writeFileSync(path, readFileSync(path, "utf8").replace("kept", "bent"));
  expect(await adapter.setAside("t")).toBeUndefined();
  expect(existsSync(path)).toBe(true);
  await manager.close();
});

it("throws an error that names what to move if it isn't a file, and loses nothing", async () => {
  const { folder, adapter } = await taskOf("");
  await adapter.setAside("t");
  mkdirSync(join(folder, "checkpoints.json"));
  const refused = adapter.setAside("t");
  await expect(refused).rejects.toBeInstanceOf(CheckpointCorruptError);
  await expect(refused).rejects.toThrow(
    /Could not set aside task "t": .*checkpoints\.json is damaged: it is not a file\..* Move it away\.$/,
  );
  expect(existsSync(join(folder, "checkpoints.json"))).toBe(true);
  await adapter.close();
});

it.each(["[]", '[{"step":1}]', "null", '"text"', '{"version":"1.0"}', '{"version":"1.0","checkpoints":{}}', "{}"])(
  "leaves JSON that another program wrote, as do a repair and a removal: %s",
  async (content) => {
    const { folder, adapter } = await taskOf(content);
    for (const call of [() => adapter.setAside("t"), () => adapter.remove("t", "all")]) {
      const refused = call();
      await expect(refused).rejects.toBeInstanceOf(UnsupportedFormatError);
      await expect(refused).rejects.toThrow("It was left untouched");
    }
    const steps = [];
    for await (const step of adapter.maintenance.repair({ dryRun: false, leftoversOlderThanMs: 0 })) steps.push(step);
    expect(steps).toMatchObject([{ action: "left", finding: { kind: "refused" } }]);
    expect(filesIn(folder)).toEqual(["checkpoints.json"]);
    expect(readFileSync(join(folder, "checkpoints.json"), "utf8")).toBe(content);
    await adapter.close();
  },
);
