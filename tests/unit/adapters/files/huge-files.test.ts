import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager, StorageError } from "waymark";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MAX_NUMBERING_BYTES } from "../../../../adapters/files/json-file-format.js";
import { MAX_FIRST_LINE_BYTES, readFirstLine } from "../../../../adapters/files/stored-file.js";
import { MAX_TASK_FILE_BYTES, TaskFileEntries } from "../../../../adapters/files/task-file-entries.js";
import { recordingLogger } from "../../../support/recording-logger.js";
import { tempFolder } from "../../../support/temp-folder.js";
import { collect, draft } from "./drafts.js";
import { newJsonStore, newTaskStore } from "./stores.js";

const NAME = "000000000003-x.json";
const OPENING = Buffer.from('{"waymark":');
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

async function populated() {
  const root = await tempFolder();
  const manager = new CheckpointManager({ storage: new JsonFileAdapter({ path: root }), logger: recordingLogger() });
  onTestFinished(() => manager.close());
  await manager.save("t", { n: 1 });
  await manager.save("t", { n: 2 });
  return { root, manager, path: join(root, "t", NAME) };
}

/** A file that takes no room on the disk: a hole of `size` bytes behind `start`. */
function writeSparse(path: string, start: string, size: number): void {
  writeFileSync(path, start);
  truncateSync(path, size);
}

describe("a file that is nothing but a hole", () => {
  it.each([
    ["more than is read of any", 8 * GIB],
    ["just what is read of one", GIB],
  ])("of %s is a damaged checkpoint, and disables nothing", async (_what, size) => {
    const { root, manager, path } = await populated();
    writeSparse(path, '{"waymark":1,', size);

    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([2, 1]);
    expect(await manager.tasks()).toMatchObject([{ taskId: "t", newest: { sequence: 2 } }]);
    expect((await manager.save("t", { n: 4 })).sequence).toBe(4);
    const { findings } = await manager.verify();
    expect(findings).toMatchObject([{ kind: "record", location: path, sequence: 3 }]);
    if (size > GIB)
      expect((await manager.repair()).steps).toMatchObject([{ action: "left", finding: { location: path } }]);
    expect(await manager.removeTask("t")).toBe(4);
    expect(readdirSync(root)).toEqual([]);
  });
});

describe("a task's file", () => {
  it("of more than is read is damaged, and left as it is", async () => {
    const { adapter, root, pathOf } = await newTaskStore();
    for (const task of ["t", "u"]) await adapter.append(draft(task, "i1"));
    truncateSync(pathOf("t"), MAX_TASK_FILE_BYTES + 1);
    const reason = `it has ${MAX_TASK_FILE_BYTES + 1} bytes, and more than ${MAX_TASK_FILE_BYTES} are not read`;
    expect(await collect(adapter.list({ taskId: "t", order: "newest" }))).toMatchObject([{ corrupt: true, reason }]);
    expect(await collect(adapter.tasks({ order: "taskId" }))).toMatchObject([{ reason }, { taskId: "u" }]);
    await expect(adapter.append(draft("t", "i2"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    const [step] = await collect(adapter.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
    expect(step).toMatchObject({ action: "left", finding: { kind: "record", reason } });
    expect(readdirSync(root)).toEqual(["t", "u"]);
  });

  it("is never written so large that it isn't read again", () => {
    const line = Buffer.alloc(64 * MIB);
    const entries = [1, 2, 3, 4].map(() => ({ reason: "it was damaged before", line }));
    const file = new TaskFileEntries("/store/t/checkpoints.json", { entries, extra: {} });
    expect(file.render("t", entries.slice(1)).length).toBeGreaterThan(3 * line.length);
    expect(() => file.render("t", entries)).toThrow(StorageError);
    expect(() => file.render("t", entries)).toThrow(
      /^\/store\/t\/checkpoints\.json would have \d+ bytes .* Nothing was changed/,
    );
  });
});

it("a numbering that is a hole is mended by repair", async () => {
  const { adapter, root } = await newJsonStore();
  for (const id of ["i1", "i2"]) await adapter.append(draft("t", id));
  await adapter.remove("t", ["i2"]);
  // More than a text can hold, less than is read of a file.
  writeSparse(join(root, "t", "numbering.json"), '{"waymark":1,"taskId":"t","lastSequence":2,', 520 * MIB);
  const steps = await collect(adapter.repair({ dryRun: true, leftoversOlderThanMs: 0 }));
  expect(steps).toMatchObject([{ action: "renumbered" }]);
});

it("a numbering that is larger than any isn't read, and is mended by repair", async () => {
  const { adapter, root } = await newJsonStore();
  for (const id of ["i1", "i2"]) await adapter.append(draft("t", id));
  await adapter.remove("t", ["i2"]);
  const path = join(root, "t", "numbering.json");
  const bytes = Buffer.concat([readFileSync(path), Buffer.alloc(MAX_NUMBERING_BYTES, " ")]);
  // All that follows is white space: read as a whole, it would be intact.
  writeFileSync(path, bytes);
  const reason = `it has ${bytes.length} bytes, and more than ${MAX_NUMBERING_BYTES} are not read`;

  await expect(adapter.append(draft("t", "i3"))).rejects.toMatchObject({
    code: "CHECKPOINT_CORRUPT",
    message: expect.stringContaining(reason),
  });
  const findings = await collect(adapter.verify({ quick: true }));
  expect(findings).toContainEqual({ kind: "numbering", location: path, taskId: "t", reason });
  const steps = await collect(adapter.repair({ dryRun: false, leftoversOlderThanMs: 0 }));
  expect(steps).toMatchObject([{ action: "renumbered", lastSequence: 2, finding: { reason } }]);
  expect(await adapter.append(draft("t", "i3"))).toBe(3);
});

describe("a first line", () => {
  it("is read up to its limit, and no further", async () => {
    const path = join(await tempFolder(), NAME);
    // No holes: these bytes could be a line's.
    writeFileSync(path, Buffer.alloc(MAX_FIRST_LINE_BYTES + 4096, "a").fill(OPENING, 0, OPENING.length));
    expect(() => readFirstLine(path, OPENING)).toThrow(/^its first line has more than the \d+ bytes that are read$/);
  });

  it("that would be longer is refused when it is to be saved", async () => {
    const { root, manager } = await populated();
    const error = await manager.save("t", 3, { label: "a".repeat(MAX_FIRST_LINE_BYTES) }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(StorageError);
    expect(String(error)).toContain(`has more than ${MAX_FIRST_LINE_BYTES} bytes`);
    expect(readdirSync(join(root, "t")).filter((name) => name.endsWith(".json"))).toHaveLength(2);
  });

  it("of some megabytes is given back as it was saved", async () => {
    const { manager } = await populated();
    const label = "ü".repeat(5_000_000);
    await manager.save("t", 3, { label });
    expect((await manager.list("t"))[0]?.label === label).toBe(true);
  });
});
