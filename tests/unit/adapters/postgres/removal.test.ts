import { expect, it } from "vitest";
import { draft } from "../../../../src/conformance/drafts.js";
import { collect, newPool, newStore, openAdapter, spyingPool } from "../../../support/postgres.js";

it.each(["of the task", "by prefix"])(
  "a removal %s takes all or nothing of a task that is begun meanwhile",
  async (how) => {
    const { url, schema, adapter } = await newStore();
    await adapter.append(draft("other", "c1"));
    let begun: Promise<number> | undefined;
    const before = async ({ text }: { text: string }) => {
      if (begun !== undefined || !/DELETE FROM \S+\.checkpoints/.test(text)) return;
      // The task begins right before its checkpoints are removed.
      begun = adapter.append(draft("t", "c1"));
      await begun;
    };
    const remover = openAdapter({ pool: spyingPool(newPool(url), { before }), schema });
    await (how === "by prefix" ? remover.removeTasks("t") : remover.remove("t", "all"));
    expect(await begun).toBe(1);
    const checked = await collect(adapter.maintenance.verify({ quick: false }));
    expect(checked.filter(({ kind }) => kind !== "checked")).toEqual([]);
  },
);

it("a removal without a condition asks for nothing that it doesn't need", async () => {
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
