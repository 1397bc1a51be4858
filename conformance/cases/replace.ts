import type { StorageAdapter } from "../../src/contract/adapter.js";
import { type Payload, type StoredCheckpoint, seal } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { readCode } from "../../src/contract/errors.js";
import { ascending, holds, intact, isReported, refused, same, sameAsEither, show } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { type Appended, draft, drafts, fullDraft } from "../drafts.js";
import { appendAll, collect, expectStored, listSequences, MEETINGS, pass, withOpen } from "../steps.js";
import { TURNS } from "./kills.js";

/** The cases of adapters with `replacePayload`. */
export const replaceCases: readonly ConformanceCase[] = [
  {
    name: "replace.changes",
    promise: "replaces a payload with a payload of another size or kind, and renews the seal",
    about: "replacePayload",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const bodies = [
        Uint8Array.from({ length: 256 }, (_, index) => 255 - index),
        JSON.stringify({ text: "\u2028 \n é 😀".repeat(300) }),
        "null",
        new Uint8Array(70_000).fill(7),
      ];
      for (let one of await appendAll(adapter, [fullDraft("t", "c1")])) {
        for (const body of bodies) {
          const changed = replaced(one, body);
          same(
            await replace(adapter, one, changed.payload),
            true,
            "replacePayload MUST return true if it replaced the payload",
          );
          adapter = await store.carryOn(adapter);
          await expectStored(adapter, [changed]);
          one = changed;
        }
      }
    },
  },
  {
    name: "replace.keeps-the-rest",
    promise: "changes only payload, size and seal, regardless of the status, and no other checkpoint",
    about: "replacePayload",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const completed = draft("t", "done", { status: "completed", stage: "s", label: "l" });
      const before = [draft("t", "before"), completed, fullDraft("t", "after"), draft("u", "done")];
      const all: Appended[] = [];
      for (const one of await appendAll(adapter, before)) {
        const isOne = one.taskId === "t" && one.id === "done";
        if (isOne) await replace(adapter, one, replaced(one, "[1]").payload);
        all.push(isOne ? replaced(one, "[1]") : one);
      }
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, all);
      const again = all.find(({ taskId, id }) => taskId === "t" && id === "done");
      if (again === undefined) return;
      same(
        await adapter.append(again),
        again.sequence,
        "appending the same id with the new payload again MUST return its sequence",
      );
      await refused(
        "CHECKPOINT_CONFLICT",
        adapter.append(completed),
        "appending the same id with the former payload MUST be refused as a conflict",
      );
      const next = await adapter.append(draft("t", "next"));
      ascending([...listSequences(all.slice(0, 3)), next], "replacing a payload MUST NOT disturb the numbering");
    },
  },
  {
    name: "replace.nothing",
    promise: "returns false and changes nothing if the checkpoint doesn't exist or now has another payload",
    about: "replacePayload",
    replayed: true,
    async run(store) {
      let adapter = await store.open();
      const all = await appendAll(adapter, drafts("t", 3));
      const [first, removed, newest] = all;
      if (!first || !removed || !newest) return;
      const { payload } = replaced(first, "[1]");
      await adapter.remove("t", ["c2"]);
      const obligation = "replacePayload MUST return false if there is no such checkpoint";
      same(await replace(adapter, removed, payload), false, `${obligation} any more`);
      same(await replace(adapter, { ...first, id: "c9" }, payload), false, obligation);
      same(await replace(adapter, { ...first, taskId: "nowhere" }, payload), false, obligation);
      same(
        await replace(adapter, { ...first, payload: newest.payload }, payload),
        false,
        "replacePayload MUST return false if the payload isn't the expected one",
      );
      adapter = await store.carryOn(adapter);
      await expectStored(adapter, [first, newest]);
    },
  },
  {
    name: "replace.independent",
    promise: "copies the payload, so later changes to the caller's bytes don't reach the store",
    about: "replacePayload",
    async run(store) {
      const adapter = await store.open();
      for (const one of await appendAll(adapter, drafts("t", 2))) {
        const changed = replaced(one, Uint8Array.of(1, 2, 3));
        const given = Uint8Array.of(1, 2, 3);
        const replacing = replace(adapter, one, { ...changed.payload, body: given });
        given.fill(9);
        same(await replacing, true, "replacePayload MUST replace the payload");
        const found = intact(await adapter.get("t", one.id), "get MUST return the checkpoint");
        same(found.payload, changed.payload, "the payload MUST be stored as it was when replacePayload was called");
      }
    },
  },
  {
    name: "replace.concurrent",
    promise: "lets exactly one of several concurrent calls win, and undoes no other change",
    about: "replacePayload",
    async run(store) {
      const adapter = await store.open();
      const all = await appendAll(adapter, drafts("t", 4));
      for (const one of all) {
        const rivals = [1, 2, 3].map((n) => replaced(one, JSON.stringify([n, one.id])));
        const [outcomes, changed] = await Promise.all([
          Promise.all(rivals.map(({ payload }) => replace(adapter, one, payload))),
          adapter.setStatus("t", one.id, { status: "paused" }),
          adapter.append(draft("t", `beside-${one.id}`)),
        ]);
        same(outcomes.filter(Boolean).length, 1, "exactly one of the calls that expect the same payload MUST win");
        same(changed, true, "setStatus MUST work while a payload is replaced");
        const record = intact(await adapter.get("t", one.id), "get MUST return the checkpoint");
        same(record.payload, rivals[outcomes.indexOf(true)]?.payload, "the winner's payload MUST be stored");
        same(record.status, "paused", "replacing a payload MUST NOT undo a change of status");
        same(record.seal, seal(record), "the seal MUST hold after concurrent changes");
      }
      same((await collect(adapter.list({ taskId: "t", order: "newest" }))).length, 8, "an append MUST NOT be lost");
    },
  },
  {
    name: "replace.one-moment",
    promise: "returns the former or the new payload to a concurrent read, each with its own header",
    about: "replacePayload",
    async run(store) {
      const adapter = await store.open();
      let all = await appendAll(adapter, drafts("t", 4));
      for (const turns of MEETINGS) {
        const next = all.map((one) => replaced(one, JSON.stringify({ turns, id: one.id })));
        const reads = all.flatMap((one) => [
          adapter.get("t", one.id),
          collect(adapter.read({ taskId: "t", order: "newest", limit: 1 })).then(([newest]) => newest),
        ]);
        await pass(turns);
        for (const [at, one] of all.entries()) await replace(adapter, one, next[at]?.payload ?? one.payload);
        for (const found of await Promise.all(reads)) expectEither(found, all, next, "a read");
        all = next;
      }
      const next = all.map((one) => replaced(one, JSON.stringify(["in the middle", one.id])));
      let isFirst = true;
      for await (const found of adapter.read({ taskId: "t", order: "newest" })) {
        expectEither(found, all, next, "read, in the middle of an iteration");
        if (isFirst)
          for (const [at, one] of all.entries()) await replace(adapter, one, next[at]?.payload ?? one.payload);
        isFirst = false;
      }
      await expectStored(adapter, next);
    },
  },
  {
    name: "replace.closed",
    promise: "refuses replacePayload after close",
    about: "replacePayload",
    async run(store) {
      const adapter = await store.open();
      const [one] = await appendAll(adapter, drafts("t", 1));
      await adapter.close();
      if (one)
        await refused(
          "CLOSED",
          replace(adapter, one, replaced(one, "1").payload),
          "replacePayload after close MUST be refused",
        );
    },
  },
  {
    name: "replace.not-laundered",
    promise: "refuses a damaged checkpoint and leaves it as it is, so that damage never looks intact",
    about: "replacePayload",
    needs: "durable",
    async run(store) {
      let adapter = await store.open();
      const [one, beside] = await appendAll(adapter, drafts("t", 2));
      if (!one || !beside) return;
      adapter = await store.damage(adapter, "t", "c1", "summary");
      const outcome = await replace(adapter, one, replaced(one, "1").payload).catch(readCode);
      same(outcome, "CHECKPOINT_CORRUPT", "replacePayload of a damaged checkpoint MUST be refused as corrupt");
      const found = await adapter.get("t", "c1");
      holds(isReported(found), `get MUST still report the damaged checkpoint; it returned ${show(found)}`);
    },
  },
  {
    name: "replace.survives-kill",
    promise:
      "makes a new payload durable before replacePayload resolves, and stores all or nothing of it if killed earlier",
    about: "replacePayload",
    needs: "durable",
    async run(store) {
      const both = [draft("t", "c1", { body: largeBody("first") }), draft("t", "c2")];
      let [one, beside] = await withOpen(store, (adapter) => appendAll(adapter, both));
      if (!one || !beside) return;
      const other = await store.elsewhere();
      const second = replaced(one, largeBody("second"));
      await other.dieAfter({ method: "replacePayload", args: ["t", "c1", second.payload, one.payload.sha256] });
      await withOpen(store, (adapter) => expectStored(adapter, [second, ...(beside ? [beside] : [])]));
      one = second;
      for (const turns of TURNS) {
        const former: Appended = one;
        const next = replaced(former, largeBody(`${turns} `));
        const another = await store.elsewhere();
        const args = ["t", "c1", next.payload, former.payload.sha256] as const;
        const { answered } = await another.dieWithin(turns, { method: "replacePayload", args: [...args] });
        one = await withOpen(store, async (adapter) => {
          const { payload } = intact(
            await adapter.get("t", "c1"),
            "a kill during replacePayload MUST NOT harm the record",
          );
          const isDone = payload.sha256 === next.payload.sha256;
          holds(!answered || isDone, "replacePayload MUST be stored once it has resolved");
          await expectStored(adapter, [isDone ? next : former, ...(beside ? [beside] : [])]);
          return isDone ? next : former;
        });
        if (answered) return;
      }
    },
  },
  {
    name: "replace.many-processes",
    promise: "lets exactly one of several processes win if they expect the same payload",
    about: "replacePayload",
    needs: "multiProcess",
    async run(store) {
      const here = await store.open();
      const rivals = [here, await store.open(), await store.elsewhere(), await store.elsewhere()];
      for (let one of await appendAll(here, drafts("t", 3))) {
        for (let round = 1; round <= 3; round++) {
          const offers = rivals.map((_, index) => replaced(one, JSON.stringify([one.id, round, index])));
          const outcomes = await Promise.all(
            rivals.map((rival, index) => replace(rival, one, offers[index]?.payload ?? one.payload)),
          );
          same(outcomes.filter(Boolean).length, 1, "exactly one of the calls that expect the same payload MUST win");
          one = offers[outcomes.indexOf(true)] ?? one;
          for (const reader of rivals) {
            const found = intact(await reader.get("t", one.id), "get MUST return the checkpoint");
            same(found.payload, one.payload, "every process MUST see the winner's payload at once");
          }
        }
      }
    },
  },
];

function expectEither(
  found: StoredCheckpoint | CorruptRecord | undefined,
  all: readonly Appended[],
  next: readonly Appended[],
  how: string,
): void {
  const record = intact(found, `${how} MUST NOT miss a checkpoint or report damage while its payload is replaced`);
  const both = [all, next].map((those) => those.find(({ id }) => id === record.id));
  if (both[0] && both[1]) sameAsEither(record, [both[0], both[1]], how);
}

/** Returns the checkpoint `one` with `body` as its payload. */
function replaced(one: Appended, body: string | Uint8Array): Appended {
  const { payload, sizeBytes } = draft(one.taskId, one.id, { body });
  return { ...one, payload, sizeBytes };
}

async function replace(adapter: StorageAdapter, one: Appended, payload: Payload): Promise<boolean> {
  holds(adapter.replacePayload !== undefined, "an adapter whose harness offers replacePayload MUST have it");
  return adapter.replacePayload(one.taskId, one.id, payload, one.payload.sha256);
}

/** Makes a body of tens of kilobytes or more, which takes more than one write and more than one page. */
function largeBody(text: string): string {
  return JSON.stringify({ text: text.repeat(20_000) });
}
