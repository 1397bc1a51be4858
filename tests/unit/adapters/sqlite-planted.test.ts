// A database that somebody else had in hand: what they may leave in it that works on what is saved later.
import { linkSync, readFileSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager, UnsupportedFormatError } from "waymark";
import { draft } from "../../../src/conformance/drafts.js";
import { collect, connect, listed, newStore, openAdapter } from "./sqlite-support.js";

/** A closed store with a checkpoint, in which that SQL was run. */
async function storeWith(...statements: string[]): Promise<string> {
  const { adapter, path } = await newStore();
  await adapter.append(draft("t", "c1"));
  await adapter.close();
  const database = new Database(path);
  for (const sql of statements) database.exec(sql);
  database.close();
  return path;
}

/** As SQLite wouldn't let anybody change a table; whoever writes the file's bytes needs nobody's leave. */
function redefine(table: string, from: string, to: string): string[] {
  const bump = "PRAGMA schema_version = 1000";
  return [
    "PRAGMA writable_schema = ON",
    `UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}') WHERE name = '${table}'`,
    bump,
  ];
}

function alter(path: string, ...statements: string[]): void {
  const database = new Database(path);
  database.unsafeMode();
  for (const sql of statements) database.exec(sql);
  database.close();
}

const QUARANTINE =
  "CREATE TABLE waymark_quarantine (quarantined_at TEXT NOT NULL, reason TEXT NOT NULL, number, task_id, sequence, id, " +
  "created_at, stage, label, parent_id, metadata, status, error, state_version, size_bytes, encoding, sha256, seal, body)";
const IGNORING = QUARANTINE.replace("reason TEXT NOT NULL", "reason TEXT UNIQUE ON CONFLICT IGNORE");
const BY_ID = "waymark_checkpoints_by_id";
const TRIGGER = `CREATE TRIGGER "their own" AFTER INSERT ON WAYMARK_checkpoints BEGIN DELETE FROM waymark_checkpoints; END`;

