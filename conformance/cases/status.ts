import { type CheckpointStatus, type StatusChange, seal } from "../../src/contract/checkpoint.js";
import { readCode } from "../../src/contract/errors.js";
import { ascending, intact, refused, same, sameAsAppended } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, collect, expectStored, listIds, listSequences } from "../steps.js";

/** The cases of `setStatus`. */
export const statusCases: readonly ConformanceCase[] = [
  {
    name: "status.changes",
    promise: "changes the status, replaces or drops the error, and renews the seal",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const error = { message: "Out of memory", name: "RangeError", code: "ERR_MEMORY", stack: "RangeError\n    at x" };
      const changes: StatusChange[] = [
        { status: "failed", error },
        { status: "failed", error: { message: "Another" } },
        { status: "paused" },
        { status: "running", error: { message: "Going on, though" } },
        { status: "completed" },
      ];
      for (const { error: _former, ...rest } of await appendAll(adapter, [fullDraft("t", "c1")])) {
        for (const change of changes) {
          same(await adapter.setStatus("t", "c1", change), true, "setStatus MUST return true if the checkpoint exists");
          adapter = await store.carryOn(adapter);
          // `expectStored` also checks the seal.
          await expectStored(adapter, [{ ...rest, ...change }]);
          const those = await listIds(adapter.list({ taskId: "t", order: "newest", status: [change.status] }));
          same(those, ["c1"], "list MUST filter by the new status");
        }
      }
    },
  },
  {
    name: "status.keeps-the-rest",
    promise: "changes only status, error and seal, and no other checkpoint",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const bytes = draft("t", "bytes", {
        body: Uint8Array.from({ length: 256 }, (_, index) => 255 - index),
        stage: "s",
      });
      const all = await appendAll(adapter, [draft("t", "before"), bytes, fullDraft("t", "after"), draft("u", "bytes")]);
      const change = { status: "failed", error: { message: "late" } } as const;
      await adapter.setStatus("t", "bytes", change);
      adapter = await store.carryOn(adapter);
      await expectStored(
        adapter,
        all.map((one) => (one.taskId === "t" && one.id === "bytes" ? { ...one, ...change } : one)),
      );
      const next = await adapter.append(draft("t", "next"));
      ascending([...listSequences(all.slice(0, 3)), next], "changing a status MUST NOT disturb the numbering");
    },
  },
  {
    name: "status.nothing",
    promise: "returns false if there is no such checkpoint, and creates none",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const [, kept] = await appendAll(adapter, drafts("t", 2));
      await adapter.remove("t", ["c1"]);
      const obligation = "setStatus MUST return false if there is no such checkpoint";
      same(await adapter.setStatus("t", "c9", { status: "paused" }), false, obligation);
      same(await adapter.setStatus("t", "c1", { status: "paused" }), false, `${obligation} any more`);
      same(await adapter.setStatus("nowhere", "c1", { status: "paused" }), false, obligation);
      const condition = { expectedSequence: 40 };
      for (const [taskId, id] of [["t", "c9"] as const, ["nowhere", "c1"] as const]) {
        const answer = adapter.setStatus(taskId, id, { status: "paused" }, condition);
        same(await answer, false, `${obligation}, even if the condition doesn't hold`);
      }
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, kept ? [kept] : []);
    },
  },
  {
    name: "status.completed-stays",
    promise: "keeps a completed checkpoint completed, and reopens the task by a new append",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await appendAll(adapter, [draft("t", "done", { status: "completed" }), draft("t", "finished")]);
      await adapter.setStatus("t", "finished", { status: "completed" });
      adapter = await store.carryOn(adapter);
      for (const one of all) {
        for (const status of ["running", "paused", "failed"] as const) {
          await refused(
            "CHECKPOINT_CONFLICT",
            adapter.setStatus("t", one.id, { status, error: { message: "late" } }),
            `a checkpoint MUST never leave completed, not even for ${status}`,
          );
        }
        const how = "get, after a change of a completed checkpoint was refused,";
        sameAsAppended(await adapter.get("t", one.id), { ...one, status: "completed" }, how);
      }
      await adapter.append(draft("t", "reopened"));
      const [task] = await collect(adapter.tasks({ order: "taskId" }));
      same(intact(task, "tasks MUST yield the task").newest?.status, "running", "a new append MUST reopen the task");
    },
  },
  {
    name: "status.condition",
    promise: "changes nothing if the newest checkpoint isn't the expected one",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await appendAll(adapter, drafts("t", 3));
      const [first = 0, newest = 0, removed = 0] = listSequences(all);
      await adapter.remove("t", ["c3"]);
      adapter = await store.carryOn(adapter);
      for (const expectedSequence of [0, first, removed]) {
        await refused(
          "CHECKPOINT_CONFLICT",
          adapter.setStatus("t", "c1", { status: "paused" }, { expectedSequence }),
          `setStatus MUST refuse expectedSequence ${expectedSequence} if the task's newest checkpoint has ${newest}`,
        );
      }
      await expectStored(adapter, all.slice(0, 2));
      const change = adapter.setStatus("t", "c1", { status: "paused" }, { expectedSequence: newest });
      same(
        await change,
        true,
        "setStatus MUST also change an older checkpoint if the task's newest one is as expected",
      );
    },
  },
  {
    name: "status.concurrent",
    promise: "changes atomically, so that concurrent changes never undo `completed`",
    async run(store) {
      const adapter = await store.open();
      const statuses: CheckpointStatus[] = ["paused", "failed", "completed", "running", "paused"];
      for (const one of await appendAll(adapter, drafts("t", 4))) {
        const changes = statuses.map((status) => adapter.setStatus("t", one.id, { status }));
        for (const outcome of await Promise.allSettled(changes)) {
          const refusal = outcome.status === "rejected" ? readCode(outcome.reason) : "CHECKPOINT_CONFLICT";
          same(refusal, "CHECKPOINT_CONFLICT", "a change that comes after completed MUST be refused as a conflict");
        }
        const record = intact(await adapter.get("t", one.id), "get MUST return the checkpoint");
        same(record.status, "completed", "a checkpoint MUST never leave completed, not even by a concurrent change");
        same(record.seal, seal(record), "the seal MUST hold after concurrent changes");
      }
    },
  },
];
