// Tests manager.follow with records that are already stored and with new ones.
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { CheckpointManager, type StorageAdapter } from "waymark";
import type { TaskLog } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { draft } from "../../../conformance/drafts.js";
import { record } from "../../../conformance/records.js";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { tempFolder } from "../../support/temp-folder.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, STORAGES } from "./run-support.js";

type Item = { readonly kind: string; readonly sequence: number; readonly name?: string };
type Following = AsyncGenerator<Item, void, void>;

const titleOf = ({ kind, name }: Item) => (name === undefined ? kind : `${kind} ${name}`);

async function collectAll(following: Following): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of following) items.push(item);
  return items;
}

/** Resolves to the next item with this title. */
async function next(following: Following, title: string): Promise<Item> {
  for (;;) {
    const { value } = await following.next();
    if (value === undefined) throw new Error(`It ended without ${title}.`);
    if (titleOf(value) === title) return value;
  }
}

/** Another process of the same storage, as far as a follower can see. */
function otherManager(storage: StorageAdapter): CheckpointManager {
  return new CheckpointManager({ storage, ownsStorage: false, logger: recordingLogger() });
}

describe.each(Object.entries(STORAGES))("a follower on %s", (_name, open) => {
  it("gets what is there and what comes, once and in order, and ends with the run", async () => {
    const storage = await open();
    const { manager } = managerOn(storage);
    const middle = deferred();
    const running = manager.run("t", async (run) => {
      await run.step("a", () => 1);
      await middle.promise;
      await run.step("b", () => 2);
      return "done";
    });
    const following: Following = otherManager(storage).follow("t");
    const a = await next(following, "step a");
    middle.resolve();
    const rest = await collectAll(following);
    expect(await running).toBe("done");
    const sequences = [a, ...rest].map(({ sequence }) => sequence);
    expect(sequences).toEqual([...new Set(sequences)].sort((x, y) => x - y));
    expect(rest.map(titleOf)).toContain("step b");
    expect(rest.at(-1)).toMatchObject({ kind: "checkpoint", status: "completed" });
    const again = await collectAll(manager.follow("t", { afterSequence: a.sequence, kinds: ["step"] }));
    expect(again.map(titleOf)).toEqual(["step b"]);
    await storage.close();
  });

  it("stays after the newest checkpoint was removed, also if it begins then", async () => {
    const storage = await open();
    const { manager } = managerOn(storage);
    for (const at of [1, 2]) await manager.save("t", { at });
    const followers: Following[] = [manager.follow("t"), manager.follow("t", { afterSequence: 2 })];
    const [early, late] = followers;
    for (const sequence of [1, 2]) expect((await early?.next())?.value).toMatchObject({ sequence });
    const waiting = early?.next();
    await manager.remove("t", (await manager.latest("t"))!.id);
    const next = [waiting, late?.next()];
    await manager.save("t", { at: 3 });
    for (const one of next) expect((await one)?.value).toMatchObject({ kind: "checkpoint", sequence: 3 });
    for (const one of followers) await one.return();
    await storage.close();
  });
});

it("a follower waits for a task that doesn't exist yet, and so does who wants its result", async () => {
  const { manager } = managerOn();
  const following = manager.follow("t", { kinds: ["step"] });
  const [first, result] = [following.next(), manager.result("t")];
  await manager.run("t", (run) => run.step("a", () => 1));
  expect(await first).toMatchObject({ value: { kind: "step", name: "a" } });
  expect(await following.next()).toEqual({ done: true, value: undefined });
  expect(await result).toBe(1);
});

it("a follower reads on where another one stopped, over several pages", async () => {
  const { manager } = managerOn();
  await manager.run("t", async (run) => {
    for (let step = 0; step < 250; step++) await run.step(`s${step}`, () => step);
  });
  const following: Following = manager.follow("t", { kinds: ["step"] });
  const { sequence } = await next(following, "step s119");
  await following.return();
  const rest = await collectAll(manager.follow("t", { afterSequence: sequence, kinds: ["step"] }));
  expect(rest.map(titleOf)).toEqual(Array.from({ length: 130 }, (_, step) => `step s${step + 120}`));
});

it("a follower ends with a failed run, and with a cancelled one", async () => {
  const { manager } = managerOn();
  await expect(manager.run("failed", () => Promise.reject(new RangeError("no")))).rejects.toThrow("no");
  expect((await collectAll(manager.follow("failed"))).at(-1)).toMatchObject({ status: "failed" });
  await manager.enqueue("cancelled", {});
  const following: Following = manager.follow("cancelled");
  await next(following, "checkpoint");
  await manager.cancel("cancelled", "no longer wanted");
  const rest = await collectAll(following);
  expect(rest.map(titleOf)).toContain("run");
});

