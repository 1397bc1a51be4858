import type { CheckpointQuery, StorageAdapter } from "../../src/contract/adapter.js";
import type { CheckpointStatus, CheckpointSummary } from "../../src/contract/checkpoint.js";
import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { ascending, holds, intact, same, show } from "../check.js";
import type { ConformanceCase } from "../conformance-case.js";
import { draft, drafts } from "../drafts.js";
import { appendAll, appendAtOnce, collect, listIds } from "../steps.js";

/** The cases of `list` and `read`, which take the same query. */
export function selectionCases(operation: "list" | "read"): readonly ConformanceCase[] {
  const select = (adapter: StorageAdapter, query: CheckpointQuery): AsyncIterable<CheckpointSummary | CorruptRecord> =>
    operation === "list" ? adapter.list(query) : adapter.read(query);

  return [
    {
      name: `${operation}.filters`,
      promise: "returns the checkpoints that match every part of the query, in the query's order, up to its limit",
      replayed: true,
      async run(store) {
        let adapter = await store.open();
        const all = await populate(adapter);
        adapter = await store.carryOn(adapter);
        for (const query of filterQueries()) {
          same(
            await listIds(select(adapter, query)),
            expectedIds(all, query),
            `${operation}(${show(query)}) MUST yield the checkpoints that match`,
          );
        }
      },
    },
    {
      name: `${operation}.pages`,
      promise: "skips the first `skip` existing records in range, and returns pages without gaps or overlaps",
      replayed: true,
      async run(store) {
        let adapter = await store.open();
        const all = await populate(adapter);
        adapter = await store.carryOn(adapter);
        for (const query of skipQueries()) {
          same(
            await listIds(select(adapter, query)),
            expectedIds(all, query),
            `${operation}(${show(query)}) MUST yield the checkpoints that match`,
          );
        }
        for (const order of ["newest", "oldest"] as const) {
          const pages: string[] = [];
          let after: Partial<CheckpointQuery> = {};
          for (;;) {
            const page = await collect(select(adapter, { taskId: "t", order, limit: 3, ...after }));
            const checkpoints = page.map((item) => intact(item, `${operation} MUST yield intact checkpoints`));
            const last = checkpoints.at(-1);
            if (!last) break;
            pages.push(...checkpoints.map(({ id }) => id));
            after = order === "newest" ? { beforeSequence: last.sequence } : { afterSequence: last.sequence };
          }
          same(
            pages,
            expectedIds(all, { taskId: "t", order }),
            `pages by ${order === "newest" ? "beforeSequence" : "afterSequence"} and limit MUST contain each checkpoint once`,
          );
        }
      },
    },
    {
      name: `${operation}.many`,
      promise: "returns hundreds of checkpoints correctly",
      async run(store) {
        const adapter = await store.open();
        // Makes more checkpoints than an adapter fetches at once. Two of them, far apart, have the same stage.
        const stages = new Map([
          [3, { stage: "rare" }],
          [298, { stage: "rare" }],
        ]);
        const many = Array.from({ length: 300 }, (_, index) => draft("t", `c${index + 1}`, stages.get(index + 1)));
        const all = await appendAtOnce(adapter, many);
        const middle = all[150]?.sequence ?? 0;
        for (const order of ["newest", "oldest"] as const) {
          for (const query of [
            { taskId: "t", order },
            { taskId: "t", order, limit: 290 },
            { taskId: "t", order, skip: 260, limit: 20 },
            { taskId: "t", order, beforeSequence: middle },
            { taskId: "t", order, afterSequence: middle, limit: 100 },
            { taskId: "t", order, stage: "rare" },
            { taskId: "t", order, stage: "rare", limit: 2 },
          ]) {
            same(
              await listIds(select(adapter, query)),
              expectedIds(all, query),
              `${operation}(${show(query)}) MUST yield the checkpoints that match`,
            );
          }
        }
      },
    },
    {
      name: `${operation}.nothing`,
      promise: "returns nothing for a task without checkpoints, even if tasks with similar names have some",
      replayed: true,
      async run(store) {
        let adapter = await store.open();
        await appendAll(adapter, [
          draft("task", "a"),
          draft("task-2", "b"),
          draft("task/sub", "c"),
          draft("TASK", "d"),
        ]);
        adapter = await store.carryOn(adapter);
        same(
          await listIds(select(adapter, { taskId: "nowhere", order: "newest" })),
          [],
          "an unknown task MUST have no checkpoints",
        );
        same(
          await listIds(select(adapter, { taskId: "tas", order: "newest" })),
          [],
          "an unknown task MUST have no checkpoints",
        );
        for (const [taskId, id] of Object.entries({ task: "a", "task-2": "b", "task/sub": "c", TASK: "d" })) {
          same(
            await listIds(select(adapter, { taskId, order: "newest" })),
            [id],
            `task ${show(taskId)} MUST contain only its own checkpoints`,
          );
        }
      },
    },
    {
      name: `${operation}.while-writing`,
      promise:
        "keeps iterating while checkpoints are appended, changed and removed, and yields each unchanged checkpoint once",
      async run(store) {
        const adapter = await store.open();
        await appendAll(adapter, drafts("t", 10));
        for (const order of ["oldest", "newest"] as const) {
          const given: number[] = [];
          const ids: string[] = [];
          for await (const item of select(adapter, { taskId: "t", order })) {
            const found = intact(item, `${operation} MUST yield no corrupt record because of a concurrent write`);
            given.push(order === "oldest" ? found.sequence : -found.sequence);
            ids.push(found.id);
            if (ids.length === 2) {
              // The iteration must be neither blocked nor broken by writes to checkpoints before, behind and at its
              // position.
              await adapter.remove("t", order === "oldest" ? ["c1", "c5"] : ["c8", "c10"]);
              await adapter.setStatus("t", "c6", { status: "paused" });
              await adapter.append(draft("t", `during-${order}`));
              await adapter.get("t", "c7");
            }
          }
          ascending(given, `${operation} MUST keep its order during other writes`);
          const stayed =
            order === "oldest"
              ? ["c2", "c3", "c4", "c6", "c7", "c8", "c9", "c10"]
              : ["c2", "c3", "c4", "c6", "c7", "c9"];
          const missing = stayed.filter((id) => !ids.includes(id));
          same(missing, [], `${operation} MUST yield every checkpoint that existed all along; it yielded ${show(ids)}`);
        }
      },
    },
    {
      name: `${operation}.interleaved`,
      promise: "lets several iterations run side by side",
      async run(store) {
        const adapter = await store.open();
        await appendAll(adapter, [...drafts("t", 4), ...drafts("u", 4)]);
        const pairs: string[] = [];
        const other = select(adapter, { taskId: "u", order: "newest" })[Symbol.asyncIterator]();
        for await (const item of select(adapter, { taskId: "t", order: "oldest" })) {
          const next = await other.next();
          const mine = intact(item, `${operation} MUST yield intact checkpoints`);
          pairs.push(
            `${mine.id} ${next.done ? "nothing" : intact(next.value, "the other iteration MUST also yield intact checkpoints").id}`,
          );
        }
        await other.return?.();
        same(pairs, ["c1 c4", "c2 c3", "c3 c2", "c4 c1"], "iterations MUST be independent of each other");
      },
    },
    {
      name: `${operation}.early-break`,
      promise: "leaves the store usable after an iteration breaks early",
      async run(store) {
        const adapter = await store.open();
        await appendAll(adapter, drafts("t", 5));
        for (let time = 0; time < 3; time++) {
          for await (const item of select(adapter, { taskId: "t", order: "newest" })) {
            holds(!("corrupt" in item), `${operation} MUST yield intact checkpoints`);
            break;
          }
        }
        await adapter.append(draft("t", "after"));
        same(
          await adapter.setStatus("t", "c5", { status: "paused" }),
          true,
          "setStatus MUST work after an iteration was broken off",
        );
        same(await adapter.remove("t", ["c1"]), 1, "remove MUST work after an iteration was broken off");
        same(
          await listIds(select(adapter, { taskId: "t", order: "oldest" })),
          ["c2", "c3", "c4", "c5", "after"],
          `${operation} MUST start from the beginning after an iteration was broken off`,
        );
      },
    },
  ];
}

