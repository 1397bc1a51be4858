import { expect, it } from "vitest";
import { isTransient } from "waymark/adapter";
import type { PostgresAdapter } from "waymark/adapters/postgres";
import { draft } from "../../../../conformance/drafts.js";
import { NEVER, transientMetadata } from "../../../../src/contract/transient.js";
import { collect, newPool, newStore, openAdapter, spyingPool } from "../../../support/postgres.js";
import { managerOn } from "../../runs/run-support.js";

it("replaces a transient checkpoint whose status was changed since it was stored", async () => {
  const { adapter } = await newStore();
  const { manager } = managerOn(adapter);
  let n = 0;
  const saver = manager.autoSave("t", () => ({ n: n++ }), { intervalMs: 2 ** 30 });
  await saver.flush();
  const [first] = await manager.list("t");
  await manager.setStatus("t", first?.id ?? "", "paused");
  await saver.flush();
  await saver.stop();
  expect((await manager.list("t")).filter(isTransient)).toHaveLength(1);
});

it("replaces a waiting run's checkpoint that another process has woken", async () => {
  const { url, schema, adapter } = await newStore();
  const other = openAdapter({ url, schema });
  let replaces: string | undefined;
  for (const id of ["a", "b", "c"]) {
    const metadata = transientMetadata(replaces);
    await adapter.append(draft("t", id, { status: "paused", dueAt: NEVER, metadata }), {}, { replaces });
    expect(await other.setStatus("t", id, { status: "running" })).toBe(true);
    replaces = id;
  }
  expect(
    (await collect(other.list({ taskId: "t", order: "oldest" }))).map((found) => "id" in found && found.id),
  ).toEqual(["c"]);
});

it.each([
  ["unchanged", async () => undefined],
  ["woken", async (adapter: PostgresAdapter) => adapter.setStatus("t", "a", { status: "running" })],
])("replaces a waiting run's checkpoint that it has only read, with one statement (%s)", async (_, change) => {
  const { url, schema, adapter } = await newStore();
  const metadata = transientMetadata(undefined);
  await adapter.append(draft("t", "a", { status: "paused", dueAt: NEVER, metadata }));
  const seen: string[] = [];
  const pool = spyingPool(newPool(url), { before: ({ text }) => void seen.push(text) });
  const other = openAdapter({ pool, schema });
  await collect(other.read({ taskId: "t", order: "newest", limit: 1 }));
  await change(adapter);
  seen.length = 0;
  const body = JSON.stringify("the task's first long text".repeat(100));
  await other.append(draft("t", "b", { metadata: transientMetadata("a"), body }), {}, { replaces: "a" });
  expect(seen).toHaveLength(1);
  expect(await collect(other.list({ taskId: "t", order: "oldest" }))).toMatchObject([{ id: "b" }]);
});
