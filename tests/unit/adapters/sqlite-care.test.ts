// verify and repair of SQLite, where opening the database at all would change it, or where its tables aren't as made.
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { CheckpointManager } from "waymark";
import { openStorage } from "waymark/adapters";
import { tempFolder } from "../../support/temp-folder.js";
import { treeOf } from "../../support/tree.js";

const LOG_HEADER_BYTES = 32;

/** A database as a killed program leaves it: with what was committed still in its log. `before` is done to it first. */
async function killed(before = (_path: string): void => {}) {
  const folder = await tempFolder();
  const path = join(folder, "x.db");
  const made = await openAt(join(folder, "made.db"));
  for (const n of [1, 2, 3]) await made.save("t", { n });
  before(join(folder, "made.db"));
  for (const suffix of ["", "-wal"]) copyFileSync(join(folder, `made.db${suffix}`), `${path}${suffix}`);
  await made.close();
  return { folder, path, log: readFileSync(`${path}-wal`) };
}

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

async function openAt(path: string): Promise<CheckpointManager> {
  const manager = new CheckpointManager({ storage: await openStorage(`sqlite:${path}`), logger: SILENT });
  onTestFinished(() => manager.close());
  return manager;
}

/** A log's header as SQLite would take it, with that page size. */
function withPageSize(log: Buffer, pageBytes: number): Buffer {
  const header = Buffer.from(log.subarray(0, LOG_HEADER_BYTES));
  header.writeUInt32BE(pageBytes, 8);
  let [a, b] = [0, 0];
  for (let at = 0; at < 24; at += 8) {
    a = (a + b + header.readUInt32LE(at)) >>> 0;
    b = (b + a + header.readUInt32LE(at + 4)) >>> 0;
  }
  header.writeUInt32BE(a, 24);
  header.writeUInt32BE(b, 28);
  return header;
}

