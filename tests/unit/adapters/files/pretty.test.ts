// Tests states that are written over many lines, for diffs.
import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CheckpointCorruptError, CheckpointManager, gzip } from "waymark";
import { JsonFileAdapter, type JsonFileAdapterOptions } from "waymark/adapters/json-file";
import { recordingLogger } from "../../../support/recording-logger.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { newJsonStore } from "./stores.js";

async function place() {
  const path = join(await tempFolder(), "store");
  const managerOn = (options: Partial<JsonFileAdapterOptions> = {}) =>
    new CheckpointManager({ storage: new JsonFileAdapter({ path, ...options }), logger: recordingLogger() });
  const files = () => readdirSync(join(path, "t")).filter((name) => name.endsWith(".json"));
  const fileAt = (at: number) => join(path, "t", files()[at]!);
  return { managerOn, fileAt, textAt: (at: number) => readFileSync(fileAt(at), "utf8") };
}

const STATE = { steps: [{ name: "a", at: new Date(0) }], empty: {} };
const DEEP = { inner: { list: [1, 2] } };

it("pretty writes the state over many lines, and keeps the head in line one", async () => {
  const { managerOn, textAt } = await place();
  await using manager = managerOn({ pretty: true });
  await manager.save("t", DEEP);
  const [head, ...state] = textAt(0).split("\n");
  expect(JSON.parse(`${head?.slice(0, -1)}}`)).toMatchObject({ taskId: "t", sequence: 1, sizeBytes: 24 });
  expect(state).toEqual([
    '"state":{',
    '  "inner": {',
    '    "list": [',
    "      1,",
    "      2",
    "    ]",
    "  }",
    "}}",
    "",
  ]);
  expect(JSON.parse(textAt(0)).state).toEqual(DEEP);
});

it("states of both forms in one folder are read and verified, with the option and without", async () => {
  const { managerOn } = await place();
  for (const pretty of [true, false, true]) {
    await using manager = managerOn({ pretty });
    await manager.save("t", { ...STATE, pretty });
  }
  for (const pretty of [true, false]) {
    await using manager = managerOn({ pretty });
    const states: unknown[] = [];
    for await (const { state } of manager.history("t", { order: "oldest" })) states.push(state);
    expect(states).toEqual([true, false, true].map((its) => ({ ...STATE, pretty: its })));
    expect(await manager.maintenance.verify()).toMatchObject({ checkpoints: 3, findings: [] });
  }
});

it("a changed status writes the file in the form of the adapter that changes it", async () => {
  const { managerOn, textAt } = await place();
  await using compact = managerOn();
  await using pretty = managerOn({ pretty: true });
  await compact.save("t", DEEP);
  expect(textAt(0).split("\n")).toHaveLength(3);
  await pretty.fail("t", new Error("x"));
  expect(textAt(0).split("\n")).toHaveLength(10);
  await compact.complete("t");
  expect(textAt(0).split("\n")).toHaveLength(3);
  expect((await compact.latest("t"))?.state).toEqual(DEEP);
});

it("bytes stay one line of base64", async () => {
  const { root, adapter } = await newJsonStore({ pretty: true });
  await using manager = new CheckpointManager({ storage: adapter, transforms: [gzip()], logger: recordingLogger() });
  await manager.save("t", DEEP);
  const [name = ""] = readdirSync(join(root, "t")).filter((file) => file.endsWith(".json"));
  expect(readFileSync(join(root, "t", name), "utf8")).toMatch(/,\n"state":"[\w+/=]+"\}\n$/);
  expect((await manager.latest("t"))?.state).toEqual(DEEP);
});

it("a list reads the head alone, and a read finds a changed value", async () => {
  const { managerOn, fileAt, textAt } = await place();
  await using manager = managerOn({ pretty: true });
  await manager.save("t", DEEP);
  writeFileSync(fileAt(0), textAt(0).replace("  1,", "  7,"));
  expect(await manager.list("t")).toHaveLength(1);
  await expect(manager.latest("t")).rejects.toThrow(CheckpointCorruptError);
  expect((await manager.maintenance.verify()).findings).toHaveLength(1);
});

it("a file that was cut short in its state is damage", async () => {
  const { managerOn, fileAt, textAt } = await place();
  await using manager = managerOn({ pretty: true });
  await manager.save("t", DEEP);
  truncateSync(fileAt(0), textAt(0).length - 4);
  await expect(manager.latest("t")).rejects.toThrow(/cut short/);
});

it("a formatter may write the file anew", async () => {
  const { managerOn, fileAt, textAt } = await place();
  await using manager = managerOn({ pretty: true });
  await manager.save("t", DEEP);
  writeFileSync(fileAt(0), JSON.stringify(JSON.parse(textAt(0)), undefined, 4).replaceAll("\n", "\r\n"));
  expect((await manager.latest("t"))?.state).toEqual(DEEP);
  expect((await manager.maintenance.verify()).findings).toEqual([]);
});

it("pretty must be true or false", () => {
  expect(() => new JsonFileAdapter({ path: "x", pretty: "yes" as never })).toThrow(/pretty .* true or false/);
});
