import type { StorageAdapter } from "../../src/contract/adapter.js";
import { holds, same, sameIds } from "../check.js";
import type { ConformanceCase, ConformanceStore } from "../conformance-case.js";
import { draft } from "../drafts.js";
import type { Call } from "../protocol.js";
import { event, followWhile, isToldOf, nameLog, readLog, record, requireLog, sameRecord, steps } from "../records.js";
import { appendAll, collect, withOpen } from "../steps.js";
import { TURNS } from "./kills.js";

/** The cases of logs that start or kill processes, or damage records. */
export const logKillCases: readonly ConformanceCase[] = [
  {
    name: "log.survives-kill",
    promise: "loses no record, not even a lazy one, if the process is killed after the append has resolved",
    needs: "durable",
    about: "log",
    async run(store) {
      const expected: string[] = [];
      for (const [index, lazy] of [false, true, false].entries()) {
        const records = [record(`a${index}`), event(`e${index}`, { body: largeBody("e") })];
        const other = await store.elsewhere();
        await other.dieAfter({ method: "log.append", args: ["t", records, {}, { lazy }] });
        expected.push(`${2 * index + 1} a${index}`, `${2 * index + 2} e${index}`);
        await withOpen(store, async (adapter) => {
          same(await nameLog(adapter), expected, "records MUST survive a kill once their append has resolved");
          const again = await requireLog(adapter).append("t", records.slice(1));
          same(again, 2 * index + 2, "a repeated event MUST return its stored sequence");
        });
      }
      const other = await store.elsewhere();
      same(await other.dieAfter({ method: "log.remove", args: ["t", { name: "a1" }] }), 1, "log.remove MUST return 1");
      await withOpen(store, async (adapter) => {
        const left = expected.filter((name) => name !== "3 a1");
        same(await nameLog(adapter), left, "removed records MUST stay removed after a kill");
        same(await requireLog(adapter).append("t", [record("next")]), 7, "the numbering MUST survive a kill");
      });
    },
  },
  {
    name: "log.killed-midway",
    promise: "stores a batch whole or not at all if the process is killed midway, and continues afterwards",
    needs: "durable",
    about: "log",
    async run(store) {
      for (const turns of TURNS) {
        const batch = [event(`x${turns}`), record(`y${turns}`, { body: largeBody(`${turns} `) }), record(`z${turns}`)];
        const before = await withOpen(store, (adapter) => readLog(adapter));
        const other = await store.elsewhere();
        const { answered, answer } = await other.dieWithin(turns, { method: "log.append", args: ["t", batch] });
        await withOpen(store, async (adapter) => {
          const after = (await readLog(adapter)).slice(before.length);
          holds(
            after.length === 0 || after.length === 3,
            `a batch MUST be stored whole or not at all: ${after.length}`,
          );
          for (const [index, item] of after.entries()) {
            sameRecord(item, batch[index] ?? batch[0] ?? record(""), (after[0]?.sequence ?? 0) + index);
          }
          if (answered) same(after.at(-1)?.sequence, answer, "log.append MUST be stored once it has resolved");
          await requireLog(adapter).append("t", [record(`after${turns}`)]);
          same((await readLog(adapter)).length, before.length + after.length + 1, "log.append MUST work after a kill");
        });
        if (answered) return;
      }
    },
  },
  {
    name: "log.checkpoint-killed",
    promise: "stores a checkpoint and its records together or not at all if the process is killed midway",
    needs: "durable",
    about: "log",
    async run(store) {
      await withOpen(store, (adapter) => appendAll(adapter, [draft("t", "before")]));
      for (const turns of TURNS) {
        const one = draft("t", `c${turns}`, { body: largeBody(`${turns} `) });
        const records = [event(`e${turns}`), record(`r${turns}`)];
        const before = await withOpen(store, (adapter) => nameLog(adapter));
        const other = await store.elsewhere();
        const { answered } = await other.dieWithin(turns, { method: "append", args: [one, {}, { records }] });
        await withOpen(store, async (adapter) => {
          const names = (await nameLog(adapter)).slice(before.length).map((name) => name.split(" ")[1]);
          const all = [`e${turns}`, `r${turns}`, `c${turns}`];
          same(names, names.length === 0 ? [] : all, "a checkpoint and its records MUST be stored together");
          holds(!answered || names.length === 3, "an acknowledged append MUST be stored");
          await adapter.append(one, {}, { records });
          const repeated = (await nameLog(adapter)).slice(before.length).map((name) => name.split(" ")[1]);
          same(repeated, all, "a repeated append MUST store nothing again");
          same((await adapter.get("t", "before")) !== undefined, true, "earlier checkpoints MUST be there");
        });
        if (answered) return;
      }
    },
  },
  {
    name: "log.status-killed",
    promise: "changes a status and stores its records together or not at all if the process is killed midway",
    needs: "durable",
    about: "log",
    async run(store) {
      await withOpen(store, (adapter) => appendAll(adapter, [draft("t", "c1")]));
      for (const turns of TURNS) {
        const change = { status: "paused", error: { message: `${turns}` } } as const;
        const records = [record(`p${turns}`, { kind: "run" })];
        const other = await store.elsewhere();
        const call: Call = { method: "setStatus", args: ["t", "c1", change, {}, { records }] };
        const { answered } = await other.dieWithin(turns, call);
        await withOpen(store, async (adapter) => {
          const [checkpoint] = await collect(adapter.list({ taskId: "t", order: "newest" }));
          const isChanged =
            checkpoint !== undefined && "error" in checkpoint && checkpoint.error?.message === `${turns}`;
          const found = await readLog(adapter, { name: `p${turns}` });
          same(found.length, isChanged ? 1 : 0, "a change of status and its records MUST be stored together");
          holds(!answered || isChanged, "an acknowledged status MUST be stored");
          sameIds(
            await collect(adapter.read({ taskId: "t", order: "oldest" })),
            ["c1"],
            "the checkpoint MUST be intact",
          );
        });
        if (answered) return;
      }
    },
  },
  {
    name: "log.damage",
    promise: "reports a damaged record regardless of the query's selection, and continues",
    needs: "durable",
    about: "log",
    async run(store) {
      let adapter = await store.open();
      await requireLog(adapter).append("t", steps("s", 3));
      await appendAll(adapter, [draft("t", "c1")]);
      adapter = await store.damageRecord(adapter, "t", 2);
      same(await nameLog(adapter), ["1 s1", "2 corrupt", "3 s3", "4 c1"], "log.read MUST report damage and continue");
      const newest = await nameLog(adapter, { order: "newest" });
      same(newest, ["4 c1", "3 s3", "2 corrupt", "1 s1"], "log.read MUST report damage in either order");
      same(await nameLog(adapter, { afterSequence: 2 }), ["3 s3", "4 c1"], "a range leaves damage out");
      same(await requireLog(adapter).append("t", [record("next")]), 5, "damage MUST NOT end the numbering");
      sameIds(await collect(adapter.list({ taskId: "t", order: "oldest" })), ["c1"], "checkpoints MUST be intact");
      same(await adapter.remove("t", "all"), 1, "a task MUST be removed with its damaged records");
      same(await readLog(adapter), [], "the log MUST be gone");
    },
  },
  {
    name: "log.many-processes",
    promise: "numbers the records and checkpoints of many processes together, and lets no reader see a gap",
    needs: "multiProcess",
    about: "log",
    async run(store) {
      const [here, ...others] = await openEverywhere(store);
      if (!here) return;
      const write = (writer: StorageAdapter, index: number, round: number) =>
        Promise.all([
          requireLog(writer).append("t", steps(`w${index}-${round}-`, 2)),
          requireLog(writer).append("t", [record(`lazy${index}-${round}`)], {}, { lazy: true }),
          writer.append(draft("t", `c${index}-${round}`)),
        ]);
      const writing = others.map(async (writer, index) => {
        for (let round = 0; round < 12; round++) await write(writer, index, round);
      });
      await followWhile(here, Promise.all(writing));
      const all = await nameLog(here);
      same(all.length, others.length * 12 * 4, "every record and checkpoint MUST be stored once");
      for (const reader of others) same(await nameLog(reader), all, "every process MUST see the same log");
    },
  },
  {
    name: "log.watch-anywhere",
    promise: "notifies a watcher that another process has changed a log",
    needs: "multiProcess",
    about: "log",
    async run(store) {
      const adapter = await store.open();
      if (!requireLog(adapter).watch) return;
      const other = await store.elsewhere();
      await requireLog(other).append("t", [record("before")]);
      for (const name of ["first", "second"]) {
        const append = () => requireLog(other).append("t", [record(name)]);
        const isTold = await isToldOf(adapter, append, { taskId: "t", isForeign: true });
        same(isTold, true, "watch MUST report a change by another process");
        same((await readLog(adapter)).at(-1)?.sequence, name === "first" ? 2 : 3, "a reported change MUST be readable");
      }
    },
  },
  {
    name: "log.one-event-anywhere",
    promise: "stores an event once if several processes send it at the same time",
    needs: "multiProcess",
    about: "log",
    async run(store) {
      const writers = await openEverywhere(store);
      for (let round = 1; round <= 5; round++) {
        const sent = await Promise.all(writers.map((writer) => requireLog(writer).append("t", [event(`e${round}`)])));
        same(new Set(sent).size, 1, "every sender MUST get the stored event's sequence");
        const rivals = await Promise.allSettled(
          writers.map((writer, index) => requireLog(writer).append("t", [event(`r${round}`, { body: `${index}` })])),
        );
        same(rivals.filter(({ status }) => status === "fulfilled").length, 1, "one of several values MUST win");
      }
    },
  },
];

async function openEverywhere(store: ConformanceStore) {
  return [await store.open(), await store.elsewhere(), await store.elsewhere(), await store.open()];
}

/** Makes a body of hundreds of kilobytes, which takes more than one write and more than one page. */
function largeBody(text: string): string {
  return JSON.stringify({ text: text.repeat(40_000) });
}
