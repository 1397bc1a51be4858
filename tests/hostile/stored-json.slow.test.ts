// Text that Waymark's encoders don't write, with a valid seal and digest, which anyone who can write to the store can
// make.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointError, CheckpointManager, gzip, type StateSchema, type StorageAdapter } from "waymark";
import type { StoredCheckpoint } from "waymark/adapter";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { TaskFileAdapter } from "waymark/adapters/task-file";
import { bundled } from "../support/bundled.mjs";
import { recordingLogger } from "../support/recording-logger.js";
import { tempFolder } from "../support/temp-folder.js";
import { draft } from "../unit/adapters/files/drafts.js";

const DEEP = 100_000;
const deepArray = `${"[".repeat(DEEP)}${"]".repeat(DEEP)}`;
const deepObject = `${'{"a":'.repeat(DEEP)}1${"}".repeat(DEEP)}`;
const BODIES: Record<string, string> = {
  "arrays in arrays": deepArray,
  "objects in objects": deepObject,
  "a __proto__": '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  "a key twice": '{"a":1,"a":2}',
  "numbers beyond all": '{"huge":1e400,"low":-1e400,"zero":-0,"long":123456789012345678901234567890,"tiny":1e-400}',
  "half a pair": '{"a":"\\ud800","\\udfff":1}',
  "a long text": JSON.stringify("x".repeat(2_000_000)),
  "no JSON": "{",
  nothing: "",
};

const ADAPTERS: Record<string, (path: string) => StorageAdapter> = {
  memory: () => new MemoryAdapter(),
  "json-file": (path) => new JsonFileAdapter({ path }),
  "task-file": (path) => new TaskFileAdapter({ path }),
  sqlite: (path) => new SqliteAdapter({ path: join(path, "c.db") }),
};

describe.each(Object.entries(ADAPTERS))("%s", (_name, open) => {
  it.each(Object.entries(BODIES))("answers the state %s with harmless data or a typed error", async (_what, body) => {
    const storage = open(await tempFolder());
    await storage.append(draft("t", "c1", { body: '{"intact":true}' }));
    for (const [id, encoding] of [
      ["c2", "json"],
      ["c3", "json-tagged"],
    ] as const) {
      const one = draft("t", id, { body });
      await storage.append({ ...one, payload: { ...one.payload, encoding } });
    }
    const manager = new CheckpointManager({ storage, logger: recordingLogger() });
    const isDeep = body === deepArray || body === deepObject;
    for (const id of ["c2", "c3"]) {
      const state = await manager.restore("t", id).then((found) => found.state, typed);
      // Plain JSON is returned at any depth. JSON with tags is searched for tags, so its text must not exhaust the
      // stack.
      if (isDeep) expect(state === undefined).toBe(id === "c3");
      else if (state !== undefined) expect(typeof JSON.stringify(state)).toBe("string");
    }
    expect(await manager.list("t")).toHaveLength(3);
    if (isDeep) expect((await manager.latest("t"))?.id).toBe("c2");
    expect(Reflect.get({}, "polluted")).toBeUndefined();
    await manager.close();
  });

  it("refuses a gzip bomb as it expands", async () => {
    const storage = open(await tempFolder());
    const body = new Uint8Array(gzipSync(Buffer.alloc(64 * 1024 * 1024)));
    const one = draft("t", "c1", { body });
    await storage.append({ ...one, payload: { ...one.payload, encoding: "json+gzip" } });
    const manager = new CheckpointManager({
      storage,
      transforms: [gzip({ maxBytes: 1024 * 1024 })],
      logger: recordingLogger(),
    });
    await expect(manager.latest("t")).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    await manager.close();
  });
});

it("steps back if the schema exhausts the stack on a state", async () => {
  const storage = new MemoryAdapter();
  await storage.append(draft("t", "c1"));
  await storage.append(draft("t", "c2", { body: deepArray }));
  const validate = (value: unknown) => ({ value: JSON.parse(JSON.stringify(value)) as unknown });
  const schema: StateSchema = { "~standard": { version: 1, vendor: "tests", validate } };
  const manager = new CheckpointManager({ storage, schema, logger: recordingLogger() });
  expect((await manager.latest("t"))?.id).toBe("c1");
});

