import type { StorageAdapter, StoredTask } from "../../src/contract/adapter.js";
import { toSummary } from "../../src/contract/checkpoint.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { isRecord, type PayloadChange, type RecordDraft, toRecordHeader } from "../../src/contract/log.js";
import { ascending, holds, refused, same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts } from "../drafts.js";
import { HOSTILE_NAMES } from "../hostile.js";
import {
  event,
  FULL_RECORD,
  followWhile,
  headerOfDraft,
  isToldOf,
  isWhole,
  nameLog,
  readLog,
  record,
  requireLog,
  sameRecord,
  steps,
} from "../records.js";
import { appendAll, collect, expectStored, listIds, pass, requireLeases } from "../steps.js";

/** The cases of adapters with a `log`. */
export const logCases: readonly ConformanceCase[] = [
  {
    name: "log.numbering",
    promise: "numbers records and checkpoints of a task together, from 1, and never reuses a sequence",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      same(await requireLog(adapter).append("t", [record("a")]), 1, "the first record MUST take 1");
      same(await adapter.append(draft("t", "c1")), 2, "a checkpoint MUST take the sequence after a record's");
      same(
        await requireLog(adapter).append("t", steps("s", 2)),
        4,
        "log.append MUST return the last record's sequence",
      );
      same(await requireLog(adapter).append("u", [record("other")]), 1, "each task MUST have its own numbering");
      adapter = await store.carryOn(adapter);
      same(await requireLog(adapter).append("t", [record("b")]), 5, "the numbering MUST continue");
      await requireLog(adapter).remove("t", { afterSequence: 2 });
      await adapter.remove("t", ["c1"]);
      adapter = await store.carryOn(adapter);
      const next = await adapter.append(draft("t", "c2"));
      ascending([5, next], "a removed record's sequence MUST NOT be used again");
      same(await nameLog(adapter), ["1 a", `${next} c2`], "log.read MUST yield what was stored and not removed");
    },
  },
  {
    name: "log.batch",
    promise: "stores the records of one call with consecutive sequences, or none of them",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const log = requireLog(adapter);
      const batches = Array.from({ length: 8 }, (_, index) => steps(`b${index}-`, 3));
      const last = await Promise.all(batches.map((batch) => log.append("t", batch)));
      same(last, [3, 6, 9, 12, 15, 18, 21, 24], "each batch MUST take consecutive sequences, in call order");
      const late = log.append("t", steps("late", 3), { expectedSequence: 1 });
      await refused("CHECKPOINT_CONFLICT", late, "log.append MUST check its condition");
      await log.append("t", [event("taken")]);
      const partly = log.append("t", [record("first"), event("taken", { body: "1" })]);
      await refused("CHECKPOINT_CONFLICT", partly, "a batch MUST be refused if the id of one of its events is taken");
      adapter = await store.carryOn(adapter);
      const expected = [...batches.flat(), event("taken")].map(({ name }, index) => `${index + 1} ${name}`);
      same(await nameLog(adapter), expected, "a refused batch MUST store nothing");
    },
  },
  {
    name: "log.read",
    promise: "reads records and summaries in either order, by range, kind, name and limit, with each field unchanged",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all: RecordDraft[] = [
        FULL_RECORD,
        record("a", { recordKey: "k" }),
        record("chunk", { kind: "chunk", body: JSON.stringify({ text: "é 😀 \u2028".repeat(2000) }) }),
        { kind: "run", createdAt: "2026-01-02T03:04:07.000Z", payload: record("").payload },
        record("", { kind: "mark", recordKey: "" }),
      ];
      await requireLog(adapter).append("t", all.slice(0, 3));
      const [checkpoint] = await appendAll(adapter, [draft("t", "c1")]);
      await requireLog(adapter).append("t", all.slice(3));
      adapter = await store.carryOn(adapter);

      const sequences = [1, 2, 3, 5, 6];
      const items = await readLog(adapter);
      const records = items.filter((item) => !isCorrupt(item) && isRecord(item));
      for (const [index, one] of all.entries()) sameRecord(records[index], one, sequences[index] ?? 0);
      same(items[3], checkpoint && toSummary(checkpoint), "log.read MUST yield a checkpoint's summary");

      const headers = await readLog(adapter, { headersOnly: true, kinds: ["step", "event", "chunk", "run", "mark"] });
      const expected = all.map((one, index) => ({ ...headerOfDraft(one, sequences[index] ?? 0), seal: "" }));
      const bare = headers.map((item) => ({ ...item, seal: "" }));
      same(bare, expected, "with headersOnly, log.read MUST yield headers, without bodies");

      const sequencesOf = async (query: Parameters<typeof readLog>[1]) =>
        (await readLog(adapter, query)).map(({ sequence }) => sequence);
      for (const [query, found] of [
        [{ order: "newest" }, [6, 5, 4, 3, 2, 1]],
        [{ afterSequence: 2, beforeSequence: 6 }, [3, 4, 5]],
        [{ kinds: ["checkpoint"] }, [4]],
        [{ kinds: ["checkpoint", "mark", "run"] }, [4, 5, 6]],
        [{ kinds: [] }, []],
        [{ name: "a" }, [2]],
        [{ name: "" }, [6]],
        [{ name: "missing" }, []],
        [{ limit: 2, afterSequence: 1 }, [2, 3]],
        [{ limit: 2, order: "newest" }, [6, 5]],
        [{ limit: 1, kinds: ["run"], durableOnly: true }, [5]],
        [{ taskId: "T" }, []],
      ] as const) {
        same(await sequencesOf(query), found, `log.read MUST select by ${JSON.stringify(query)}`);
      }
    },
  },
  {
    name: "log.values",
    promise: "keeps different names, keys and event ids apart, byte by byte",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = HOSTILE_NAMES.map((text) => event(text, { recordKey: text }));
      await requireLog(adapter).append("t", all);
      adapter = await store.carryOn(adapter);
      const items = await readLog(adapter);
      for (const [index, one] of all.entries()) {
        sameRecord(items[index], one, index + 1);
        const named = await readLog(adapter, { name: HOSTILE_NAMES[index] });
        same(
          named.map(({ sequence }) => sequence),
          [index + 1],
          `log.read MUST find exactly the name ${JSON.stringify(one.name)}`,
        );
      }
    },
  },
  {
    name: "log.call-order",
    promise: "assigns ascending sequences to the records and checkpoints of one task, in call order",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      const sequences = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          index % 3 === 1
            ? adapter.append(draft("t", `c${index}`))
            : requireLog(adapter).append("t", [record(`r${index}`)], {}, { lazy: index % 2 === 0 }),
        ),
      );
      const expected = sequences.map((_, index) => index + 1);
      same(sequences, expected, "appends and log appends MUST take sequences in call order, together");
      const names = sequences.map((sequence, index) => `${sequence} ${index % 3 === 1 ? "c" : "r"}${index}`);
      same(await nameLog(adapter), names, "log.read MUST yield them in this order");
    },
  },
  {
    name: "log.with-checkpoint",
    promise: "stores a checkpoint's records directly before it, in the same atomic step",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const records = [record("input", { kind: "run" }), event("early")];
      same(await adapter.append(draft("t", "c1"), {}, { records }), 3, "a checkpoint MUST come after its records");
      const again = await adapter.append(draft("t", "c1"), {}, { records });
      same(again, 3, "a repeated append MUST return the stored sequence, and store no record again");
      await refused(
        "CHECKPOINT_CONFLICT",
        adapter.append(draft("t", "late"), { expectedSequence: 1 }, { records: steps("late", 2) }),
        "a checkpoint with records MUST be refused if its condition doesn't hold",
      );
      await refused(
        "CHECKPOINT_CONFLICT",
        adapter.append(draft("t", "late"), {}, { records: [record("x"), event("early", { body: "2" })] }),
        "a checkpoint MUST be refused if the id of one of its events is taken",
      );
      adapter = await store.carryOn(adapter);
      const exact = { sequence: 9, records: steps("exact", 2) };
      same(await adapter.append(draft("t", "c2"), {}, exact), 9, "the exact sequence is the checkpoint's");
      await refused(
        "CHECKPOINT_CONFLICT",
        adapter.append(draft("t", "c3"), {}, { sequence: 11, records: steps("no-room", 2) }),
        "an exact sequence MUST be refused if there is no room for the records below it",
      );
      adapter = await store.carryOn(adapter);
      const expected = ["1 input", "2 early", "3 c1", "7 exact1", "8 exact2", "9 c2"];
      same(await nameLog(adapter), expected, "a refused checkpoint MUST store none of its records");
      same(await listIds(adapter.list({ taskId: "t", order: "oldest" })), ["c1", "c2"], "list MUST yield no records");
    },
  },
  {
    name: "log.with-status",
    promise: "stores the records of a change of status in the same atomic step",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await appendAll(adapter, drafts("t", 1));
      const paused = { status: "paused" } as const;
      const changed = await adapter.setStatus("t", "c1", paused, {}, { records: [record("paused", { kind: "run" })] });
      same(changed, true, "setStatus MUST return true if it changed the status");
      const missing = await adapter.setStatus("t", "missing", paused, {}, { records: [record("missing")] });
      same(missing, false, "setStatus MUST return false if there is no such checkpoint");
      const late = adapter.setStatus("t", "c1", paused, { expectedSequence: 7 }, { records: [record("late")] });
      await refused("CHECKPOINT_CONFLICT", late, "setStatus MUST check its condition");
      await adapter.setStatus("t", "c1", { status: "completed" }, {}, { records: [record("done", { kind: "run" })] });
      const reopened = adapter.setStatus("t", "c1", paused, {}, { records: [record("reopened")] });
      await refused("CHECKPOINT_CONFLICT", reopened, "a completed checkpoint MUST stay completed");
      adapter = await store.carryOn(adapter);
      same(await nameLog(adapter), ["1 c1", "2 paused", "3 done"], "a refused change MUST store none of its records");
    },
  },
  {
    name: "log.conditions",
    promise:
      "checks in each write's atomic step that the newest checkpoint and the last event are those that the caller expects",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      const log = requireLog(adapter);
      same(await log.append("t", [event("e1")], { expectedSequence: 0, noEventAfter: 0 }), 1, "both hold at first");
      same(await adapter.append(draft("t", "c1"), { expectedSequence: 0 }), 2, "records are no checkpoints");
      const refusesAll = async (condition: AppendCondition, why: string) => {
        const check = (call: Promise<unknown>, how: string) =>
          refused("CHECKPOINT_CONFLICT", call, `${how} MUST be refused if ${why}`);
        await check(log.append("t", [record("late")], condition), "log.append");
        await check(adapter.append(draft("t", "late"), condition), "append");
        await check(adapter.setStatus("t", "c1", { status: "paused" }, condition), "setStatus");
        await check(adapter.remove("t", ["c1"], condition), "remove");
        await check(log.remove("t", {}, condition), "log.remove");
      };
      await refusesAll({ expectedSequence: 1 }, "the newest checkpoint is another one");
      await refusesAll({ noEventAfter: 0 }, "there is a newer event");
      same(await log.append("t", [record("r3")], { expectedSequence: 2, noEventAfter: 1 }), 3, "both hold");
      same(await log.append("t", [event("e4")], { noEventAfter: 3 }), 4, "another record is no event");
      await refusesAll({ noEventAfter: 3 }, "there is a newer event");
      await log.remove("t", { kinds: ["event"] });
      await refusesAll({ noEventAfter: 3 }, "there is a newer event whose body was removed");
      const rivals = await Promise.allSettled(
        Array.from({ length: 5 }, (_, index) => log.append("t", [event(`rival${index}`)], { noEventAfter: 4 })),
      );
      const winners = rivals.filter(({ status }) => status === "fulfilled");
      same(winners.length, 1, "exactly one of the appends that expect the same last event MUST win");
    },
  },
  {
    name: "log.fencing",
    promise: "refuses records under a lease that its caller has lost",
    about: "log",
    async run(store) {
      if (!store.offers.includes("leases")) return;
      const adapter = await store.open();
      const log = requireLog(adapter);
      await log.append("t", [record("a")]);
      const { token } = await requireLeases(adapter).claim("t", "one", 600_000);
      same(await log.append("t", [record("b")], { fencingToken: token }), 2, "the holder MUST be able to write");
      await requireLeases(adapter).claim("t", "other", 600_000, { force: true });
      const condition = { fencingToken: token };
      await refused("LEASE_LOST", log.append("t", [record("late")], condition), "log.append MUST check the token");
      await refused("LEASE_LOST", log.remove("t", {}, condition), "log.remove MUST check the token");
      const withRecords = adapter.append(draft("t", "late"), condition, { records: [record("late")] });
      await refused("LEASE_LOST", withRecords, "append MUST check the token");
      same(await nameLog(adapter), ["1 a", "2 b"], "a write under a lost lease MUST store and remove nothing");
    },
  },
  {
    name: "log.event-ids",
    promise: "stores an event once, no matter how many times it is sent, and refuses another value under its id",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const first = event("approve", { id: "one" });
      same(await requireLog(adapter).append("t", [first], {}, { lazy: true }), 1, "the first event takes 1");
      await appendAll(adapter, drafts("t", 1));
      adapter = await store.carryOn(adapter);
      const stale = { expectedSequence: 0, noEventAfter: 0 };
      const again = await requireLog(adapter).append("t", [{ ...first, createdAt: "2026-02-02T00:00:00.000Z" }], stale);
      same(again, 1, "a repeated event MUST return its sequence, regardless of its time and the condition");
      for (const other of [event("approve", { id: "one", body: "1" }), { ...first, name: "reject" }]) {
        const call = requireLog(adapter).append("t", [other]);
        await refused("CHECKPOINT_CONFLICT", call, "another value or name under a stored event's id MUST be refused");
      }
      await requireLog(adapter).append("u", [event("approve", { id: "one", body: "1" })]);
      const batch = [event("x"), event("y")];
      same(await requireLog(adapter).append("t", batch), 4, "ids of other tasks and names MUST NOT count");
      same(await requireLog(adapter).append("t", batch), 4, "a repeated batch of events MUST return its last sequence");
      const apart = requireLog(adapter).append("t", [batch[1] ?? first, batch[0] ?? first]);
      await refused("CHECKPOINT_CONFLICT", apart, "events that are stored in another order aren't a retry");
      await requireLog(adapter).remove("t", {});
      adapter = await store.carryOn(adapter);
      same(await requireLog(adapter).append("t", [first]), 1, "an event MUST be recognised after its body was removed");
      const changed = requireLog(adapter).append("t", [event("approve", { id: "one", body: "1" })]);
      await refused("CHECKPOINT_CONFLICT", changed, "its digest MUST also be kept");
      const withCheckpoint = adapter.append(draft("t", "c2"), {}, { records: [first] });
      await refused("CHECKPOINT_CONFLICT", withCheckpoint, "a checkpoint with an event that is stored MUST be refused");
      const withStatus = adapter.setStatus("t", "c1", { status: "paused" }, {}, { records: [first] });
      await refused("CHECKPOINT_CONFLICT", withStatus, "a status with an event that is stored MUST be refused");
      for (const twice of [event("x", { id: "two" }), event("x", { id: "two", body: "1" })]) {
        const records = [event("x", { id: "two" }), twice];
        const calls = [
          () => requireLog(adapter).append("t", records),
          () => adapter.append(draft("t", "c2"), {}, { records }),
          () => adapter.setStatus("t", "c1", { status: "paused" }, {}, { records }),
        ];
        for (const call of calls)
          await refused("CHECKPOINT_CONFLICT", call(), "an id twice in a batch MUST be refused");
      }
      const kept = await adapter.get("t", "c1");
      same(kept && "status" in kept && kept.status, "running", "a refused batch MUST NOT change the status");
      same((await readLog(adapter)).length, 4, "nothing MUST be stored twice");
    },
  },
  {
    name: "log.exact-sequence",
    promise: "takes an exact first sequence above the last one",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const append = (firstSequence: number) => requireLog(adapter).append("t", steps("s", 2), {}, { firstSequence });
      same(await append(5), 6, "log.append MUST take the given sequences");
      await refused("CHECKPOINT_CONFLICT", append(6), "a sequence that is taken MUST be refused");
      await refused("CHECKPOINT_CONFLICT", append(2), "a sequence below the last one MUST be refused");
      adapter = await store.carryOn(adapter);
      same(await append(2 ** 40), 2 ** 40 + 1, "large sequences MUST work like small ones");
      same(await adapter.append(draft("t", "c1")), 2 ** 40 + 2, "the next append MUST take a higher sequence");
    },
  },
  {
    name: "log.remove",
    promise: "removes the selected records and nothing else, and reports the highest removed sequence",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const log = () => requireLog(adapter);
      await log().append("t", [record("a"), record("b", { kind: "chunk" }), record("m", { kind: "mark" })]);
      await appendAll(adapter, [draft("t", "c1"), draft("u", "c1")]);
      await log().append("t", [record("a"), record("d"), record("m", { kind: "mark" })]);
      await log().append("u", [record("a")]);
      const marks = await log().remove("t", { kinds: ["mark"], beforeSequence: 7 });
      same(marks, 1, "log.remove MUST return the number of removed records");
      adapter = await store.carryOn(adapter);
      const [before] = await collect(adapter.tasks({ order: "taskId", prefix: "t" }));
      same(before && "removedUpTo" in before, false, "removed marks MUST NOT count for removedUpTo");
      same(await log().remove("t", { name: "a", beforeSequence: 5 }), 1, "log.remove MUST select by name and range");
      same(await log().remove("t", { name: "missing" }), 0, "log.remove MUST return 0 if nothing is selected");
      same(await log().remove("missing", {}), 0, "log.remove of a missing task MUST return 0");
      adapter = await store.carryOn(adapter);
      same(await nameLog(adapter), ["2 b", "4 c1", "5 a", "6 d", "7 m"], "only the selected records MUST be gone");
      same(await removedUpTo(adapter, "t"), 1, "tasks MUST yield the highest removed sequence");
      same(await log().remove("t", {}), 4, "an empty selection MUST remove all records");
      adapter = await store.carryOn(adapter);
      same(await nameLog(adapter), ["4 c1"], "checkpoints MUST stay");
      same(await removedUpTo(adapter, "t"), 6, "tasks MUST yield the highest removed sequence");
      const [task] = await readTasks(adapter);
      same(task?.lastSequence, 7, "tasks MUST yield the last sequence, even if its record was removed");
      same(await nameLog(adapter, { taskId: "u" }), ["1 c1", "2 a"], "other tasks MUST stay as they are");
      same(await log().append("t", [record("next")]), 8, "log.remove MUST NOT lower the numbering");
      // A log of this many records is longer than a page.
      const many = Array.from({ length: 900 }, (_, n) => record(`s${n}`, { body: JSON.stringify("x".repeat(400)) }));
      await log().append("long", many);
      same(
        await log().remove("long", { beforeSequence: 3 }),
        2,
        "log.remove MUST return the number of removed records",
      );
      adapter = await store.carryOn(adapter);
      const left = many.map(({ name }, at) => `${at + 1} ${name}`).slice(2);
      const how = "a long log MUST be read whole after a removal";
      same(await nameLog(adapter, { taskId: "long" }), left, how);
      same(await nameLog(adapter, { taskId: "long", order: "newest" }), left.toReversed(), how);
      same(
        await nameLog(adapter, { taskId: "long", afterSequence: 800, beforeSequence: 803 }),
        left.slice(798, 800),
        how,
      );
    },
  },
  {
    name: "log.remove-events",
    promise: "removes the bodies of events, and keeps their ids and digests until the task is removed",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await requireLog(adapter).append("t", [event("e"), FULL_RECORD, record("s")]);
      same(await requireLog(adapter).remove("t", { beforeSequence: 3 }), 2, "emptied events count as removed");
      adapter = await store.carryOn(adapter);
      const [first, second, third] = await readLog(adapter);
      for (const [item, one, sequence] of [
        [first, event("e"), 1],
        [second, FULL_RECORD, 2],
      ] as const) {
        holds(item !== undefined && !isCorrupt(item) && isRecord(item), "an event MUST stay without its body");
        const { seal: _seal, ...header } = toRecordHeader(item);
        same(header, headerOfDraft(one, sequence, 0), "an event without its body MUST be a header");
      }
      sameRecord(third, record("s"), 3);
      same(
        await requireLog(adapter).remove("t", { kinds: ["event"] }),
        0,
        "an emptied event MUST NOT be emptied again",
      );
      same(await removedUpTo(adapter, "t"), undefined, "an emptied event isn't removed");
      await adapter.remove("t", "all");
      same(
        await requireLog(adapter).append("t", [event("e", { body: "1" })]),
        1,
        "a removed task's event ids are free",
      );
    },
  },
  {
    name: "log.replace",
    promise: "replaces a record's payload, renews its seal and changes nothing else",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      if (!requireLog(adapter).replacePayloads) return;
      const all = [record("before"), FULL_RECORD, record("after")];
      await requireLog(adapter).append("t", all);
      const change = (sequence: number, former: RecordDraft, later: RecordDraft) => ({
        sequence,
        payload: later.payload,
        expectedSha256: former.payload.sha256,
      });
      const replace = async (...changes: readonly PayloadChange[]) =>
        await requireLog(adapter).replacePayloads?.("t", changes);
      const [later, last] = [record("", { body: JSON.stringify({ text: "changed ".repeat(5000) }) }), record("last")];
      same(await replace(change(2, record("other"), later)), [], "a record with another digest MUST stay as it is");
      same(await replace(change(9, FULL_RECORD, later)), [], "a missing record MUST be left out");
      same(
        await replace(change(2, FULL_RECORD, later), change(1, later, last), change(3, record("after"), last)),
        [2, 3],
        "replacePayloads MUST return the sequences of the records whose payloads it replaced",
      );
      adapter = await store.carryOn(adapter);
      const expected = [
        record("before"),
        { ...FULL_RECORD, payload: later.payload },
        { ...record("after"), payload: last.payload },
      ];
      for (const [index, item] of (await readLog(adapter)).entries()) {
        sameRecord(item, expected[index] ?? FULL_RECORD, index + 1);
      }
      const [first, second] = await Promise.all([
        replace(change(1, record("before"), record("x"))),
        replace(change(1, record("before"), record("y"))),
      ]);
      same([...(first ?? []), ...(second ?? [])], [1], "of two calls that expect the same digest one MUST succeed");
    },
  },
  {
    name: "log.records-only",
    promise: "yields a task that has records only, without a newest checkpoint",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const early = event("early", { createdAt: "2026-01-03T00:00:00.000Z" });
      await requireLog(adapter).append("b", [early]);
      await appendAll(adapter, [draft("a", "c1"), draft("c", "c1")]);
      await requireLog(adapter).append("c", [record("s")]);
      adapter = await store.carryOn(adapter);
      const tasks = await readTasks(adapter);
      const seen = tasks.map(({ taskId, count, newest, last }) => [taskId, count, newest?.id, last?.name]);
      const expected = [
        ["a", 1, "c1", undefined],
        ["b", 0, undefined, "early"],
        ["c", 1, "c1", "s"],
      ];
      same(seen, expected, "tasks MUST yield each task with its newest checkpoint and the last record after it");
      const { seal: _seal, ...last } = tasks[1]?.last ?? { seal: "" };
      same(last, { ...headerOfDraft(early, 1), taskId: "b" }, "the last record MUST be a header with each field");
      const recent = (await collect(adapter.tasks({ order: "recent" }))).map(({ taskId }) => taskId);
      same(recent, ["b", "a", "c"], "a task with records only MUST be ordered by its last record");
      const running = await collect(adapter.tasks({ order: "taskId", status: ["running"] }));
      same(running.length, 2, "a task with records only has no status");
      same(await listIds(adapter.list({ taskId: "b", order: "newest" })), [], "it has no checkpoints");
      same(await adapter.append(draft("b", "c1"), { expectedSequence: 0 }), 2, "expectedSequence 0 MUST hold for it");
      await adapter.remove("c", ["c1"]);
      await requireLog(adapter).remove("c", {});
      adapter = await store.carryOn(adapter);
      const left = (await readTasks(adapter)).map(({ taskId }) => taskId);
      same(left, ["a", "b"], "a task without checkpoints and records MUST NOT be yielded");
    },
  },
  {
    name: "log.removed-with-task",
    promise: "removes the log with its task, and keeps it unchanged when checkpoints are removed",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      for (const taskId of ["t", "t/child", "u"]) {
        await appendAll(adapter, [draft(taskId, "c1")]);
        await requireLog(adapter).append(taskId, [event("e"), record("s")]);
      }
      same(await adapter.remove("t", ["c1"]), 1, "remove MUST return the number of checkpoints");
      adapter = await store.carryOn(adapter);
      same(await nameLog(adapter), ["2 e", "3 s"], "removing a checkpoint MUST NOT change the log");
      same(await adapter.remove("t", "all"), 0, "remove MUST count checkpoints only");
      if (adapter.removePrefix) same(await adapter.removePrefix("t/"), 1, "removePrefix MUST count checkpoints only");
      else await adapter.remove("t/child", "all");
      adapter = await store.carryOn(adapter);
      for (const taskId of ["t", "t/child"]) same(await nameLog(adapter, { taskId }), [], "the log MUST be gone");
      same(await nameLog(adapter, { taskId: "u" }), ["1 c1", "2 e", "3 s"], "other logs MUST stay");
      same((await readTasks(adapter)).length, 1, "a removed task MUST NOT be yielded");
      same(await requireLog(adapter).append("t", [event("e", { body: "1" })]), 1, "its numbering MUST have ended");
    },
  },
  {
    name: "log.independent",
    promise: "copies records and results, so that later changes to them don't reach the store",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      const bytes = Uint8Array.of(1, 2, 3);
      const mutable = { ...record("a", { body: bytes }) };
      const appended = requireLog(adapter).append("t", [mutable]);
      bytes.fill(9);
      mutable.name = "changed";
      await appended;
      const expected = record("a", { body: Uint8Array.of(1, 2, 3) });
      const [item] = await readLog(adapter);
      sameRecord(item, expected, 1);
      if (item && isWhole(item) && typeof item.payload.body !== "string") item.payload.body.fill(7);
      sameRecord((await readLog(adapter))[0], expected, 1);
      Object.freeze(mutable);
      await requireLog(adapter).append("t", Object.freeze([Object.freeze(record("frozen"))]));
    },
  },
  {
    name: "log.one-moment",
    promise: "reads records and checkpoints from one moment, and never adds a record below one that a reader has seen",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      const write = async () => {
        for (let round = 0; round < 30; round++) {
          await adapter.append(draft("t", `c${round}`));
          await requireLog(adapter).append("t", steps(`r${round}-`, 2));
          await pass(round % 3);
        }
      };
      await followWhile(adapter, write());
      same((await readLog(adapter)).length, 90, "everything MUST be stored once");
    },
  },
  {
    name: "log.due",
    promise: "makes a waiting task due at an earlier time, in the same atomic step as its records",
    about: "log",
    async run(store) {
      if (!store.offers.includes("queue")) return;
      const adapter = await store.open();
      const later = "2026-01-02T04:00:00.000Z";
      const dueAt = "2026-01-02T03:30:00.000Z";
      const countDue = async (dueBy: string) => (await adapter.queue?.count({ prefix: "", dueBy }))?.tasks;
      const taskDueAt = async () => (await readTasks(adapter)).find(({ taskId }) => taskId === "t")?.dueAt;
      for (const id of ["c0", "c1"]) await adapter.append(draft("t", id, { status: "paused", dueAt: later }));
      await adapter.append(draft("plain", "c1", { status: "paused" }));
      await adapter.append(draft("done", "c1", { status: "completed", dueAt: later }));
      const late = requireLog(adapter).append("t", [event("late")], { expectedSequence: 7 }, { dueAt });
      await refused("CHECKPOINT_CONFLICT", late, "log.append MUST check its condition");
      same([await taskDueAt(), await countDue(dueAt)], [later, 0], "a refused append MUST NOT make the task due");
      for (const taskId of ["t", "plain", "done", "new"]) {
        await requireLog(adapter).append(taskId, [record("r")], {}, { dueAt });
      }
      same([await taskDueAt(), await countDue(dueAt)], [dueAt, 1], "only a task that is due later MUST become due");
      await requireLog(adapter).append("t", [event("f")], {}, { dueAt: later });
      same(await taskDueAt(), dueAt, "a later time MUST NOT replace an earlier one");
      await requireLog(adapter).remove("t", {});
      same([await taskDueAt(), await countDue(dueAt)], [dueAt, 1], "a removal of records MUST NOT reset the due time");
      await adapter.setStatus("t", "c0", { status: "completed" });
      same(
        [await taskDueAt(), await countDue(dueAt)],
        [dueAt, 1],
        "an older checkpoint's status MUST NOT reset the due time",
      );
      await adapter.remove("t", ["c0"]);
      same(
        [await taskDueAt(), await countDue(dueAt)],
        [dueAt, 1],
        "an older checkpoint's removal MUST NOT reset the due time",
      );
      await adapter.append(draft("t", "c2", { status: "paused", dueAt: later }));
      same([await taskDueAt(), await countDue(dueAt)], [later, 0], "the due time holds until the next checkpoint");
      await requireLog(adapter).append("t", [event("g")], {}, { dueAt });
      await adapter.remove("t", ["c2"]);
      same([await taskDueAt(), await countDue(dueAt)], [later, 0], "removing the newest one MUST reset the due time");
      await requireLog(adapter).append("t", [event("h")], {}, { dueAt });
      await adapter.setStatus("t", "c1", { status: "failed" });
      same([await taskDueAt(), await countDue(later)], [undefined, 0], "a failed task MUST NOT be due");
    },
  },
  {
    name: "log.lazy",
    promise: "reads lazy records immediately, in their place",
    about: "log",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      await requireLog(adapter).append("t", [record("m", { kind: "mark" })], {}, { lazy: true });
      same(await nameLog(adapter), ["1 m"], "a lazy record MUST be readable once its append has resolved");
      await appendAll(adapter, [draft("t", "c1")]);
      await requireLog(adapter).append("t", [record("n", { kind: "mark" })], {}, { lazy: true });
      const durable = await nameLog(adapter, { durableOnly: true });
      same(durable.slice(0, 2), ["1 m", "2 c1"], "a durable write MUST make earlier lazy records durable");
      adapter = await store.carryOn(adapter);
      same(await nameLog(adapter), ["1 m", "2 c1", "3 n"], "lazy records MUST survive a close");
    },
  },
  {
    name: "log.watch",
    promise: "notifies a watcher that a log may have changed, even by another instance",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      if (!requireLog(adapter).watch) return;
      const writers = store.capabilities.multiProcess ? [adapter, await store.open()] : [adapter];
      for (const [index, writer] of writers.entries()) {
        // Makes sure that the folder or database exists, so that it can be watched.
        await requireLog(writer).append("t", [record(`first${index}`)]);
        const isForeign = writer !== adapter;
        const append = () => requireLog(writer).append("t", [record(`r${index}`)]);
        const isTold = await isToldOf(adapter, append, { taskId: "t", isForeign });
        same(isTold, true, "watch MUST report that a task's log has changed");
        const due = draft("due", `c${index}`, { dueAt: "2026-01-02T03:04:05.000Z" });
        const isToldOfDue = await isToldOf(adapter, () => writer.append(due), { isForeign });
        same(isToldOfDue, true, "watch MUST report that a task may be due");
      }
      const { leases } = adapter;
      if (store.capabilities.multiProcess || leases === undefined) return;
      const { token } = await leases.claim("t", "holder", 60_000);
      const isTold = await isToldOf(adapter, () => leases.release("t", token));
      same(
        isTold,
        true,
        "watch MUST report that a lease was released, since idle workers of a single process rely on it",
      );
    },
  },
  {
    name: "log.closed",
    promise: "refuses calls of the log after close",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      await requireLog(adapter).append("t", [record("a")]);
      const log = requireLog(adapter);
      await adapter.close();
      await refused("CLOSED", log.append("t", [record("b")]), "log.append MUST throw a ClosedError");
      await refused("CLOSED", collect(log.read({ taskId: "t", order: "oldest" })), "log.read MUST throw a ClosedError");
      await refused("CLOSED", log.remove("t", {}), "log.remove MUST throw a ClosedError");
    },
  },
  {
    name: "log.lazy-opening",
    promise: "creates nothing when an empty log is read",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      same(await readLog(adapter), [], "the log of a missing task MUST be empty");
      same(await requireLog(adapter).remove("t", {}), 0, "nothing is removed from it");
      await expectStored(adapter, []);
    },
  },
];

async function readTasks(adapter: StorageAdapter): Promise<StoredTask[]> {
  const tasks = await collect(adapter.tasks({ order: "taskId" }));
  return tasks.filter((task): task is StoredTask => !isCorrupt(task));
}

async function removedUpTo(adapter: StorageAdapter, taskId: string): Promise<number | undefined> {
  return (await readTasks(adapter)).find((task) => task.taskId === taskId)?.removedUpTo;
}
