// What somebody who can write the store may put there so that it takes all memory: each is looked at by a process of its own,
// which has little, and would end without an answer.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { tempFolder } from "../support/temp-folder.js";
import { draft } from "../unit/adapters/files/drafts.js";

const MIB = 1024 ** 2;
const HEAP_MIB = 200;
const HEAD = '{"version":"1.0","checkpoints":[';

interface Answer {
  /** What came of it, call by call; an error's code where it was refused. */
  readonly answers: Record<string, unknown>;
  readonly peakMib: number;
}

/** What a process with a small heap gets of the store, by calls of a manager there. */
function ask(adapter: "JsonFileAdapter" | "TaskFileAdapter", path: string, calls: Record<string, string>): Answer {
  const program = `
    import { CheckpointManager, gzip } from "waymark";
    import { JsonFileAdapter } from "waymark/adapters/json-file";
    import { TaskFileAdapter } from "waymark/adapters/task-file";
    const silent = () => {};
    const logger = { trace: silent, debug: silent, info: silent, warn: silent, error: silent };
    const storage = new ${adapter}({ path: ${JSON.stringify(path)} });
    const manager = new CheckpointManager({ storage, transforms: [gzip()], logger });
    const calls = {
      ${Object.entries(calls)
        .map(([name, call]) => `${JSON.stringify(name)}: async () => ${call},`)
        .join("\n")}
    };
    const answers = {};
    for (const [name, call] of Object.entries(calls)) answers[name] = await call().catch(({ code }) => code);
    await manager.close();
    console.log(JSON.stringify({ answers, peakMib: process.resourceUsage().maxRSS / 1024 }));
  `;
  const args = [`--max-old-space-size=${HEAP_MIB}`, "--input-type=module", "-e", program];
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect([status, signal], stderr.slice(0, 300)).toEqual([0, null]);
  return JSON.parse(stdout);
}

const SAVE = '(await manager.save("t", 1)).sequence';
const LOOK = {
  latest: '(await manager.latest("t")).id',
  tasks: "(await manager.tasks()).length",
  verify: '(await manager.verify()).findings.map(({ kind, reason }) => kind + ": " + reason)',
};