describe("metadata that nests beyond any stack", () => {
  const metadata = `{"a":${deepArray}}`;

  it("makes a json-file's record corrupt", async () => {
    const root = await tempFolder();
    mkdirSync(join(root, "t"));
    const head = `{"waymark":1,"taskId":"t","id":"c1","sequence":1,"createdAt":"2026-01-02T03:04:05.678Z","metadata":${metadata},"status":"running","stateVersion":1,"sizeBytes":2,"encoding":"json","sha256":"${sha256("{}")}","seal":"${sha256("")}",\n"state":{}}\n`;
    writeFileSync(join(root, "t", "000000000001-c1.json"), head);
    await expectCorrupt(new JsonFileAdapter({ path: root }));
  });

  it("makes a task-file's record corrupt", async () => {
    const root = await tempFolder();
    mkdirSync(join(root, "t"));
    const waymark = `{"sequence":1,"status":"running","metadata":${metadata},"stateVersion":1,"sizeBytes":2,"encoding":"json","sha256":"${sha256("{}")}","seal":"0"}`;
    const record = `{"id":"c1","taskId":"t","createdAt":"2026-01-02T03:04:05.678Z","waymark":${waymark},"state":{}}`;
    writeFileSync(join(root, "t", "checkpoints.json"), `{"version":"1.0","checkpoints":[\n${record}\n]}\n`);
    await expectCorrupt(new TaskFileAdapter({ path: root }));
  });

  it("makes a row corrupt, also in an error", async () => {
    for (const column of ["metadata", "error"]) {
      const path = join(await tempFolder(), "c.db");
      const storage = new SqliteAdapter({ path });
      await storage.append(draft("t", "c1"));
      await storage.close();
      const database = new Database(path);
      const text = column === "metadata" ? metadata : `{"message":"m","cause":${deepArray}}`;
      database.prepare(`UPDATE waymark_checkpoints SET ${column} = ?`).run(text);
      database.close();
      await expectCorrupt(new SqliteAdapter({ path }));
    }
  });

  it("makes the manager step back if another program's adapter returns it", async () => {
    const storage = new MemoryAdapter();
    await storage.append(draft("t", "c1"));
    const read = storage.read.bind(storage);
    storage.read = async function* (query) {
      for await (const record of read(query)) {
        yield { ...record, id: "c2", metadata: JSON.parse(metadata) } as StoredCheckpoint;
        yield record;
      }
    };
    const manager = new CheckpointManager({ storage, logger: recordingLogger() });
    expect((await manager.latest("t"))?.id).toBe("c1");
  });

  async function expectCorrupt(storage: StorageAdapter) {
    const manager = new CheckpointManager({ storage, logger: recordingLogger() });
    for (const call of [() => manager.latest("t"), () => manager.list("t"), () => manager.restore("t", "c1")]) {
      await expect(call()).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
    }
    await manager.close();
  }
});

describe("a file that isn't text", () => {
  it.each([
    ["is not UTF-8", Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
    ["begins with a byte order mark", Buffer.from("\ufeff{}")],
    ["contains nothing but a NUL", Buffer.of(0)],
  ])("is corrupt if it %s", async (_what, bytes) => {
    for (const [name, open] of [
      ["000000000001-c1.json", ADAPTERS["json-file"]],
      ["checkpoints.json", ADAPTERS["task-file"]],
    ] as const) {
      const root = await tempFolder();
      mkdirSync(join(root, "t"));
      writeFileSync(join(root, "t", name), bytes);
      const manager = new CheckpointManager({ storage: open!(root), logger: recordingLogger() });
      await expect(manager.latest("t")).rejects.toBeInstanceOf(CheckpointError);
      await manager.close();
    }
  });

  it("isn't read if it is larger than any record, even if it is one large hole", async () => {
    for (const [name, open] of [
      ["000000000001-c1.json", ADAPTERS["json-file"]],
      ["checkpoints.json", ADAPTERS["task-file"]],
    ] as const) {
      const root = await tempFolder();
      mkdirSync(join(root, "t"));
      const path = join(root, "t", name);
      writeFileSync(path, '{"waymark":1,\n');
      truncateSync(path, 8 * 1024 ** 3);
      const manager = new CheckpointManager({ storage: open!(root), logger: recordingLogger() });
      await expect(manager.latest("t")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPT" });
      await manager.close();
    }
  });
});

it("takes little memory for a bomb of 10 GB, and for tags in 100,000 levels: a heap of 64 MB is enough", async () => {
  const folder = await tempFolder();
  const bomb = join(folder, "bomb.gz");
  // The gzip file has ten thousand members of one megabyte of zeros.
  const member = gzipSync(Buffer.alloc(1024 * 1024), { level: 9 });
  writeFileSync(bomb, Buffer.concat(Array.from({ length: 10_240 }, () => member)));
  const program = `
    import { readFileSync } from "node:fs";
    import { gzip } from "waymark";
    import { decodeJson } from ${JSON.stringify(await bundled("src/codec/json.ts"))};
    const context = { taskId: "t", id: "c", stateVersion: 1 };
    const codes = [];
    await gzip().decode(readFileSync(${JSON.stringify(bomb)}), context).catch(({ code }) => codes.push(code));
    try { decodeJson("json-tagged", "[".repeat(${DEEP}) + "]".repeat(${DEEP}), context); } catch ({ code }) { codes.push(code); }
    console.log(codes.join(" "), process.resourceUsage().maxRSS < 1024 * 1024);
  `;
  const args = ["--max-old-space-size=64", "--input-type=module", "-e", program];
  const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(stdout).toBe("PAYLOAD_TOO_LARGE CHECKPOINT_CORRUPT true\n");
});

/** Checks that the error is typed. Returns `undefined`. */
function typed(error: unknown): undefined {
  expect(error).toBeInstanceOf(CheckpointError);
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
