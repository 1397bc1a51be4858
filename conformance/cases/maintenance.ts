import type { StorageAdapter } from "../../src/contract/adapter.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import type { CheckedRecord, RepairStep, StorageFinding, StorageMaintenance } from "../../src/contract/findings.js";
import { holds, same, sameAsAppended, show } from "../check.js";
import type { ConformanceCase, ConformanceStore } from "../conformance-case.js";
import { type Appended, draft, drafts } from "../drafts.js";
import { DAMAGED_PARTS, type DamagedPart } from "../harness.js";
import { event, nameLog, record, requireLog } from "../records.js";
import { appendAll, collect, expectStored, listIds, withOpen } from "../steps.js";

/** The cases of adapters with `maintenance`. */
export const maintenanceCases: readonly ConformanceCase[] = [
  {
    name: "verify.finds",
    promise: "finds each damaged checkpoint, counts all checkpoints, and changes nothing",
    about: "maintenance",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        for (const damaged of listSets(part, [["c1"], ["c2", "c4"], ["c1", "c2", "c3", "c4"]])) {
          const taskId = `${part}-${damaged.length}`;
          const adapter = await damagedTask(store, taskId, damaged, part);
          for (const quick of [false, true]) {
            const items = await verified(adapter, quick);
            const found = items.filter((item) => item.kind === "damaged" && item.taskId === taskId);
            const checked = items.filter((item) => item.kind === "checked" && item.taskId === taskId);
            same(checked.length, 4, "verify MUST yield a `checked` for each checkpoint, including damaged ones");
            if (part === "summary" || !quick)
              same(found.length, damaged.length, "verify MUST find each damaged record");
            for (const finding of found) expectTold(finding);
          }
          same((await damagedIn(adapter, taskId)) > 0 || part !== "summary", true, "verify MUST change nothing");
          await adapter.close();
        }
      }
    },
  },
  {
    name: "verify.quiet",
    promise: "finds nothing and changes nothing if nothing is damaged, even during other writes",
    about: "maintenance",
    async run(store) {
      const adapter = await store.open();
      same(await readFindings(adapter), [], "verify MUST find nothing in a store that doesn't exist yet");
      const all = [
        ...(await appendAll(adapter, drafts("a", 4))),
        ...(await appendAll(adapter, drafts("quarantine", 2))),
      ];
      await appendAll(adapter, drafts("gone", 2));
      await adapter.remove("gone", "all");
      await adapter.remove("a", ["c4"]);
      await adapter.setStatus("a", "c1", { status: "completed" });
      const writes = drafts("busy", 20).map((one) => adapter.append(one));
      const obligation = "verify MUST find nothing if nothing is damaged, even during other writes";
      while (writes.length > 0) {
        same(await readFindings(adapter), [], obligation);
        await writes.pop();
      }
      same(await readFindings(adapter, true), [], `${obligation}, quick or not`);
      await adapter.remove("busy", "all");
      const left = all.filter(({ taskId, id }) => taskId !== "a" || id !== "c4");
      await expectStored(
        adapter,
        left.map((one) => (one.taskId === "a" && one.id === "c1" ? { ...one, status: "completed" as const } : one)),
      );
      await adapter.close();
    },
  },
  {
    name: "repair.moves",
    promise: "moves each damaged checkpoint away, reports where, and leaves all other checkpoints as they are",
    about: "maintenance",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        const beside = await withOpen(store, (adapter) => appendAll(adapter, drafts(`${part}-beside`, 2)));
        for (const damaged of listSets(part, [["c4"], ["c1", "c3"], ["c1", "c2", "c3", "c4"]])) {
          const taskId = `${part}-${damaged.length}`;
          const adapter = await damagedTask(store, taskId, damaged, part);
          const steps = await repaired(adapter);
          const moved = quarantined(steps).filter(({ finding }) => finding.taskId === taskId);
          same(moved.length, damaged.length, "repair MUST move and report each damaged record");
          for (const { finding, to } of moved) {
            expectTold(finding);
            holds(to !== "", "repair MUST report where a damaged record is now");
          }
          const reopened = await store.reopen(adapter);
          const left = drafts(taskId, 4).flatMap((one, index): Appended[] =>
            damaged.includes(one.id) ? [] : [{ ...one, sequence: index + 1 }],
          );
          same(
            await listIds(reopened.list({ taskId, order: "oldest" })),
            left.map(({ id }) => id),
            "after a repair no damaged record MUST remain, and every intact one MUST be there",
          );
          await expectIntact(reopened, left);
          await expectIntact(reopened, beside);
          same(quarantined(await repaired(reopened)), [], "a second repair MUST find nothing to move");
          same(await readFindings(reopened), [], "after a repair verify MUST find nothing");
          await reopened.close();
        }
      }
    },
  },
  {
    name: "repair.keeps-numbering",
    promise: "never reuses the sequence of a damaged checkpoint",
    about: "maintenance",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        for (const damaged of listSets(part, [["c4"], ["c3", "c4"], ["c1", "c2", "c3", "c4"]])) {
          const taskId = `${part}-${damaged.length}`;
          const adapter = await damagedTask(store, taskId, damaged, part);
          await repaired(adapter);
          const reopened = await store.reopen(adapter);
          const sequence = await reopened.append(draft(taskId, "next"));
          holds(sequence > 4, `a damaged record's sequence MUST never be used again, but append used ${sequence}`);
          await reopened.close();
        }
      }
    },
  },
  {
    name: "repair.dry-run",
    promise: "changes nothing in a dry run, and reports the steps of a repair",
    about: "maintenance",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        const adapter = await damagedTask(store, part, ["c2", "c4"], part);
        const before = await damagedIn(adapter, part);
        const planned = await repaired(adapter, true);
        same(await damagedIn(adapter, part), before, "a dry run MUST change nothing");
        same(
          (await listIds(adapter.list({ taskId: part, order: "oldest" }))).length,
          4,
          "a dry run MUST change nothing",
        );
        const done = await repaired(adapter);
        same(planned.map(summaryOfStep), done.map(summaryOfStep), "a dry run MUST report the steps of a repair");
        await adapter.close();
      }
    },
  },
  {
    name: "repair.stops",
    promise: "stops a repair when its signal aborts, and leaves no record half moved",
    about: "maintenance",
    needs: "durable",
    async run(store) {
      await (await damagedTask(store, "a", ["c2"], "summary")).close();
      const adapter = await damagedTask(store, "b", ["c2", "c3"], "summary");
      const stop = new AbortController();
      stop.abort();
      const stopped = await repaired(adapter, false, stop.signal);
      same(quarantined(stopped), [], "a repair MUST move nothing if its signal is aborted before it begins");
      const [before, after] = [await damagedIn(adapter, "a"), await damagedIn(adapter, "b")];
      same([before, after], [1, 2], "a stopped repair MUST leave the records that it hasn't reached");
      same(
        quarantined(await repaired(adapter)).length,
        3,
        "the next repair MUST move the records that the stopped one left",
      );
    },
  },
  {
    name: "verify.finds-records",
    promise: "finds each damaged record of a log, counts all records, and changes nothing",
    about: "log",
    needs: "durable",
    async run(store) {
      if (!store.offers.includes("maintenance")) return;
      const adapter = await damagedLog(store, [2, 5]);
      for (const quick of [false, true]) {
        const items = await verified(adapter, quick);
        const checked = items.filter((item) => item.kind === "checked" && item.taskId === "t");
        same(checked.length, 5, "verify MUST yield a `checked` for each record and checkpoint");
        const found = items.filter((item) => item.kind === "damaged");
        for (const finding of found) expectTold(finding);
        // A quick verification may overlook the damage, because it is in the body.
        if (quick) continue;
        same(
          listPlaces(found),
          DAMAGED_RECORDS,
          "verify MUST find each damaged record, with its task, sequence and event's id",
        );
      }
      same(await nameLog(adapter), DAMAGED_LOG, "verify MUST change nothing");
    },
  },
  {
    name: "repair.moves-records",
    promise: "moves each damaged record away, keeps all others, and never reuses a damaged record's sequence",
    about: "log",
    needs: "durable",
    async run(store) {
      if (!store.offers.includes("maintenance")) return;
      const adapter = await damagedLog(store, [2, 5]);
      const planned = await repaired(adapter, true);
      same(await nameLog(adapter), DAMAGED_LOG, "a dry run MUST change nothing");
      const steps = quarantined(await repaired(adapter));
      same(planned.map(summaryOfStep), steps.map(summaryOfStep), "a dry run MUST report the steps of a repair");
      const moved = steps.map(({ finding }) => finding);
      same(listPlaces(moved), DAMAGED_RECORDS, "repair MUST move and report each damaged record");
      const reopened = await store.reopen(adapter);
      same(await nameLog(reopened), ["1 s1", "3 c1", "4 other"], "after a repair every intact record MUST be there");
      same(await readFindings(reopened), [], "after a repair verify MUST find nothing");
      const log = requireLog(reopened);
      same(await log.append("t", [record("next")], { noEventAfter: 4 }), 6, "a moved event MUST NOT count any more");
      same(await log.append("t", [event("last")]), 7, "an event that was moved away can be sent again");
      same(await collect(reopened.tasks({ order: "taskId", prefix: "only" })), [], "a task MUST end with its records");
    },
  },
];