describe("a planted checkpoints.json", () => {
  const NOT_OURS = "its first line is damaged, or it is not a checkpoint file";
  const TOO_MANY = "more than 10000 of its lines or records can't be read";

  it.each<[string, () => Buffer, string]>([
    ["64 MB of line feeds", () => Buffer.alloc(64 * MIB, "\n"), NOT_OURS],
    ["16 MB of carriage returns and line feeds", () => Buffer.alloc(16 * MIB, "\r\n"), NOT_OURS],
    ["16 MB of opened objects", () => Buffer.alloc(16 * MIB, "{\n"), TOO_MANY],
    ["32 MB of lines of one letter", () => Buffer.alloc(32 * MIB, "x\n"), TOO_MANY],
    ["16 MB of lines that are no text", () => Buffer.alloc(16 * MIB, Buffer.of(0xff, 0x0a)), TOO_MANY],
    ["60 MB of empty records", () => Buffer.from(`${HEAD}${"{},".repeat(20 * MIB)}{}]}`), NOT_OURS],
    ["6 MB of empty records", () => Buffer.from(`${HEAD}${"{},".repeat(MIB)}{}]}`), TOO_MANY],
    ["64 MB of opened arrays", () => Buffer.alloc(64 * MIB, "["), NOT_OURS],
  ])("of %s is one damaged file, and repair keeps all of it", async (_what, make, reason) => {
    const path = await tempFolder();
    const file = join(path, "t", "checkpoints.json");
    const bytes = make();
    mkdirSync(join(path, "t"));
    writeFileSync(file, bytes);

    const { answers, peakMib } = ask("TaskFileAdapter", path, {
      latest: LOOK.latest,
      save: SAVE,
      repair: "(await manager.repair()).steps.map(({ action, finding }) => [action, finding.reason])",
      saveAgain: SAVE,
      verify: LOOK.verify,
    });
    expect(answers).toEqual({
      latest: "CHECKPOINT_CORRUPT",
      save: "CHECKPOINT_CORRUPT",
      repair: [["quarantined", reason]],
      saveAgain: 1_000_001,
      verify: [],
    });
    expect(peakMib).toBeLessThan(4 * (bytes.length / MIB) + 300);
    expect(readFileSync(join(path, ".quarantine", "t", "checkpoints.json")).equals(bytes)).toBe(true);
  });

  it("that begins like ours keeps its numbering, be all that follows junk", async () => {
    const path = await tempFolder();
    const storage = new TaskFileAdapter({ path });
    for (const id of ["c1", "c2", "c3"]) await storage.append(draft("t", id));
    await storage.close();
    const file = join(path, "t", "checkpoints.json");
    writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.alloc(16 * MIB, "x\n")]));

    const { answers } = ask("TaskFileAdapter", path, {
      ...LOOK,
      repair: "(await manager.repair()).steps.map(({ action }) => action)",
      save: SAVE,
    });
    expect(answers).toEqual({
      latest: "CHECKPOINT_CORRUPT",
      tasks: "CHECKPOINT_CORRUPT",
      verify: [`record: ${TOO_MANY}`],
      repair: ["quarantined"],
      save: 4,
    });
  });

  it("of very many records of another program is damaged, instead of adopted", async () => {
    const path = await tempFolder();
    mkdirSync(join(path, "t"));
    const record = '{"id":"a","taskId":"t","createdAt":"2026","state":1},\n';
    writeFileSync(join(path, "t", "checkpoints.json"), `${HEAD}\n${record.repeat(400_000)}]}\n`);
    const reason = "record: more than 100000 of its records are another program's";
    expect(ask("TaskFileAdapter", path, LOOK).answers).toMatchObject({
      latest: "CHECKPOINT_CORRUPT",
      verify: [reason],
    });
  });

  it("of records of another program that hold very many values is damaged, instead of adopted", async () => {
    const path = await tempFolder();
    mkdirSync(join(path, "t"));
    const record = `{"id":"a","taskId":"t","createdAt":"2026","state":[${"[],".repeat(100_000)}0]},\n`;
    writeFileSync(join(path, "t", "checkpoints.json"), `${HEAD}\n${record.repeat(100)}]}\n`);
    const reason = "record: what other programs wrote there holds more than 4194304 values";
    expect(ask("TaskFileAdapter", path, LOOK).answers).toMatchObject({
      latest: "CHECKPOINT_CORRUPT",
      verify: [reason],
    });
  });
});

describe("a planted json-file record", () => {
  async function populated() {
    const path = await tempFolder();
    const storage = new JsonFileAdapter({ path });
    await storage.append(draft("t", "c1"));
    return { path, storage };
  }

  it.each([
    ["nests without end", "["],
    ["holds nothing but arrays", "[],"],
  ])("whose first line %s is stepped over", async (_what, text) => {
    const { path, storage } = await populated();
    await storage.close();
    const start = '{"waymark":1,"x":[';
    const line = Buffer.alloc(60 * MIB, text);
    writeFileSync(
      join(path, "t", "000000000002-c2.json"),
      Buffer.concat([Buffer.from(start), line, Buffer.from("0],\n")]),
    );
    const { answers, peakMib } = ask("JsonFileAdapter", path, { ...LOOK, save: SAVE });
    expect(answers).toMatchObject({ latest: "c1", tasks: 1, save: 3 });
    expect(peakMib).toBeLessThan(700);
  });

  it("whose 64 KB of gzip hold a state that nests without end is stepped over", async () => {
    const { path, storage } = await populated();
    const one = draft("t", "c2", { body: gzipSync(Buffer.alloc(64 * MIB, "[")) });
    await storage.append({ ...one, payload: { ...one.payload, encoding: "json+gzip" } });
    await storage.close();
    const { answers, peakMib } = ask("JsonFileAdapter", path, { latest: LOOK.latest });
    expect(answers).toEqual({ latest: "c1" });
    expect(peakMib).toBeLessThan(500);
  });
});
