import { describe, expect, it } from "vitest";
import { PostgresAdapter, type PostgresQuery } from "waymark/adapters/postgres";
import { draft } from "../../../../conformance/drafts.js";
import {
  administer,
  collect,
  newPool,
  newSchema,
  newStore,
  openAdapter,
  spyingPool,
} from "../../../support/postgres.js";

const TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";

describe("a connection", () => {
  it("that the server ends while eight writers save loses nothing and stores nothing twice", async () => {
    const { url, schema } = await newSchema();
    const own = new URL(url);
    own.searchParams.set("application_name", schema);
    const adapters = Array.from({ length: 8 }, () => openAdapter({ url: own.href, schema, retryForMs: 60_000 }));
    let ended = 0;
    const writing = adapters.map(async (adapter, writer) => {
      const own: string[] = [];
      for (let number = 0; number < 40; number++) {
        const sequence = await adapter.append(draft(`task-${writer % 4}`, `w${writer}-${number}`));
        own.push(`task-${writer % 4} ${sequence}`);
        // The other writers may be at any point of their saves.
        if (writer === 0) ended += (await administer(url, TERMINATE, [schema])).length;
      }
      return own;
    });
    const acknowledged = (await Promise.all(writing)).flat();
    expect(ended).toBeGreaterThan(10);
    expect(new Set(acknowledged).size).toBe(320);
    const [reader] = adapters;
    const stored: string[] = [];
    for (const taskId of ["task-0", "task-1", "task-2", "task-3"]) {
      for (const { sequence = 0 } of await collect(reader!.list({ taskId, order: "oldest" }))) {
        stored.push(`${taskId} ${sequence}`);
      }
    }
    expect(stored.sort()).toEqual(acknowledged.sort());
    process.stdout.write(`postgres: ${ended} connections ended, ${acknowledged.length} saves acknowledged, 0 lost\n`);
  });

  it("that breaks while it is idle is replaced, and no error is unhandled", async () => {
    const { url, schema } = await newSchema();
    const pool = newPool(url, { application_name: schema, max: 2 });
    const adapter = openAdapter({ pool, schema });
    await adapter.append(draft("t", "c1"));
    const gone = new Promise((resolve) => pool.once("remove", resolve));
    await administer(url, TERMINATE, [schema]);
    await gone;
    expect(await adapter.append(draft("t", "c2"))).toBe(2);
    expect(await adapter.setStatus("t", "c2", { status: "completed" })).toBe(true);
  });

  it.each(["57P01", "40001", "40P01", "53300", "25006", "ECONNRESET"])(
    "that fails with %s before anything is committed is tried again",
    async (code) => {
      const { url, schema } = await newSchema();
      let failures = 3;
      const fail = () => {
        if (failures-- > 0) throw Object.assign(new Error("failed in passing"), { code });
      };
      const adapter = openAdapter({ pool: spyingPool(newPool(url), { before: fail }), schema });
      expect(await adapter.append(draft("t", "c1"))).toBe(1);
      failures = 3;
      expect(await adapter.setStatus("t", "c1", { status: "paused" })).toBe(true);
      expect(await adapter.get("t", "c1")).toMatchObject({ status: "paused" });
    },
  );

  it.each([
    ["XX000", "tuple concurrently updated", "STORAGE_FAILED", /PostgreSQL failed on/],
    ["26000", 'prepared statement "waymark_1" does not exist', "STORAGE_FAILED", /set `prepare: false`/],
    ["42P05", 'prepared statement "waymark_1" already exists', "STORAGE_FAILED", /set `prepare: false`/],
    ["XX001", "invalid page in block 0", "CHECKPOINT_CORRUPT", /is damaged/],
    [
      "",
      "SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string",
      "STORAGE_FAILED",
      /refuses the connection/,
    ],
    ["", "The server does not support SSL connections", "STORAGE_FAILED", /refuses the connection/],
  ])("that fails with %s %j throws an error at once, which says why", async (code, message, ours, said) => {
    const { url, schema } = await newSchema();
    const fail = () => {
      throw Object.assign(new Error(message), code === "" ? {} : { code });
    };
    const adapter = openAdapter({ pool: spyingPool(newPool(url), { before: fail }), schema });
    const error = await adapter.append(draft("t", "c1")).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: ours, message: expect.stringMatching(said) });
  });

  it("that keeps failing throws a retryable error", async () => {
    const { url, schema } = await newSchema();
    const fail = () => {
      throw Object.assign(new Error("sorry, too many clients already"), { code: "53300" });
    };
    const adapter = openAdapter({ pool: spyingPool(newPool(url), { before: fail }), schema, retryForMs: 50 });
    const failure = adapter.append(draft("t", "c1"));
    await expect(failure).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    await expect(failure).rejects.toThrow(/too many clients/);
  });

  it("that breaks after the server has stored a save still returns the sequence", async () => {
    const { url, schema } = await newSchema();
    const pool = spyingPool(newPool(url), { after: breakOnce(/^\s*WITH\s+advanced/) });
    const adapter = openAdapter({ pool, schema });
    expect(await adapter.append(draft("t", "c1"), { expectedSequence: 0 })).toBe(1);
    expect(await collect(adapter.list({ taskId: "t", order: "newest" }))).toHaveLength(1);
    expect(await adapter.append(draft("t", "c2"))).toBe(2);
  });

  it("that breaks at the COMMIT of a change throws an error that says the outcome is unknown", async () => {
    const { url, schema } = await newSchema();
    await openAdapter({ url, schema }).append(draft("t", "c1"));
    const pool = spyingPool(newPool(url), { after: breakOnce(/^COMMIT/) });
    const changing = openAdapter({ pool, schema }).setStatus("t", "c1", { status: "paused" });
    await expect(changing).rejects.toMatchObject({ code: "STORAGE_FAILED", retryable: true });
    await expect(changing).rejects.toThrow(/stored as a whole or not at all/);
  });

  it("that breaks at the COMMIT that makes the tables causes no error", async () => {
    const { url, schema } = await newSchema();
    const pool = spyingPool(newPool(url), { after: breakOnce(/^COMMIT/) });
    expect(await openAdapter({ pool, schema }).append(draft("t", "c1"))).toBe(1);
  });
});