const DAMAGED_LOG = ["1 s1", "2 corrupt", "3 c1", "4 other", "5 corrupt"];
const DAMAGED_RECORDS = ["only 1", "t 2", "t 5 last"];

/** Lists the task, sequence and event id of each finding, sorted. */
function listPlaces(findings: readonly StorageFinding[]): readonly string[] {
  return findings.map(({ taskId, sequence, id }) => [taskId, sequence, id].join(" ").trim()).sort();
}

/**
 * Makes a task with a checkpoint and records, some of which are damaged, and another task with only a damaged record.
 */
async function damagedLog(store: ConformanceStore, sequences: readonly number[]): Promise<StorageAdapter> {
  let adapter = await store.open();
  await requireLog(adapter).append("t", [record("s1"), record("s2")]);
  await appendAll(adapter, [draft("t", "c1")]);
  await requireLog(adapter).append("t", [event("other"), event("last")]);
  await requireLog(adapter).append("only", [record("s1")]);
  for (const sequence of sequences) adapter = await store.damageRecord(adapter, "t", sequence);
  return store.damageRecord(adapter, "only", 1);
}

/**
 * Returns the sets of damaged checkpoints to test. For a lost payload, the first set is enough, because adapters treat
 * it like a changed payload.
 */
function listSets(part: DamagedPart, sets: readonly (readonly string[])[]): readonly (readonly string[])[] {
  return part === "missing" ? sets.slice(0, 1) : sets;
}