it("a follower of a removed task is told so, also if the task was begun again", async () => {
  const { manager } = managerOn();
  const { sequence } = await manager.save("t", { at: 1 });
  const [first, second]: Following[] = [manager.follow("t"), manager.follow("t", { afterSequence: sequence + 5 })];
  await first?.next();
  await manager.removeTask("t");
  const removed = { code: "CHECKPOINT_NOT_FOUND", taskId: "t" };
  await expect(first?.next()).rejects.toMatchObject(removed);
  await manager.save("t", { at: 1 });
  await expect(second?.next()).rejects.toMatchObject(removed);
});

it("a follower is told what a policy has removed before it could read it, also behind a record that stays", async () => {
  const { manager } = managerOn();
  await manager.run("t", async (run) => {
    for (const name of ["a", "b"]) await run.step(name, async ({ write }) => write(`chunk of ${name}`));
  });
  await manager.retention.prune("t", { chunks: { maxBytes: 0 } });
  const items = await collectAll(manager.follow("t", { afterSequence: 1 }));
  const steps = items.filter(({ kind }) => kind === "step");
  expect(items[0]).toMatchObject({ kind: "removed", taskId: "t", sequence: 1 });
  expect(items[0]).toHaveProperty("upToSequence", (steps[1]?.sequence ?? 0) - 1);
  expect(items.filter(({ kind }) => kind === "removed" || kind === "chunk")).toHaveLength(1);
  expect(steps.map(titleOf)).toEqual(["step a", "step b"]);
  const { sequence: afterSequence } = steps[1]!;
  for (const options of [{}, { afterSequence }])
    expect((await collectAll(manager.follow("t", options))).map(({ kind }) => kind)).not.toContain("removed");
});

it("a removal between two looks of a follower hides no record that stays", async () => {
  const inner = new MemoryAdapter();
  let beforeLook: (() => Promise<unknown>) | undefined;
  const storage = withMembers(inner, {
    async *tasks(query) {
      const before = beforeLook;
      beforeLook = undefined;
      await before?.();
      yield* inner.tasks(query);
    },
  });
  const { manager } = managerOn(storage);
  const other = managerOn(inner).manager;
  const [going, stored] = [deferred(), deferred()];
  const running = other.run("t", async (run) => {
    await run.step("a", () => 1);
    await going.promise;
    await run.step("b", async ({ write }) => write("of b"));
    stored.resolve();
    await going.promise;
  });
  const following: Following = manager.follow("t");
  await next(following, "step a");
  // Its page is empty, and then it sees a removal that is newer than a record that it hasn't read.
  beforeLook = async () => {
    going.resolve();
    await stored.promise;
    await inner.log.remove("t", { kinds: ["chunk"] });
  };
  const rest = await collectAll(following);
  expect(rest.map(titleOf)).toContain("step b");
  await running;
});

it("a follower that is left while it waits ends at once", async () => {
  const { manager } = managerOn();
  const { sequence: afterSequence } = await manager.save("t", 1);
  const following = manager.follow("t", { afterSequence });
  const pending = following.next();
  await following.return();
  expect(await pending).toEqual({ done: true, value: undefined });
});

it("a follower of a task isn't misled by another one whose id begins with the task's", async () => {
  const { manager } = managerOn();
  await manager.save("t/1", 1, { status: "completed" });
  const following: Following = manager.follow("t");
  const first = following.next();
  await manager.run("t", (run) => run.step("a", () => 1));
  expect((await first).value).toMatchObject({ kind: "checkpoint", taskId: "t" });
  expect((await collectAll(following)).map(titleOf)).toContain("step a");
});

it("a damaged checkpoint isn't taken for a removed task", async () => {
  const path = join(await tempFolder(), "store.db");
  const { manager, storage } = managerOn(openStorage(`sqlite:${path}`));
  for (const turn of [1, 2]) await manager.save("t", turn);
  const following: Following = manager.follow("t");
  for (const sequence of [1, 2]) expect((await following.next()).value).toMatchObject({ sequence });
  const database = new Database(path);
  database.exec("UPDATE waymark_checkpoints SET seal = zeroblob(32) WHERE sequence = 2");
  database.close();
  const waiting = following.next();
  await manager.save("t", 3, { status: "completed" });
  expect((await waiting).value).toMatchObject({ sequence: 3 });
  expect(await following.next()).toEqual({ done: true, value: undefined });
  await storage.close();
});

