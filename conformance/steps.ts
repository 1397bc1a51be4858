import { setImmediate as nextTurn } from "node:timers/promises";
import type { StorageAdapter } from "../src/contract/adapter.js";
import { type CheckpointDraft, type CheckpointSummary, compareTaskIds, toSummary } from "../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../src/contract/corrupt-record.js";
import { readCode } from "../src/contract/errors.js";
import type { LeaseStore } from "../src/contract/leases.js";
import { explainDamage, same, sameAsAppended } from "./check.js";
import type { ConformanceStore } from "./conformance-case.js";
import type { Appended } from "./drafts.js";

/** Appends the drafts one after another. */
export async function appendAll(adapter: StorageAdapter, all: readonly CheckpointDraft[]): Promise<Appended[]> {
  const appended: Appended[] = [];
  for (const one of all) appended.push({ ...one, sequence: await adapter.append(one) });
  return appended;
}

/** Appends all drafts at the same time. */
export async function appendAtOnce(adapter: StorageAdapter, all: readonly CheckpointDraft[]): Promise<Appended[]> {
  return Promise.all(all.map(async (one) => ({ ...one, sequence: await adapter.append(one) })));
}

/** Waits for this many turns of the event loop, so that other calls proceed. */
export async function pass(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await nextTurn();
}

/**
 * The numbers of event loop turns that the second of two calls waits. With each number, the calls overlap at another
 * point.
 */
export const MEETINGS: readonly number[] = [0, 1, 2, 5];

/** Runs the body with an instance, then closes the instance. */
export async function withOpen<Result>(
  store: ConformanceStore,
  body: (adapter: StorageAdapter) => Promise<Result>,
): Promise<Result> {
  const adapter = await store.open();
  const result = await body(adapter);
  await adapter.close();
  return result;
}

/** Lists the sequences, in the order of the appends. */
export function listSequences(appended: readonly Appended[]): number[] {
  return appended.map(({ sequence }) => sequence);
}

/** Collects all items of an iterable. */
export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

/** Lists the ids of summaries or records, in order. For a corrupt item, lists a description of its damage. */
export async function listIds(items: AsyncIterable<CheckpointSummary | CorruptRecord>): Promise<string[]> {
  return (await collect(items)).map((item) => (isCorrupt(item) ? `corrupt: ${explainDamage(item)}` : item.id));
}

/** Throws unless exactly these checkpoints are stored, and every reading method returns them whole. */
export async function expectStored(adapter: StorageAdapter, all: readonly Appended[]): Promise<void> {
  const byTask = new Map<string, Appended[]>();
  for (const one of all) byTask.set(one.taskId, [...(byTask.get(one.taskId) ?? []), one]);
  for (const [taskId, those] of byTask) {
    those.sort((a, b) => a.sequence - b.sequence);
    for (const one of those) sameAsAppended(await adapter.get(taskId, one.id), one, "get");
    const read = await collect(adapter.read({ taskId, order: "oldest" }));
    same(read.length, those.length, `read MUST yield each checkpoint of ${JSON.stringify(taskId)} once`);
    for (const [index, one] of those.entries()) sameAsAppended(read[index], one, "read");
    same(
      await collect(adapter.list({ taskId, order: "oldest" })),
      those.map(toSummary),
      `list MUST yield the summaries of ${JSON.stringify(taskId)}, each field as it was appended`,
    );
  }
  // `dueAt` isn't compared, because a running task may keep an earlier time; the cases of the queue test it. The cases
  // of `remove` test `lastSequence`.
  const found = await collect(adapter.tasks({ order: "taskId" }));
  const tasks = found.map((task) => ({ ...task, dueAt: undefined, lastSequence: undefined }));
  same(
    tasks,
    [...byTask]
      .sort(([a], [b]) => compareTaskIds(a, b))
      .map(([taskId, those]) => ({
        taskId,
        count: those.length,
        newest: those.map(toSummary).at(-1),
        dueAt: undefined,
        lastSequence: undefined,
      })),
    "tasks MUST yield each task with its count and its newest checkpoint's summary",
  );
}

export function requireLeases({ leases }: StorageAdapter): LeaseStore {
  if (leases) return leases;
  throw new Error("The adapter has no leases.");
}

/** Waits until no one holds the task's lease. Each wait lasts as long as the lease's remaining time. */
export async function untilFree(leases: LeaseStore, taskId: string): Promise<void> {
  for (;;) {
    const held = await leases.current(taskId);
    if (held === undefined) return;
    await new Promise((resolve) => setTimeout(resolve, held.remainingMs + 1));
  }
}

/** Returns the appends after a concurrent removal of their task: those from the sequence 1 on. */
export function sinceRemoval(appended: readonly Appended[]): readonly Appended[] {
  const first = appended.findIndex(({ sequence }) => sequence === 1);
  return first === -1 ? [] : appended.slice(first);
}

/** Returns the sequence of the one append that won. Throws unless all others were refused as conflicts. */
export async function soleWinner(rivals: readonly Promise<number>[]): Promise<number> {
  const outcomes = await Promise.allSettled(rivals);
  const winners = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const obligation = "exactly one of the appends that expect the same newest checkpoint MUST win";
  same(winners.length, 1, obligation);
  for (const outcome of outcomes) {
    if (outcome.status === "rejected") {
      same(
        readCode(outcome.reason),
        "CHECKPOINT_CONFLICT",
        `${obligation}, and the others MUST be refused as a conflict`,
      );
    }
  }
  return winners[0] ?? 0;
}