/** Makes a task with four checkpoints, some of them damaged. */
async function damagedTask(
  store: ConformanceStore,
  taskId: string,
  damaged: readonly string[],
  part: DamagedPart,
): Promise<StorageAdapter> {
  let adapter = await store.open();
  await appendAll(adapter, drafts(taskId, 4));
  for (const id of damaged) adapter = await store.damage(adapter, taskId, id, part);
  return adapter;
}

/** Counts the checkpoints of a task that `read` yields as a CorruptRecord. */
async function damagedIn(adapter: StorageAdapter, taskId: string): Promise<number> {
  return (await collect(adapter.read({ taskId, order: "oldest" }))).filter(isCorrupt).length;
}

async function readFindings(adapter: StorageAdapter, quick = false): Promise<StorageFinding[]> {
  return (await verified(adapter, quick)).filter((item) => item.kind !== "checked");
}

async function verified(adapter: StorageAdapter, quick: boolean): Promise<(StorageFinding | CheckedRecord)[]> {
  return collect(requireMaintenance(adapter).verify({ quick }));
}

async function repaired(adapter: StorageAdapter, dryRun = false, signal?: AbortSignal): Promise<RepairStep[]> {
  return collect(requireMaintenance(adapter).repair({ leftoversOlderThanMs: 0, dryRun, signal }));
}

function requireMaintenance({ maintenance }: StorageAdapter): StorageMaintenance {
  if (maintenance === undefined) throw new Error("The harness offers `maintenance`, but the adapter doesn't have it.");
  return maintenance;
}

function quarantined(steps: readonly RepairStep[]) {
  return steps.filter((step) => step.action === "quarantined");
}

function summaryOfStep({ action, finding }: RepairStep) {
  const { kind, taskId, id, sequence, reason } = finding;
  return { action, kind, taskId, id, sequence, reason };
}

function expectTold(finding: object): void {
  const says = "location" in finding && finding.location !== "" && "reason" in finding && finding.reason !== "";
  holds(says, `a finding MUST tell where it is and what is wrong with it, unlike ${show(finding)}`);
}

/** Like `expectStored`, but the store may also have other tasks. */
async function expectIntact(adapter: StorageAdapter, all: readonly Appended[]): Promise<void> {
  for (const one of all) {
    const found = await adapter.get(one.taskId, one.id);
    sameAsAppended(found, one, "get, after a repair,");
  }
}