describe("tables of ours that would do more than they are told to", () => {
  it.each<[string, string[], RegExp]>([
    ["a trigger", [TRIGGER], /has the trigger "their own" on waymark_checkpoints\..*DROP TRIGGER "their own";$/],
    [
      "a trigger whose name goes on as a statement",
      [TRIGGER.replace("their own", 'x""; DROP TABLE waymark_payloads; --')],
      /DROP TRIGGER "x""; DROP TABLE waymark_payloads; --";$/,
    ],
    [
      "a trigger on the quarantine",
      [QUARANTINE, "CREATE TRIGGER x BEFORE INSERT ON waymark_quarantine BEGIN SELECT RAISE(IGNORE); END"],
      /has the trigger "x" on waymark_quarantine/,
    ],
    [
      "a view in a table's place",
      ["ALTER TABLE waymark_tasks RENAME TO kept", "CREATE VIEW waymark_tasks AS SELECT * FROM kept"],
      /has a view "waymark_tasks" that isn't as Waymark makes it.*put back a backup/,
    ],
    [
      "a definition that replaces other rows",
      redefine("waymark_tasks", "PRIMARY KEY", "PRIMARY KEY ON CONFLICT REPLACE"),
      /has a table "waymark_tasks" that isn't as Waymark makes it/,
    ],
    [
      "a definition that hides a column in what looks like a comment",
      redefine(
        "waymark_tasks",
        "task_id TEXT",
        `"task_id--" TEXT UNIQUE ON CONFLICT REPLACE DEFAULT 1, task_id\n TEXT`,
      ),
      /has a table "waymark_tasks" that isn't as Waymark makes it/,
    ],
    [
      "an index that lets an id in twice",
      [`DROP INDEX ${BY_ID}`, `CREATE INDEX ${BY_ID} ON waymark_checkpoints (task_id, id)`],
      /has an index "waymark_checkpoints_by_id" that isn't as.*DROP INDEX "waymark_checkpoints_by_id"; CREATE UNIQUE/,
    ],
  ])("are refused before anything is read or written, and named: %s", async (_what, statements, message) => {
    const path = await storeWith();
    alter(path, ...statements);
    const before = readFileSync(path);
    const adapter = openAdapter({ path });
    for (const call of [() => listed(adapter), () => adapter.append(draft("t", "c2"))]) {
      await expect(call()).rejects.toThrow(UnsupportedFormatError);
      await expect(call()).rejects.toThrow(message);
    }
    const manager = new CheckpointManager({ storage: adapter });
    const reason = expect.stringMatching(message);
    expect((await manager.verify({ quick: true })).findings).toEqual([{ kind: "refused", location: path, reason }]);
    expect((await manager.repair()).steps).toMatchObject([{ action: "left", finding: { reason } }]);
    await adapter.close();
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it.each(["waymark_checkpoints_by_sequence", BY_ID])(
    "are read and written only with both indexes; the refusal without %s has what makes it anew",
    async (index) => {
      const path = await storeWith(`DROP INDEX ${index}`);
      const adapter = openAdapter({ path });
      const before = readFileSync(path);
      const refused: unknown = await listed(adapter).catch((error: unknown) => error);
      expect(refused).toMatchObject({
        code: "CHECKPOINT_CORRUPT",
        message: expect.stringContaining(`lacks the index ${index}:`),
      });
      const reason = (refused as Error).message;
      await expect(adapter.append(draft("t", "c2"))).rejects.toThrow(reason);
      expect(await collect(adapter.verify({ quick: true }))).toEqual([{ kind: "database", location: path, reason }]);
      expect(readFileSync(path).equals(before)).toBe(true);
      alter(path, /CREATE UNIQUE INDEX .*;$/.exec(reason)?.[0] ?? "");
      expect(await adapter.append(draft("t", "c2"))).toBe(2);
    },
  );

  it("are found by verify, and written to by no repair, also where the store is open already", async () => {
    const path = await storeWith();
    const adapter = openAdapter({ path });
    expect(await listed(adapter)).toEqual(["c1"]);
    connect(path).exec(TRIGGER);
    const manager = new CheckpointManager({ storage: adapter });
    const reason = expect.stringContaining('the trigger "their own"');
    expect((await manager.verify()).findings).toEqual([{ kind: "refused", location: path, reason }]);
    expect((await manager.repair()).steps).toMatchObject([{ action: "left", finding: { kind: "refused" } }]);
  });

  it("are not there where somebody has tables, views, triggers and indexes of their own in the database", async () => {
    const path = await storeWith(
      "CREATE TABLE theirs (a)",
      "CREATE TRIGGER counted AFTER INSERT ON theirs BEGIN DELETE FROM theirs WHERE a < new.a; END",
      "CREATE VIEW newest AS SELECT task_id, max(sequence) FROM waymark_checkpoints GROUP BY task_id",
      "CREATE INDEX by_stage ON waymark_checkpoints (stage)",
    );
    const adapter = openAdapter({ path });
    expect(await adapter.append(draft("t", "c2"))).toBe(2);
    expect(await listed(adapter)).toEqual(["c2", "c1"]);
    expect(await collect(adapter.verify({ quick: false }))).toMatchObject([{ kind: "checked" }, { kind: "checked" }]);
  });

  it("are not changed by a foreign key of somebody else's table, nor held by one", async () => {
    const path = await storeWith(
      "CREATE TABLE notes (n INTEGER REFERENCES waymark_checkpoints (number) ON DELETE CASCADE)",
      "INSERT INTO notes SELECT number FROM waymark_checkpoints",
      "CREATE TRIGGER planted AFTER DELETE ON notes BEGIN DELETE FROM waymark_checkpoints; END",
      "CREATE TABLE holding (n INTEGER REFERENCES waymark_checkpoints (number))",
      "INSERT INTO holding SELECT number FROM waymark_checkpoints",
    );
    const adapter = openAdapter({ path });
    for (const id of ["c2", "c3"]) await adapter.append(draft("t", id));
    expect(await adapter.remove("t", ["c1"])).toBe(1);
    expect(await listed(adapter)).toEqual(["c3", "c2"]);
  });

  it("call no function that the program has given SQLite, where the file tells them to", async () => {
    const called: unknown[] = [];
    const remember = (value: unknown) => called.push(value);
    class Acting extends Database {
      constructor(path?: string | Buffer, options?: Database.Options) {
        super(path, options);
        this.function("act", { deterministic: true }, remember);
      }
    }
    const path = await storeWith();
    connect(path)
      .function("act", { deterministic: true }, (_stage: unknown) => 1)
      .exec("CREATE INDEX planted ON waymark_checkpoints (act(stage))");
    const adapter = openAdapter({ path, database: Acting });
    await expect(adapter.append(draft("t", "c2"))).rejects.toThrow(/unsafe use of act\(\).*Nothing was changed/);
    expect(called).toEqual([]);
  });

  it("are ours still where a tool has copied them with other spaces, quotes and capitals", async () => {
    // The quarantine's definition may never change: databases have it as it is here.
    const path = await storeWith(QUARANTINE);
    alter(path, ...redefine("waymark_tasks", "task_id TEXT", '"task_id"   text'));
    expect(await listed(openAdapter({ path }))).toEqual(["c1"]);
  });
});

describe("a quarantine that ignores what is put into it", () => {
  const DAMAGE = [
    "INSERT INTO waymark_payloads VALUES (7, 'stray'), (8, 'stray')",
    "UPDATE waymark_checkpoints SET label = 'damaged'",
  ];
  const rowsOf = (path: string) =>
    connect(path)
      .prepare("SELECT number FROM waymark_checkpoints UNION ALL SELECT number FROM waymark_payloads")
      .pluck()
      .all();

  it("is refused, and repair goes on as soon as it has another name", async () => {
    const path = await storeWith(IGNORING, ...DAMAGE);
    const manager = () => new CheckpointManager({ storage: openAdapter({ path }) });
    const { findings } = await manager().verify();
    expect(findings).toMatchObject([{ kind: "refused", location: path }]);
    expect((await manager().repair()).steps).toMatchObject([{ action: "left" }]);
    expect(rowsOf(path)).toEqual([1, 1, 7, 8]);
    const mend = /has a table "waymark_quarantine" that isn't as .*: (ALTER TABLE .*;)$/.exec(
      findings[0]?.reason ?? "",
    );
    alter(path, mend?.[1] ?? "");
    expect((await manager().repair()).steps.map(({ action }) => action)).toEqual([
      "quarantined",
      "quarantined",
      "quarantined",
    ]);
    expect(rowsOf(path)).toEqual([]);
  });

  it.each<[string, string, number[]]>([
    ["checkpoint", "UPDATE waymark_checkpoints SET label = 'damaged'", [2, 2]],
    ["payload", "INSERT INTO waymark_payloads VALUES (7, 'stray'), (8, 'stray')", [1, 2, 1, 2, 8]],
  ])("loses no %s where it took the place of ours in the middle of a repair", async (_what, damage, left) => {
    const path = await storeWith();
    const adapter = openAdapter({ path });
    await adapter.append(draft("t", "c2"));
    connect(path).exec(damage);
    const steps = adapter.repair({ leftoversOlderThanMs: 0, dryRun: false });
    expect(await steps.next()).toMatchObject({ value: { action: "quarantined" } });
    connect(path).exec(
      `ALTER TABLE waymark_quarantine RENAME TO kept; ${IGNORING}; INSERT INTO waymark_quarantine SELECT * FROM kept`,
    );
    const reason = expect.stringMatching(/doesn't keep what is put into it.*nothing was removed/);
    expect(await collect(steps)).toMatchObject([{ action: "left", finding: { kind: "refused", reason } }]);
    expect(rowsOf(path)).toEqual(left);
  });
});

it.each(["-wal", "-shm", "-journal"])(
  "a %s with a second name is refused, since SQLite would write to both",
  async (suffix) => {
    const path = await storeWith();
    const elsewhere = `${path}-elsewhere`;
    writeFileSync(elsewhere, "");
    linkSync(elsewhere, `${path}${suffix}`);
    const adapter = openAdapter({ path });
    for (const call of [() => listed(adapter), () => adapter.append(draft("t", "c2"))]) {
      await expect(call()).rejects.toMatchObject({
        code: "STORAGE_FAILED",
        message: expect.stringMatching(/has a second name.*was not opened, and nothing was changed\. Put a copy/),
      });
    }
    expect(readFileSync(elsewhere, "utf8")).toBe("");
  },
);
