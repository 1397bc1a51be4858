// manager.follow: records that are there, and those that come.
import { describe, expect, it } from "vitest";
import { CheckpointManager, type Run, type StorageAdapter } from "waymark";
import { deferred } from "../../support/deferred.js";
import { recordingLogger } from "../../support/recording-logger.js";
import { managerOn, STORAGES } from "./run-support.js";

type Item = { readonly kind: string; readonly sequence: number; readonly name?: string };
type Following = AsyncGenerator<Item, void, void>;

const titleOf = ({ kind, name }: Item) => (name === undefined ? kind : `${kind} ${name}`);

async function collectAll(following: Following): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of following) items.push(item);
  return items;
}

/** The next item with this title. */
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

it("a follower is told what a policy has removed before it could read it", async () => {
  const { manager } = managerOn<{ at: number }>(undefined, { retention: { keepLast: 1 } });
  const loop = async (run: Run<{ at: number }>) => {
    const { at } = run.state;
    await run.step("work", () => at);
    return at === 5 ? undefined : run.next({ at: at + 1 });
  };
  await manager.run("t", loop, { initialState: { at: 0 } });
  const items = await collectAll(manager.follow("t", { afterSequence: 1 }));
  expect(items[0]).toMatchObject({ kind: "removed", taskId: "t" });
  expect(items[0]?.sequence).toBeLessThan(items[1]?.sequence ?? 0);
  expect((await collectAll(manager.follow("t"))).map(({ kind }) => kind)).not.toContain("removed");
});

it("a follower ends when its signal aborts, and when its manager closes", async () => {
  const { manager } = managerOn();
  const { sequence: afterSequence } = await manager.save("t", 1);
  const controller = new AbortController();
  const stopped = manager.follow("t", { afterSequence, signal: controller.signal }).next();
  controller.abort(new RangeError("enough"));
  await expect(stopped).rejects.toThrow("enough");
  const closed = manager.follow("t", { afterSequence }).next();
  await Promise.all([expect(closed).rejects.toMatchObject({ code: "CLOSED" }), manager.close()]);
});

it("a misspelled option of a follower is refused by name", async () => {
  const { manager } = managerOn();
  // @ts-expect-error `after` is no option.
  await expect(manager.follow("t", { after: 1 }).next()).rejects.toThrow(/after/);
  await expect(manager.follow("t", { afterSequence: -1 }).next()).rejects.toThrow(/afterSequence/);
});