/**
 * Appends twelve checkpoints with different stages and statuses, and removes two of them: one in the middle and the
 * last.
 */
async function populate(adapter: StorageAdapter): Promise<readonly CheckpointSummary[]> {
  const stages = ["gate", "build", undefined, "Gate"];
  const statuses: CheckpointStatus[] = ["running", "failed", "paused", "running", "completed"];
  const all: CheckpointSummary[] = [];
  for (let number = 1; number <= 12; number++) {
    const stage = stages[number % stages.length];
    const status = statuses[number % statuses.length] ?? "running";
    const one = draft("t", `c${number}`, { status, ...(stage === undefined ? {} : { stage }) });
    all.push({ ...one, sequence: await adapter.append(one) });
  }
  await adapter.append(draft("neighbour", "c5", { stage: "gate" }));
  await adapter.remove("t", ["c4", "c12"]);
  return all.filter(({ id }) => id !== "c4" && id !== "c12");
}

/** Computes the ids that the query must return, in the simplest way. */
function expectedIds(all: readonly CheckpointSummary[], query: CheckpointQuery): string[] {
  const { beforeSequence = Number.POSITIVE_INFINITY, afterSequence = 0, stage, status, skip = 0, limit } = query;
  const found = all.filter(
    (one) =>
      one.sequence < beforeSequence &&
      one.sequence > afterSequence &&
      (stage === undefined || one.stage === stage) &&
      (status === undefined || status.includes(one.status)),
  );
  if (query.order === "newest") found.reverse();
  return found.slice(skip, limit === undefined ? undefined : skip + limit).map(({ id }) => id);
}

function* filterQueries(): Iterable<CheckpointQuery> {
  for (const range of ranges()) {
    for (const stage of [undefined, "gate", "nowhere"]) {
      for (const status of [undefined, ["running"], ["failed", "paused"]] as const) {
        for (const limit of [undefined, 1, 3]) yield { ...range, stage, status, limit };
      }
    }
  }
}

function* skipQueries(): Iterable<CheckpointQuery> {
  for (const range of ranges()) {
    for (const skip of [0, 1, 4, 100]) {
      for (const limit of [undefined, 2]) yield { ...range, skip, limit };
    }
  }
}

function* ranges(): Iterable<CheckpointQuery> {
  for (const order of ["newest", "oldest"] as const) {
    yield { taskId: "t", order };
    yield { taskId: "t", order, beforeSequence: 9 };
    yield { taskId: "t", order, afterSequence: 3 };
    yield { taskId: "t", order, beforeSequence: 9, afterSequence: 3 };
    yield { taskId: "t", order, beforeSequence: 1, afterSequence: 100 };
  }
}