describe("appends", () => {
  it("of one task take sequences in call order, with as many connections as there are", async () => {
    const { adapter } = await newStore();
    const all = Array.from({ length: 60 }, (_, index) => adapter.append(draft("t", `c${index}`)));
    expect(await Promise.all(all)).toEqual(all.map((_, index) => index + 1));
  });

  it.each([
    ["was removed by hand", "DELETE FROM"],
    ["is behind its checkpoints", "UPDATE", "SET last_sequence = 1, newest_sequence = 1"],
  ])("to a task whose row %s are refused until repair restores the row", async (_what, verb, change = "") => {
    const { url, schema, adapter } = await newStore();
    for (const id of ["c1", "c2", "c3"]) await adapter.append(draft("t", id));
    await administer(url, `${verb} "${schema}".tasks ${change}`);
    await expect(adapter.append(draft("t", "c4"))).rejects.toThrow(/row of task "t" is damaged.*waymark repair/);
    expect(await adapter.append(draft("t", "c3"))).toBe(3);
    const steps = await collect(adapter.maintenance.repair({ leftoversOlderThanMs: 0, dryRun: false }));
    expect(steps).toMatchObject([{ action: "quarantined", finding: { taskId: "t" } }]);
    expect(await adapter.append(draft("t", "c4"), { expectedSequence: 3 })).toBe(4);
  });
});

it("a user's process may end without closing the adapter", async () => {
  const { url, schema } = await newSchema();
  const adapter = new PostgresAdapter({ url, schema });
  await adapter.append(draft("t", "c1"));
  await Promise.all([adapter.close(), adapter.close()]);
  await expect(adapter.append(draft("t", "c2"))).rejects.toMatchObject({ code: "CLOSED" });
});

/** Breaks the connection right after the server has executed the first matching statement. */
function breakOnce(fits: RegExp): (query: PostgresQuery) => void {
  let isBroken = false;
  return ({ text }) => {
    if (isBroken || !fits.test(text)) return;
    isBroken = true;
    throw Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
  };
}
