import { setImmediate as nextTurn } from "node:timers/promises";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { seal } from "../../src/contract/checkpoint.js";
import { isCorrupt } from "../../src/contract/corrupt-record.js";
import { readCode } from "../../src/contract/errors.js";
import { ascending, intact, refused, same, sameAsAppended, show } from "../check.js";
import type { ConformanceCase, ConformanceStore } from "../conformance-case.js";
import { type Appended, draft, drafts, fullDraft } from "../drafts.js";
import {
  appendAll,
  appendAtOnce,
  collect,
  expectStored,
  listIds,
  listSequences,
  sinceRemoval,
  soleWinner,
} from "../steps.js";

/** The cases of adapters that declare `multiProcess`. */
export const processCases: readonly ConformanceCase[] = [
  {
    name: "append.many-processes",
    promise: "is safe to call from many processes at once, for one task and for many tasks",
    needs: "multiProcess",
    async run(store) {
      const writers = await everybody(store);
      // All processes write once before any of them continues, so that an instance that counts sequences on its own
      // fails, even if the later writes don't overlap.
      const first: Appended[] = [];
      for (const [index, writer] of writers.entries()) {
        first.push(...(await appendAtOnce(writer, [draft("shared", `first-${index}`)])));
      }
      const appended = await Promise.all(
        writers.map((writer, index) => {
          const shared = Array.from({ length: 20 }, (_, number) => draft("shared", `w${index}-${number}`));
          const others = Array.from({ length: 12 }, (_, number) => draft(`task-${number % 4}`, `w${index}-${number}`));
          return appendAtOnce(writer, [...shared, ...others]);
        }),
      );
      for (const own of appended) {
        const sequences = listSequences(own.filter(({ taskId }) => taskId === "shared"));
        ascending(sequences, "appends of one task through one instance MUST take sequences in call order");
      }
      const all = [...first, ...appended.flat()];
      const given = listSequences(all.filter(({ taskId }) => taskId === "shared"));
      same(new Set(given).size, given.length, "a sequence MUST never be used twice, not even by another process");
      for (const reader of writers.slice(1, 3)) await expectStored(reader, all);
      // After one instance has closed, the others must still work.
      await writers[0]?.close();
      for (const reader of writers.slice(1, 3)) await expectStored(reader, all);
    },
  },
  {
    name: "append.one-winner-anywhere",
    promise: "lets exactly one of several processes win if they expect the same newest checkpoint",
    needs: "multiProcess",
    async run(store) {
      const rivals = await everybody(store);
      let newest = 0;
      for (let round = 1; round <= 10; round++) {
        newest = await soleWinner(
          rivals.map((rival, index) => rival.append(draft("t", `r${round}-${index}`), { expectedSequence: newest })),
        );
      }
      for (const rival of rivals) {
        const ids = await listIds(rival.list({ taskId: "t", order: "oldest" }));
        same(
          ids.length,
          10,
          `each of the 10 rounds MUST store only the winner's checkpoint; stored in all: ${show(ids)}`,
        );
      }
    },
  },
  {
    name: "append.one-id-anywhere",
    promise: "stores a checkpoint once if several processes append its id at the same time",
    needs: "multiProcess",
    async run(store) {
      const writers = await everybody(store);
      for (let round = 1; round <= 5; round++) {
        const one = draft("t", `same-${round}`);
        const sequences = await Promise.all(writers.map((writer) => writer.append(one)));
        same(new Set(sequences).size, 1, "appending the same draft again MUST return its stored sequence");
        const others = writers.map((writer, index) =>
          writer.append(draft("t", `other-${round}`, { body: JSON.stringify(index) })),
        );
        await soleWinner(others);
      }
      const [first] = writers;
      if (!first) return;
      same((await listIds(first.list({ taskId: "t", order: "oldest" }))).length, 10, "each id MUST be stored once");
    },
  },
  {
    name: "processes.see-each-other",
    promise: "immediately sees what another instance or process wrote, and never reuses its sequences",
    needs: "multiProcess",
    async run(store) {
      const [here, beside] = [await store.open(), await store.open()];
      const there = await store.elsewhere();
      const bytes = draft("t", "c3", { body: Uint8Array.of(0, 255, 128) });
      const all: Appended[] = [];
      for (const [writer, one] of [
        [here, draft("t", "c1")],
        [there, fullDraft("t", "c2")],
        [beside, bytes],
      ] as const) {
        all.push(...(await appendAll(writer, [one])));
        for (const reader of [here, there, beside]) await expectStored(reader, all);
      }

      await refused(
        "CHECKPOINT_CONFLICT",
        here.append(draft("t", "late"), { expectedSequence: all[0]?.sequence }),
        "a condition MUST be checked against other processes' writes",
      );
      await there.setStatus("t", "c1", { status: "completed" });
      await refused(
        "CHECKPOINT_CONFLICT",
        here.setStatus("t", "c1", { status: "paused" }),
        "a checkpoint MUST never leave completed, even if another process completed it",
      );
      await there.remove("t", ["c3"]);
      same(await here.get("t", "c3"), undefined, "a checkpoint that another process removed MUST be gone");
      const next = await here.append(draft("t", "next"));
      const obligation = "a sequence MUST never be used twice, even if another process removed its checkpoint";
      ascending([...listSequences(all), next], obligation);
      await there.remove("t", "all");
      for (const reader of [here, there, beside]) await expectStored(reader, []);
      same(await beside.append(draft("t", "anew")), 1, "a task MUST begin at 1 after another process removed it");
      const second = await there.append(draft("t", "anew-2"), { expectedSequence: 1 });
      ascending([1, second], "the new task's numbering MUST continue for every process");
    },
  },
  {
    name: "processes.status-and-remove",
    promise: "changes and removes atomically, even in several processes at once",
    needs: "multiProcess",
    async run(store) {
      const everyone = await everybody(store);
      const [here] = everyone;
      if (!here) return;
      await appendAll(here, drafts("t", 10));
      for (let round = 1; round <= 5; round++) {
        const id = `c${round}`;
        const changes = everyone.flatMap((one, index) =>
          (["paused", index === 2 ? "completed" : "failed", "running"] as const).map((status) =>
            one.setStatus("t", id, { status }),
          ),
        );
        for (const outcome of await Promise.allSettled(changes)) {
          const refusal = outcome.status === "rejected" ? readCode(outcome.reason) : "CHECKPOINT_CONFLICT";
          same(refusal, "CHECKPOINT_CONFLICT", "a change that comes after completed MUST be refused as a conflict");
        }
        const record = intact(await here.get("t", id), "get MUST return the checkpoint");
        same(record.status, "completed", "a checkpoint MUST never leave completed, not even by another process");
        same(record.seal, seal(record), "the seal MUST hold after concurrent changes");
      }
      for (let round = 6; round <= 10; round++) {
        const id = `c${round}`;
        const [counts] = await Promise.all([
          Promise.all(everyone.map((one) => one.remove("t", [id]))),
          Promise.all(everyone.map((one) => one.setStatus("t", id, { status: "paused" }))),
        ]);
        const sum = counts.reduce((total, count) => total + count, 0);
        same(sum, 1, "concurrent removals MUST count each checkpoint once");
        for (const one of everyone) {
          same(
            await one.get("t", id),
            undefined,
            "a removed checkpoint MUST stay removed, even if setStatus is called for it",
          );
        }
      }
      const listed = await collect(here.list({ taskId: "t", order: "oldest" }));
      const statuses = listed.map((one) => intact(one, "list MUST yield the checkpoint").status);
      same(
        statuses,
        Array.from({ length: 5 }, () => "completed"),
        "the checkpoints that weren't removed MUST be there, and completed",
      );
    },
  },
  {
    name: "processes.remove-while-appending",
    promise: "keeps checkpoints that are appended after another process removed the task",
    needs: "multiProcess",
    async run(store) {
      const here = await store.open();
      const there = await store.elsewhere();
      for (let round = 1; round <= 6; round++) {
        await appendAll(here, drafts("t", 2));
        const [remover, writer] = round % 2 === 0 ? [here, there] : [there, here];
        const [, appended] = await Promise.all([
          remover.remove("t", "all"),
          appendAtOnce(writer, drafts("t", 6).slice(2)),
        ]);
        for (const reader of [here, there]) await expectStored(reader, sinceRemoval(appended));
        await here.remove("t", "all");
      }
    },
  },
  {
    name: "processes.killed-beside",
    promise: "keeps working while another process is killed during a write",
    needs: "multiProcess",
    async run(store) {
      const here = await store.open();
      const stored = await appendAll(here, drafts("t", 2));
      for (const turns of [1, 4, 16, 64, 256]) {
        const one = draft("t", `killed-${turns}`, { body: JSON.stringify("x".repeat(200_000)) });
        const other = await store.elsewhere();
        const [appended] = await Promise.all([
          appendAtOnce(here, [draft("t", `beside-${turns}-1`), draft("t", `beside-${turns}-2`)]),
          other.dieWithin(turns, { method: "append", args: [one] }),
        ]);
        // The retry must leave the checkpoint stored once, whether or not the killed process had stored it.
        stored.push(...appended, ...(await appendAll(here, [one])));
        await expectStored(here, stored);
      }
    },
  },
  {
    name: "processes.read-while-writing",
    promise: "returns only intact checkpoints while another process appends, changes and removes",
    needs: "multiProcess",
    async run(store) {
      const here = await store.open();
      const there = await store.elsewhere();
      const steady = await appendAll(here, drafts("t", 5));
      for (let round = 0; round < 5; round++) {
        const writes = Promise.all(
          Array.from({ length: 8 }, async (_, n) => {
            const id = `r${round}-${n}`;
            await there.append(draft("t", id, { body: JSON.stringify("x".repeat(20_000)) }));
            await there.setStatus("t", id, { status: "paused" });
            await there.remove("t", [id]);
          }),
        );
        let writing = true;
        const stop = () => {
          writing = false;
        };
        writes.then(stop, stop);
        while (writing) {
          // Reading may be synchronous, so let the other process's answers arrive.
          await nextTurn();
          const read = await collect(here.read({ taskId: "t", order: "oldest" }));
          for (const [index, one] of steady.entries()) {
            sameAsAppended(read[index], one, "read, while another process writes,");
          }
          for (const record of read) {
            const whole = intact(record, "read MUST yield no corrupt record because another process writes");
            same(whole.seal, seal(whole), "read MUST yield records whose seal holds while another process writes");
          }
          const listed = await collect(here.list({ taskId: "t", order: "oldest" }));
          same(listed.filter(isCorrupt), [], "list MUST yield no corrupt record because another process writes");
          for (const task of await collect(here.tasks({ order: "recent" }))) {
            intact(task, "tasks MUST yield no corrupt record because another process writes");
          }
        }
        await writes;
      }
      await expectStored(here, steady);
    },
  },
];

/** Returns two instances in this process and two in other processes. None has opened the store yet. */
async function everybody(store: ConformanceStore): Promise<readonly StorageAdapter[]> {
  return [await store.open(), await store.open(), ...(await Promise.all([store.elsewhere(), store.elsewhere()]))];
}
