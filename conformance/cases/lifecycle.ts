import { readdirSync, statSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { StorageAdapter } from "../../src/contract/adapter.js";
import { readCode } from "../../src/contract/errors.js";
import { holds, refused, same } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { type Appended, draft, drafts, fullDraft } from "../drafts.js";
import { OPTIONAL_METHODS } from "../harness.js";
import { appendAll, appendAtOnce, collect, expectStored, listIds } from "../steps.js";

/** The cases about opening and closing. */
export const lifecycleCases: readonly ConformanceCase[] = [
  {
    name: "capabilities.declared",
    promise: "has a name, and the capabilities and optional methods that its harness declares",
    async run(store) {
      const adapter = await store.open();
      const { durable, multiProcess } = adapter.capabilities;
      const declared = "the harness MUST declare the adapter's capabilities, because they decide which cases run";
      same({ durable, multiProcess }, { ...store.capabilities }, declared);
      const has = OPTIONAL_METHODS.filter((method) => adapter[method] !== undefined);
      same(has, [...store.offers].sort(), "the harness MUST name the optional methods that the adapter has");
      holds(adapter.name.length > 0, "an adapter MUST have a name, for messages");
    },
  },
  {
    name: "lifecycle.lazy",
    promise: "returns nothing from an empty store, and creates nothing before the first write",
    async run(store) {
      const before = footprint(store.location);
      const adapter = await store.open();
      same(await adapter.get("t", "c1"), undefined, "get of an empty store MUST return undefined");
      same(
        await listIds(adapter.list({ taskId: "t", order: "newest" })),
        [],
        "list of an empty store MUST yield nothing",
      );
      same(
        await listIds(adapter.read({ taskId: "t", order: "newest" })),
        [],
        "read of an empty store MUST yield nothing",
      );
      same(await collect(adapter.tasks({ order: "taskId" })), [], "tasks of an empty store MUST yield nothing");
      same(await collect(adapter.tasks({ order: "recent" })), [], "tasks of an empty store MUST yield nothing");
      same(
        await adapter.setStatus("t", "c1", { status: "paused" }),
        false,
        "setStatus MUST return false if there is no such checkpoint",
      );
      same(await adapter.remove("t", ["c1"]), 0, "remove MUST return 0 if there is nothing to remove");
      same(await adapter.remove("t", "all"), 0, "remove MUST return 0 if there is nothing to remove");
      same(footprint(store.location), before, "an adapter MUST NOT create anything before the first write");
      await adapter.append(draft("t", "c1"));
      same(
        await listIds(adapter.list({ taskId: "t", order: "newest" })),
        ["c1"],
        "the first write MUST work after reads of the empty store",
      );
    },
  },
  {
    name: "lifecycle.reopened",
    promise: "keeps everything it acknowledged after it is closed and reopened",
    needs: "durable",
    async run(store) {
      let adapter = await store.open();
      const all: Appended[] = [];
      for (const one of [...drafts("t", 3), fullDraft("t", "full"), ...drafts("u", 2)]) {
        all.push(...(await appendAll(adapter, [one])));
        adapter = await store.reopen(adapter);
      }
      await expectStored(adapter, all);
      await adapter.setStatus("t", "c3", { status: "completed" });
      await adapter.remove("t", ["c1"]);
      await adapter.remove("u", "all");
      adapter = await store.reopen(adapter);
      const left = all.filter((one) => one.taskId === "t" && one.id !== "c1");
      await expectStored(
        adapter,
        left.map((one) => (one.id === "c3" ? { ...one, status: "completed" as const } : one)),
      );
    },
  },
  {
    name: "lifecycle.close-idempotent",
    promise: "can be closed twice, even concurrently, and before its first use",
    async run(store) {
      const unused = await store.open();
      await unused.close();
      await unused.close();
      const adapter = await store.open();
      await adapter.append(draft("t", "c1"));
      await Promise.all([adapter.close(), adapter.close()]);
      await adapter.close();
    },
  },
  {
    name: "lifecycle.closed",
    promise: "refuses every call after close with the code CLOSED",
    async run(store) {
      const used = await store.open();
      await appendAll(used, drafts("t", 2));
      await used.close();
      await expectClosed(used);
      const unused = await store.open();
      await unused.close();
      await expectClosed(unused);
    },
  },
  {
    name: "lifecycle.close-waits",
    promise: "finishes the calls in progress before it closes",
    async run(store) {
      const adapter = await store.open();
      const first = await appendAll(adapter, drafts("t", 3));
      const large = draft("v", "late", { body: JSON.stringify("v".repeat(100_000)) });
      const appends = appendAtOnce(adapter, [draft("t", "late"), draft("u", "late"), large]);
      const others = Promise.all([adapter.setStatus("t", "c2", { status: "paused" }), adapter.remove("t", ["c1"])]);
      let settled = 0;
      const count = () => {
        settled++;
      };
      for (const calls of [appends, others]) calls.then(count, count);
      await adapter.close();
      // By the end of this turn, the callbacks of all calls that settled before `close` resolved have run.
      await nextTurn();
      same(settled, 2, "close MUST wait for the running calls");

      const added = await appends;
      same(await others, [true, 1], "calls made before close MUST complete");
      if (!store.capabilities.durable) return;
      const kept = first.slice(1).map((one) => (one.id === "c2" ? { ...one, status: "paused" as const } : one));
      await expectStored(await store.open(), [...kept, ...added]);
    },
  },
  {
    name: "lifecycle.close-beside-iteration",
    promise: "doesn't wait at close for an abandoned iteration",
    async run(store) {
      const adapter = await store.open();
      await appendAll(adapter, drafts("t", 3));
      const iterations = [
        adapter.read({ taskId: "t", order: "newest" }),
        adapter.list({ taskId: "t", order: "newest" }),
        adapter.tasks({ order: "taskId" }),
      ].map((iterable) => iterable[Symbol.asyncIterator]());
      for (const iteration of iterations) await iteration.next();
      await adapter.close();
      for (const iteration of iterations) {
        const outcome = await iteration.next().then(() => "CLOSED", readCode);
        same(
          outcome,
          "CLOSED",
          "an iteration that continues after close MUST yield the remaining items, or be refused as closed",
        );
      }
    },
  },
];

async function expectClosed(adapter: StorageAdapter): Promise<void> {
  const query = { taskId: "t", order: "newest" } as const;
  // An adapter may refuse the call when it makes the iterable, or when the iterable is first read.
  const calls: Record<string, () => Promise<unknown>> = {
    append: () => adapter.append(draft("t", "after")),
    get: () => adapter.get("t", "c1"),
    setStatus: () => adapter.setStatus("t", "c1", { status: "paused" }),
    remove: () => adapter.remove("t", ["c1"]),
    'remove of "all"': () => adapter.remove("t", "all"),
    read: async () => collect(adapter.read(query)),
    list: async () => collect(adapter.list(query)),
    tasks: async () => collect(adapter.tasks({ order: "taskId" })),
  };
  for (const [name, call] of Object.entries(calls)) {
    await refused("CLOSED", call(), `${name} after close MUST be refused`);
  }
}

/**
 * Lists every file under a path with its size. The list is empty if the path doesn't exist, or the location isn't a
 * path.
 */
function footprint(location: string): string[] {
  const found = statSync(location, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return found ? [`${location} ${found.size}`] : [];
  return readdirSync(location, { recursive: true, encoding: "utf8" }).sort();
}