it("neither a result nor the end of a follower is given before it survives a power cut", async () => {
  const inner = new MemoryAdapter();
  let syncs = 0;
  const synced = deferred();
  const log: TaskLog = {
    ...inner.log,
    async *read(query) {
      syncs += Number(query.durableOnly ?? false);
      if (query.durableOnly) await synced.promise;
      yield* inner.log.read(query);
    },
  };
  const { manager } = managerOn(withMembers(inner, { log }));
  await managerOn(inner).manager.run("t", () => "done");
  let isGiven = false;
  const result = manager.result("t").then((value) => {
    isGiven = true;
    return value;
  });
  while (syncs === 0) await nextTurn();
  await nextTurn();
  expect(isGiven).toBe(false);
  synced.resolve();
  expect(await result).toBe("done");
  expect((await collectAll(manager.follow("t", { kinds: ["chunk"] }))).length).toBe(0);
  expect(syncs).toBeGreaterThan(2);
});

it("a follower doesn't end with a failed run that was put back before its end was durable", async () => {
  const inner = new MemoryAdapter();
  const other = managerOn(inner).manager;
  let putBack: (() => Promise<unknown>) | undefined = () => other.retry("t");
  const log: TaskLog = {
    ...inner.log,
    async *read(query) {
      // The follower checks only the last checkpoint.
      if (query.beforeSequence !== undefined) {
        await putBack?.();
        putBack = undefined;
      }
      yield* inner.log.read(query);
    },
  };
  const { manager } = managerOn(withMembers(inner, { log }));
  await expect(other.run("t", () => Promise.reject(new RangeError("no")))).rejects.toThrow("no");
  const following: Following = manager.follow("t");
  await next(following, "checkpoint");
  const rest = collectAll(following);
  while (putBack !== undefined) await nextTurn();
  await other.run("t", (run) => run.step("a", () => 1));
  expect((await rest).map(titleOf)).toContain("step a");
});

it.each([
  ["100 records", 1, 100],
  ["1 MB", 300_000, 4],
])("a follower reads at most %s ahead", async (_limit, size, expected) => {
  const inner = new MemoryAdapter();
  let readAhead = 0;
  const log: TaskLog = {
    ...inner.log,
    async *read(query) {
      for await (const item of inner.log.read(query)) {
        readAhead += 1;
        yield item;
      }
    },
  };
  const { manager } = managerOn(withMembers(inner, { log }));
  const records = Array.from({ length: 150 }, (_, at) => record(`s${at}`, { body: JSON.stringify("x".repeat(size)) }));
  await inner.log.append("t", records);
  const following: Following = manager.follow("t");
  await next(following, "step s0");
  expect(readAhead).toBe(expected);
  await following.return();
});

it("a follower ends when its signal aborts, and when its manager closes", async () => {
  const { manager } = managerOn();
  const { sequence: afterSequence } = await manager.save("t", 1);
  const controller = new AbortController();
  const stopped = manager.follow("t", { afterSequence, signal: controller.signal }).next();
  controller.abort(new RangeError("enough"));
  await expect(stopped).rejects.toThrow("enough");
  await manager.save("t", 2);
  const another = new AbortController();
  const between = manager.follow("t", { signal: another.signal });
  await between.next();
  another.abort(new RangeError("in the middle of a page"));
  await expect(between.next()).rejects.toThrow("in the middle");
  const closed = manager.follow("t", { afterSequence: afterSequence + 1 }).next();
  await Promise.all([expect(closed).rejects.toMatchObject({ code: "CLOSED" }), manager.close()]);
});

it("a misspelled option of a follower is refused by name", async () => {
  const { manager } = managerOn();
  // @ts-expect-error `after` isn't an option.
  await expect(manager.follow("t", { after: 1 }).next()).rejects.toThrow(/after/);
  await expect(manager.follow("t", { afterSequence: -1 }).next()).rejects.toThrow(/afterSequence/);
});

it("a record that comes after an empty page, and before the look at its task, isn't missed without a hint", async () => {
  const inner = new MemoryAdapter();
  let looks = 0;
  const storage = withMembers<StorageAdapter>(inner, {
    capabilities: { ...inner.capabilities, multiProcess: true },
    log: withMembers(inner.log, { watch: undefined }),
    async *tasks(query) {
      looks += 1;
      if (looks === 3) await inner.append(draft("t", "between"));
      yield* inner.tasks(query);
    },
  });
  const { manager } = managerOn(storage);
  await inner.append(draft("t", "first"));
  const following: Following = manager.follow("t");
  expect((await following.next()).value).toMatchObject({ sequence: 1 });
  expect((await following.next()).value).toMatchObject({ sequence: 2 });
  await following.return();
});
