import { describe, expect, it } from "vitest";
import { draft, drafts } from "../../../../conformance/drafts.js";
import { event, record } from "../../../../conformance/records.js";
import { collect, connect, newStore, spyingDriver } from "./support.js";

const QUERY = { prefix: "", dueBy: "2027-01-01T00:00:00.000Z" };

/** Returns every statement that the adapter makes in a life with all kinds of calls, and SQLite's plan for it. */
async function plansOfALife(): Promise<Map<string, readonly string[]>> {
  const statements = new Set<string>();
  const driver = spyingDriver({ prepared: (sql) => statements.add(sql) });
  const { adapter, path } = await newStore({ driver });
  for (const one of [...drafts("t", 3), ...drafts("u", 2)]) await adapter.append(one);
  await adapter.append(draft("t", "c1"));
  await adapter.get("t", "c1");
  for (const order of ["newest", "oldest"] as const) {
    for (const query of [
      { limit: 2, skip: 1 },
      { stage: "s", status: ["failed"] as const },
    ]) {
      await collect(adapter.list({ taskId: "t", order, ...query }));
      await collect(adapter.read({ taskId: "t", order, ...query }));
    }
  }
  await collect(adapter.tasks({ order: "recent", prefix: "t" }));
  await adapter.append(draft("t", "paused", { status: "paused", dueAt: "2026-01-02T03:04:05.678Z" }));
  await adapter.queue.count(QUERY);
  await adapter.queue.claimNext(QUERY, "worker", 60_000, 1);
  await adapter.remove("t", ["paused"]);
  await adapter.setStatus("t", "c3", { status: "paused" }, { expectedSequence: 3 });
  await adapter.remove("t", ["c3"]);
  await adapter.log.append("t", [record("a"), event("e")], { noEventAfter: 0 });
  await adapter.setStatus("t", "c2", { status: "paused" }, { noEventAfter: 100 }, { records: [event("f")] });
  await adapter.append(draft("t", "c4"), {}, { records: [event("g")] });
  for (const order of ["newest", "oldest"] as const) {
    await collect(adapter.log.read({ taskId: "t", order }));
    await collect(adapter.log.read({ taskId: "t", order, headersOnly: true }));
  }
  await adapter.log.remove("t", { name: "e" });
  await adapter.remove("t", "all");

  const other = connect(path);
  const plans = new Map<string, readonly string[]>();
  for (const sql of statements) {
    // Transactions have no plan, and opening the store reads the schema once, which is one page.
    if (/^(BEGIN|COMMIT|ROLLBACK|CREATE)|sqlite_schema/.test(sql)) continue;
    const values = Array.from({ length: sql.split("?").length - 1 }, () => 1);
    const steps = other.prepare<number[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    plans.set(
      sql,
      steps.map(({ detail }) => detail),
    );
  }
  return plans;
}

describe("query plans", () => {
  it("reach every row by a key or an index: nothing scans a table", async () => {
    const plans = await plansOfALife();
    expect(plans.size).toBeGreaterThan(20);
    const steps = [...plans.values()].flat();
    // For recent tasks, the minute of the last wanted task is found, and the tasks since then are sorted.
    const sorts = steps.filter((step) => step.includes("TEMP B-TREE"));
    expect(sorts.length).toBeLessThanOrEqual(2);
    expect(steps.filter((step) => /^SCAN (?!CONSTANT ROW|json_each|\(subquery|asked$)/.test(step))).toEqual([]);
    expect(steps.filter((step) => step.startsWith("SEARCH")).length).toBeGreaterThan(20);
  });

  it("find the last event among the events alone, at its end", async () => {
    const plans = await plansOfALife();
    const lastEvent = [...plans].filter(([sql]) => /max\(sequence\)/.test(sql) && sql.includes("id IS NOT NULL"));
    expect(lastEvent.map(([, steps]) => steps)).toEqual([
      ["SEARCH waymark_records USING INDEX waymark_records_events (task_id=? AND sequence>?)"],
    ]);
  });
});
