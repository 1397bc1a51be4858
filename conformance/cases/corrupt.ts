import { isDeepStrictEqual } from "node:util";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { type CheckpointSummary, toSummary } from "../../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../../src/contract/corrupt-record.js";
import { readCode } from "../../src/contract/errors.js";
import { ascending, explainDamage, holds, isReported, refused, same, sameAsAppended, sameIds, show } from "../check.js";
import type { ConformanceCase, ConformanceStore } from "../conformance-case.js";
import { type Appended, draft, drafts, fullDraft } from "../drafts.js";
import { DAMAGED_PARTS, type DamagedPart } from "../harness.js";
import { appendAll, collect, listIds, listSequences, withOpen } from "../steps.js";

/**
 * The cases of durable adapters after a disk error. An adapter may let the manager check payloads, so `get` and `read`
 * may return a damaged checkpoint as a record whose seal or digest doesn't match. `list`, which doesn't read payloads,
 * may yield the checkpoint's summary. A damaged checkpoint must never be missing, or look like another, intact
 * checkpoint.
 */
export const corruptCases: readonly ConformanceCase[] = [
  {
    name: "corrupt.reported",
    promise: "reports a damaged checkpoint at any position, and returns all other checkpoints",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        for (const id of part === "missing" ? ["c3"] : ["c1", "c3", "c5"]) {
          const { adapter, all } = await damagedTask(store, { taskId: `${part}-${id}`, count: 5, damaged: [id], part });
          await expectReported(adapter, all, id, part);
          await adapter.close();
        }
      }
    },
  },
  {
    name: "corrupt.any-filter",
    promise:
      "reports a damaged checkpoint regardless of the query's stage and status, and doesn't count it toward the limit",
    needs: "durable",
    async run(store) {
      const { adapter } = await damagedTask(store, { taskId: "t", count: 5, damaged: ["c4"], part: "summary" });
      const newest = { taskId: "t", order: "newest" } as const;
      for (const [name, query, expected] of [
        ["a stage that no other has", { ...newest, stage: "nowhere" }, ["corrupt"]],
        ["a status that no other has", { ...newest, status: ["failed" as const] }, ["corrupt"]],
        ["a status", { ...newest, status: ["running" as const] }, ["c5", "corrupt", "c3", "c2", "c1"]],
        ["a limit", { ...newest, limit: 3 }, ["c5", "corrupt", "c3", "c2"]],
      ] as const) {
        const obligation = `MUST report a damaged checkpoint even if the query asks for ${name}`;
        sameIds(await collect(adapter.list(query)), expected, `list ${obligation}`);
        sameIds(await collect(adapter.read(query)), expected, `read ${obligation}`);
      }
    },
  },
  {
    name: "corrupt.tasks",
    promise:
      "returns the corrupt record if a task's newest checkpoint is damaged, then the task with its newest readable one",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        const [before, taskId, after] = [`${part}-a`, `${part}-b`, `${part}-c`];
        await withOpen(store, (adapter) => appendAll(adapter, [draft(before, "c1"), draft(after, "c1")]));
        const { adapter } = await damagedTask(store, { taskId, count: 3, damaged: ["c3"], part });
        const tasks = await collect(adapter.tasks({ order: "taskId", prefix: part }));
        const shown = tasks.map((task) => (isCorrupt(task) ? "corrupt" : `${task.taskId} ${task.newest?.id}`));
        const reasons = tasks.filter(isCorrupt).map(explainDamage);
        const readable = [`${before} c1`, "corrupt", `${taskId} c2`, `${after} c1`];
        const unread = [`${before} c1`, `${taskId} c3`, `${after} c1`];
        const isUnread = part !== "summary" && shown.length === unread.length;
        same(
          shown,
          isUnread ? unread : readable,
          `tasks MUST report a newest checkpoint that can't be read, return the newest readable one, and continue; ` +
            `it reported ${show(reasons)}`,
        );
        await adapter.close();
      }
    },
  },
  {
    name: "corrupt.nothing-intact",
    promise: "never shows a task as empty if all its checkpoints are damaged",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        await withOpen(store, (adapter) => appendAll(adapter, [draft(`${part}-beside`, "c1")]));
        const damaged = ["c1", "c2"];
        const { adapter } = await damagedTask(store, { taskId: part, count: 2, damaged, part });
        for (const id of damaged) {
          const found = await adapter.get(part, id);
          holds(isReported(found), `get MUST report the damaged ${id}; it returned ${show(found)}`);
        }
        const read = await collect(adapter.read({ taskId: part, order: "newest" }));
        same(read.map(isReported), [true, true], "read MUST report each checkpoint that can't be read");
        const listed = await collect(adapter.list({ taskId: part, order: "newest" }));
        same(listed.length, 2, "list MUST report each checkpoint that can't be read");
        if (part === "summary")
          same(
            listed.map(isCorrupt),
            [true, true],
            "list MUST yield a CorruptRecord for each summary that can't be read",
          );

        const tasks = await collect(adapter.tasks({ order: "taskId", prefix: part }));
        const own = tasks.filter((task) => isCorrupt(task) || task.taskId === part);
        holds(own.length > 0, "tasks MUST report a task that has no readable checkpoint");
        const others = tasks.filter((task) => !isCorrupt(task) && task.taskId === `${part}-beside`);
        same(others.length, 1, "tasks MUST still yield the other tasks");
        await adapter.close();
      }
    },
  },
  {
    name: "corrupt.untouched",
    promise: "never overwrites a damaged checkpoint, and never reuses its sequence",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        for (const [id, other] of [
          ["c2", "c3"],
          ["c3", "c2"],
        ] as const) {
          const taskId = `${part}-${id}`;
          const { adapter, all } = await damagedTask(store, { taskId, count: 3, damaged: [id], part });
          const next = await appendAll(adapter, [draft(taskId, "next")]);
          ascending(listSequences([...all, ...next]), "the damaged record's sequence MUST never be used again");
          await adapter.setStatus(taskId, other, { status: "paused" });
          await adapter.remove(taskId, ["c1"]);
          const left = all
            .filter((one) => one.id !== "c1")
            .map((one) => (one.id === other ? { ...one, status: "paused" as const } : one));
          const reopened = await store.reopen(adapter);
          await expectReported(reopened, [...left, ...next], id, part);
          await reopened.close();
        }
      }
    },
  },
  {
    name: "corrupt.id-taken",
    promise: "refuses an append under the id of a damaged checkpoint as corrupt, and stores nothing",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        const { adapter, all } = await damagedTask(store, { taskId: part, count: 2, damaged: ["c1"], part });
        for (const [what, draft] of [
          ["the same draft", all[0]],
          ["another draft", fullDraft(part, "c1")],
        ] as const) {
          if (draft === undefined) continue;
          const { sequence: _sequence, ...again } = { sequence: 0, ...draft };
          const obligation = `an append of ${what} under the id of a damaged checkpoint MUST be refused`;
          await refused("CHECKPOINT_CORRUPT", adapter.append(again), obligation);
        }
        const found = await adapter.get(part, "c1");
        holds(isReported(found), `get MUST still report the damaged c1 after appends; it returned ${show(found)}`);
        same(
          (await collect(adapter.list({ taskId: part, order: "newest" }))).length,
          2,
          "the refused appends MUST store nothing",
        );
        await adapter.close();
      }
    },
  },
  {
    name: "corrupt.not-laundered",
    promise: "doesn't make a damaged checkpoint look intact when it changes the status",
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        const { adapter, all } = await damagedTask(store, { taskId: part, count: 3, damaged: ["c2"], part });
        const changed = await adapter.setStatus(part, "c2", { status: "paused" }).catch(readCode);
        holds(
          changed === true || changed === "CHECKPOINT_CORRUPT",
          `setStatus of a damaged checkpoint MUST be refused as CHECKPOINT_CORRUPT, or leave the checkpoint damaged; its answer was ${show(changed)}`,
        );
        const found = await adapter.get(part, "c2");
        holds(
          isReported(found),
          `get MUST still report the damaged checkpoint after setStatus; it returned ${show(found)}`,
        );
        for (const one of all.filter(({ id }) => id !== "c2")) {
          sameAsAppended(await adapter.get(part, one.id), one, "get, after setStatus of a damaged checkpoint,");
        }
        await adapter.close();
      }
    },
  },
  {
    name: "corrupt.removed-with-task",
    promise: 'removes damaged checkpoints with their task, for "all"',
    needs: "durable",
    async run(store) {
      for (const part of DAMAGED_PARTS) {
        const { adapter } = await damagedTask(store, { taskId: part, count: 3, damaged: ["c1", "c3"], part });
        await adapter.remove(part, "all");
        const obligation = 'remove "all" MUST remove the task with its damaged checkpoints';
        same(await listIds(adapter.list({ taskId: part, order: "newest" })), [], obligation);
        same(await adapter.get(part, "c3"), undefined, obligation);
        same(await collect(adapter.tasks({ order: "taskId", prefix: part })), [], obligation);
        same(await adapter.append(draft(part, "c3")), 1, `${obligation}, and end its numbering`);
        await adapter.close();
      }
    },
  },
  {
    name: "corrupt.shares-with",
    promise: "stores an intact checkpoint even if `sharesWith` names a damaged one",
    needs: "durable",
    async run(store) {
      const body = JSON.stringify({ messages: Array.from({ length: 200 }, (_, n) => `message ${n} of many`) });
      const like = body.replace("message 7", "another");
      for (const part of DAMAGED_PARTS) {
        const source = draft(part, "source", { body });
        await withOpen(store, (adapter) => appendAll(adapter, [source]));
        let adapter = await store.damage(await store.open(), part, "source", part);
        const shared: Appended[] = [];
        for (const one of [draft(`${part}-same`, "c1", { body }), draft(`${part}-like`, "c1", { body: like })]) {
          const sequence = await adapter.append(one, {}, { sharesWith: { taskId: part, id: "source" } });
          shared.push({ ...one, sequence });
        }
        adapter = await store.reopen(adapter);
        for (const one of shared)
          sameAsAppended(await adapter.get(one.taskId, one.id), one, "get, after an append with `sharesWith`,");
        await adapter.close();
      }
    },
  },
];

