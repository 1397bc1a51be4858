import { expect, it } from "vitest";
import { draft } from "../../../../conformance/drafts.js";
import {
  administer,
  collect,
  newPool,
  newStore,
  openAdapter,
  spyingPool,
  untilWaiting,
} from "../../../support/postgres.js";

it("a removal without a condition makes no unneeded query", async () => {
  const { url, schema, adapter } = await newStore();
  await adapter.append(draft("t", "c1"));
  await adapter.append(draft("t", "c2"));
  const seen: string[] = [];
  const pool = spyingPool(newPool(url), { before: ({ text }) => void seen.push(text.trim().slice(0, 6)) });
  const remover = openAdapter({ pool, schema });
  await remover.get("t", "c1");
  seen.length = 0;
  expect(await remover.remove("t", ["c1"])).toBe(1);
  expect(seen).toEqual(["BEGIN ", "SELECT", "DELETE", "UPDATE", "COMMIT"]);
});

it.each(["the whole task", "an id that the caller chose", "a prefix"])(
  "a removal of %s from a missing task harms no checkpoint that others save meanwhile",
  async (what) => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("other", "c1"));
    const holder = await newPool(url).connect();
    await holder.query("SELECT pg_advisory_lock(hashtext($1))", [schema]);
    // The save of c2 has written the task's row, and commits only when the test says so.
    await administer(
      url,
      `CREATE FUNCTION "${schema}".wait() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('${schema}')); RETURN NEW; END $$;
      CREATE TRIGGER wait BEFORE INSERT ON "${schema}".checkpoints FOR EACH ROW WHEN (NEW.id = 'c2')
        EXECUTE FUNCTION "${schema}".wait()`,
    );
    let saving: Promise<number> | undefined;
    const after = async ({ text }: { text: string }) => {
      if (saving !== undefined || !text.includes("FOR UPDATE")) return;
      // The removal found no row to lock.
      await adapter.append(draft("t", "c1"));
      saving = adapter.append(draft("t", "c2"));
      await untilWaiting(url, schema, 1);
    };
    const remover = openAdapter({ pool: spyingPool(newPool(url), { after }), schema });
    const removed =
      what === "a prefix" ? remover.removePrefix("t") : remover.remove("t", what === "the whole task" ? "all" : ["c1"]);
    await Promise.race([removed, untilWaiting(url, schema, 2)]);
    await holder.query("SELECT pg_advisory_unlock(hashtext($1))", [schema]);
    holder.release();
    expect(await removed).toBe(0);
    expect(await saving).toBe(2);
    expect(await adapter.append(draft("t", "c3"))).toBe(3);
    const checked = await collect(adapter.maintenance.verify({ quick: false }));
    expect(checked.filter(({ kind }) => kind !== "checked")).toEqual([]);
  },
);

it.each(["remove", "removeTask", "setStatus"])(
  "%s refuses a task whose row is gone, instead of changing it without a lock",
  async (call) => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("t", "c1"));
    await administer(url, `DELETE FROM "${schema}".tasks`);
    const calls: Record<string, () => Promise<unknown>> = {
      remove: () => adapter.remove("t", ["c1"]),
      removeTask: () => adapter.remove("t", "all"),
      setStatus: () => adapter.setStatus("t", "c1", { status: "paused" }),
    };
    await expect(calls[call]!()).rejects.toThrow(/row of task "t" is damaged.*Nothing was changed.*waymark repair/);
  },
);