describe("a damaged log that nobody has open", () => {
  it.each(["x.db", "link.db"])("is left as it is by verify and repair, in %s, and found by each", async (name) => {
    const { folder, path, log } = await killed();
    symlinkSync(path, join(folder, "link.db"));
    log[LOG_HEADER_BYTES + 24 + 10] = 0xff;
    writeFileSync(`${path}-wal`, log);
    const before = treeOf(folder);
    for (const look of [
      async (manager: CheckpointManager) => (await manager.verify()).findings,
      async (manager: CheckpointManager) => (await manager.verify({ quick: true })).findings,
      async (manager: CheckpointManager) =>
        (await manager.repair({ dryRun: true })).steps.map(({ finding }) => finding),
      async (manager: CheckpointManager) => (await manager.repair()).steps.map(({ finding }) => finding),
    ]) {
      const manager = await openAt(join(folder, name));
      const reason = expect.stringMatching(/^frame 1 of the log is damaged.*which would delete the log$/);
      expect(await look(manager)).toEqual([{ kind: "database", location: `${path}-wal`, reason }]);
      await manager.close();
      expect(treeOf(folder)).toEqual(before);
    }
    const [step] = (await (await openAt(path)).repair()).steps;
    expect(step).toMatchObject({ action: "left", advice: expect.stringContaining("Copy the file and its -wal") });
  });

  it.each<[string, number, RegExp]>([
    ["a frame's salt, of which no checksum tells", LOG_HEADER_BYTES + 8, /^frame 1 of the log is damaged/],
    ["the header's own checksum, on which no frame depends", 24, /^the log's header is damaged/],
  ])("is found where it is %s", async (_what, at, reason) => {
    const { path, log } = await killed();
    log.writeUInt8(log.readUInt8(at) ^ 0x01, at);
    writeFileSync(`${path}-wal`, log);
    const { findings } = await (await openAt(path)).verify();
    expect(findings).toEqual([{ kind: "database", location: `${path}-wal`, reason: expect.stringMatching(reason) }]);
  });

  it.each([0, 511, 131_072, 0xffff_ffff])(
    "is found also where its pages would have %i bytes, and a hole after it",
    async (size) => {
      const { path, log } = await killed();
      writeFileSync(`${path}-wal`, withPageSize(log, size));
      truncateSync(`${path}-wal`, 4 * 1024 ** 3);
      const { findings } = await (await openAt(path)).verify();
      expect(findings).toMatchObject([
        { kind: "database", reason: expect.stringContaining("the log's header is damaged") },
      ]);
    },
  );
});

it("a log that was begun anew is whole, though committed frames of the former one follow", async () => {
  const { path } = await killed((made) => {
    const database = new Database(made);
    database.pragma("wal_checkpoint(RESTART)");
    database.exec("UPDATE waymark_tasks SET given_sequence = 3");
    database.close();
  });
  const manager = await openAt(path);
  expect((await manager.verify()).findings).toEqual([]);
  expect((await manager.save("t", {})).sequence).toBe(4);
});

it.skipIf(process.platform === "win32")(
  "a pipe in the log's place is refused by verify and repair, and waited for by neither (skipped on Windows: no pipes)",
  async () => {
    const { path } = await killed();
    rmSync(`${path}-wal`);
    execFileSync("sh", ["-c", 'mkfifo "$0"', `${path}-wal`]);
    const manager = await openAt(path);
    for (const call of [() => manager.verify(), () => manager.repair()]) {
      await expect(call()).rejects.toMatchObject({
        code: "STORAGE_FAILED",
        message: expect.stringContaining("is not a file"),
      });
    }
  },
);

it.each([
  ["an index", "DROP INDEX waymark_checkpoints_by_sequence"],
  ["an index that verify doesn't read by", "DROP INDEX waymark_checkpoints_by_id"],
  ["a table", "DROP TABLE waymark_payloads"],
])("%s that is missing is a finding, and repair leaves the database", async (_what, statement) => {
  const path = join(await tempFolder(), "x.db");
  const manager = await openAt(path);
  await manager.save("t", { n: 1 });
  await manager.close();
  const database = new Database(path);
  database.exec(statement);
  database.close();
  const again = await openAt(path);
  const { findings } = await again.verify();
  expect(findings.at(-1)).toMatchObject({
    kind: "database",
    location: path,
    reason: expect.stringContaining("lacks the"),
  });
  const { steps } = await again.repair();
  expect(steps.map(({ action }) => action)).toEqual(findings.map(() => "left"));
});

it("what is left over stays an hour unless repair is told otherwise", async () => {
  const path = join(await tempFolder(), "x.db");
  const manager = await openAt(path);
  await manager.save("t", { n: 1 });
  const draft = `${path}.new-123-0123456789ab`;
  writeFileSync(draft, "");
  const agedTo = (minutes: number) => utimesSync(draft, new Date(), new Date(Date.now() - minutes * 60_000));
  agedTo(59);
  expect((await manager.repair()).steps).toMatchObject([{ action: "left" }]);
  agedTo(61);
  expect((await manager.repair()).steps).toMatchObject([{ action: "removed" }]);
});

describe.skipIf(process.platform === "win32")(
  "what is no file, but has the name of a leftover (skipped on Windows: links),",
  () => {
    it.each<[string, (place: string) => void]>([
      ["a folder", (place) => mkdirSync(place)],
      ["a link to itself", (place) => symlinkSync(place, place)],
      ["a link to a file of somebody's", (place) => symlinkSync(`${dirname(place)}/theirs`, place)],
      ["a link to nothing", (place) => symlinkSync("nowhere", place)],
    ])("is neither followed nor removed, and holds up no repair: %s", async (_what, make) => {
      const folder = await tempFolder();
      const path = join(folder, "x.db");
      const manager = await openAt(path);
      for (const n of [1, 2]) await manager.save("t", { n });
      const database = new Database(path);
      database.exec("UPDATE waymark_checkpoints SET label = 'damaged' WHERE sequence = 1");
      database.close();
      writeFileSync(join(folder, "theirs"), "");
      make(`${path}.new-1-aaaaaaaaaaaa`);
      for (const name of ["theirs", "x.db.new-1-aaaaaaaaaaaa"]) lutimesSync(join(folder, name), 1, 1);
      const entries = readdirSync(folder);
      expect((await manager.verify()).findings).toMatchObject([{ kind: "record" }]);
      expect((await manager.repair({ dryRun: true })).steps).toMatchObject([{ action: "quarantined" }]);
      expect((await manager.repair({ leftoversOlderThanMs: 0 })).steps).toMatchObject([{ action: "quarantined" }]);
      expect(readdirSync(folder)).toEqual(entries);
    });
  },
);

it("repair ends between two steps at a signal, and another one goes on", async () => {
  const path = join(await tempFolder(), "x.db");
  const manager = await openAt(path);
  for (const n of [1, 2, 3]) await manager.save("t", { n });
  const database = new Database(path);
  database.exec("UPDATE waymark_checkpoints SET created_at = '2020-01-01T00:00:00.000Z'");
  database.close();
  const stop = new AbortController();
  const stopped = manager.repair({ signal: stop.signal, onProgress: () => stop.abort(new Error("enough")) });
  await expect(stopped).rejects.toThrow("enough");
  expect((await manager.repair()).steps).toHaveLength(2);
  const wrong = "soon" as unknown as AbortSignal;
  for (const call of [() => manager.verify({ signal: wrong }), () => manager.repair({ signal: wrong })]) {
    await expect(call()).rejects.toThrow(/signal must be an AbortSignal, not string/);
  }
});