interface DamagedTask {
  readonly taskId: string;
  /** The number of checkpoints in the task: `c1`, `c2`, … */
  readonly count: number;
  /** The ids of the damaged checkpoints. */
  readonly damaged: readonly string[];
  readonly part: DamagedPart;
}

async function damagedTask(store: ConformanceStore, task: DamagedTask) {
  let adapter = await store.open();
  const all = await appendAll(adapter, drafts(task.taskId, task.count));
  for (const id of task.damaged) adapter = await store.damage(adapter, task.taskId, id, task.part);
  return { adapter, all };
}

/** Throws unless `get`, `read` and `list` return all intact checkpoints, and report the damaged one in its place. */
async function expectReported(
  adapter: StorageAdapter,
  all: readonly Appended[],
  damaged: string,
  part: DamagedPart,
): Promise<void> {
  const taskId = all[0]?.taskId ?? "";
  for (const one of all) {
    const found = await adapter.get(taskId, one.id);
    if (one.id !== damaged) sameAsAppended(found, one, `get, with ${damaged} damaged,`);
    else holds(isReported(found), `get MUST report the damaged ${damaged}; it returned ${show(found)}`);
  }
  for (const order of ["oldest", "newest"] as const) {
    const ordered = order === "oldest" ? all : all.toReversed();
    const expected = ordered.map(({ id }) => (id === damaged ? "corrupt" : id));
    const obligation = `MUST report the damaged ${damaged} in its place, and still yield all other checkpoints`;
    const read = await collect(adapter.read({ taskId, order }));
    sameIds(read, expected, `read ${obligation}`);

    const listed = await collect(adapter.list({ taskId, order }));
    const isUnreadPart = (item: CheckpointSummary | CorruptRecord, index: number): boolean =>
      part !== "summary" && !isCorrupt(item) && isUnread(item, ordered[index], damaged);
    const unread = listed.findIndex(isUnreadPart);
    const seen = unread === -1 ? expected : expected.with(unread, damaged);
    sameIds(listed, seen, `list ${obligation}`);
    for (const record of [...read, ...listed].filter(isCorrupt)) {
      const says = record.location !== "" && record.reason !== "";
      holds(says, "a CorruptRecord MUST tell where it is and what is wrong with it");
    }
  }
}

/** Whether an item is the damaged checkpoint's former summary, which `list` may still find intact. */
function isUnread(item: CheckpointSummary, original: Appended | undefined, damaged: string): boolean {
  return original?.id === damaged && isDeepStrictEqual(toSummary(item), toSummary(original));
}
