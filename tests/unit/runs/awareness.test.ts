// Tests that other processes' writes are seen without polls: in these tests, an idle poller's pause never ends by
// itself.
import { once } from "node:events";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Runtime, StorageAdapter } from "waymark";
import { openStorage } from "waymark/adapters";
import { realRuntime } from "../../../src/contract/runtime.js";
import { deferred } from "../../support/deferred.js";
import { administer, newPool, newSchema, openAdapter } from "../../support/postgres.js";
import { tempFolder } from "../../support/temp-folder.js";
import { managerOn } from "./run-support.js";

/** The shortest pauses end, as after a change. Longer ones don't, and leases aren't renewed. */
const WITHOUT_POLLS: Runtime = {
  ...realRuntime,
  elapsedMs: () => 0,
  setTimeout: (call, ms, isBackground) => (ms <= 20 ? realRuntime.setTimeout(call, ms, isBackground) : () => undefined),
};

/** Opens the same storage again and again, as other processes would. */
const PLACES: Record<string, () => Promise<() => StorageAdapter>> = {
  "json-file": () => placeIn((folder) => `files:${folder}`),
  "task-file": () => placeIn((folder) => `tasks:${folder}`),
  sqlite: () => placeIn((folder) => `sqlite:${folder}.db`),
  postgres: async () => {
    const place = await newSchema();
    return () => openAdapter(place);
  },
};

async function placeIn(urlOf: (folder: string) => string): Promise<() => StorageAdapter> {
  const url = urlOf(join(await tempFolder(), "store"));
  return () => openStorage(url);
}

/** A manager that sees changes without polls, and another one. */
async function twoManagers(place: string) {
  const open = await PLACES[place]!();
  const { manager: other } = managerOn(open());
  // This makes the folder or the tables.
  await other.save("first", 1);
  const { manager: here } = managerOn(open(), { runtime: WITHOUT_POLLS });
  return { here, other, close: () => Promise.all([here.close(), other.close()]) };
}

const titleOf = (item: object | undefined) => item && "name" in item && item.name;

describe.each(Object.keys(PLACES))("without polls on %s", (place) => {
  it("a follower sees each record of another process, and its end", async () => {
    const { here, other, close } = await twoManagers(place);
    const following = here.follow("t", { kinds: ["step"] });
    const steps = Array.from({ length: 5 }, () => deferred());
    const next = following.next();
    const running = other.run("t", async (run) => {
      for (const [index, step] of steps.entries()) await run.step(`s${index}`, () => step.promise);
    });
    const seen: unknown[] = [];
    for (const [index, step] of steps.entries()) {
      step.resolve();
      seen.push(titleOf((await (index === 0 ? next : following.next())).value ?? undefined));
    }
    expect(seen).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    expect(await following.next()).toEqual({ done: true, value: undefined });
    await running;
    await close();
  });

  it("a follower ends when a task that only has saves is completed", async () => {
    const { here, other, close } = await twoManagers(place);
    await other.save("t", 1);
    const following = here.follow("t");
    expect(await following.next()).toMatchObject({ value: { kind: "checkpoint" } });
    const end = following.next();
    await other.complete("t");
    expect(await end).toEqual({ done: true, value: undefined });
    await close();
  });

  it.each(["alone", "by a prefix"])("a follower sees that its task is removed, %s, and begun again", async (how) => {
    const { here, other, close } = await twoManagers(place);
    await other.save("t", 1);
    const following = here.follow("t");
    await following.next();
    const gone = expect(following.next()).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    await (how === "alone" ? other.removeTask("t") : other.removeTask({ prefix: "t" }));
    await gone;
    const again = here.follow("t");
    const first = again.next();
    await other.save("t", "again");
    expect(await first).toMatchObject({ value: { kind: "checkpoint" } });
    const second = again.next();
    await other.save("t", "once more");
    expect(await second).toMatchObject({ value: { kind: "checkpoint" } });
    await close();
  });

  it("a wait sees the answer of another process, and `result` there the run's end", async () => {
    const { here, other, close } = await twoManagers(place);
    const asked = deferred();
    const waiting = here.run("t", async (run) => {
      await run.step("ask", () => asked.resolve());
      return (await run.waitFor("approve")).value;
    });
    await asked.promise;
    await other.send("t", "approve", "yes");
    expect(await waiting).toBe("yes");
    const result = here.result("later");
    await other.run("later", () => "done");
    expect(await result).toBe("done");
    await close();
  });

  it("a worker begins what another process enqueues", async () => {
    const { here, other, close } = await twoManagers(place);
    const stop = new AbortController();
    const begun = [deferred(), deferred()];
    let count = 0;
    const working = here.work({ prefix: "q/", signal: stop.signal }, () => begun[count++]?.resolve());
    for (const [index, each] of begun.entries()) {
      await other.enqueue(`q/${index}`, {});
      await each.promise;
    }
    stop.abort();
    await working;
    await close();
  });

  it("a run ends that another process cancels", async () => {
    const { here, other, close } = await twoManagers(place);
    const started = deferred();
    const running = here.run("t", (run) =>
      run.step("long", ({ signal }) => {
        started.resolve();
        return once(signal, "abort");
      }),
    );
    const ended = expect(running).rejects.toMatchObject({ code: "RUN_CANCELLED" });
    await started.promise;
    await other.cancel("t", "no longer wanted");
    await ended;
    await close();
  });
});

it("a follower on files waits for a root folder that doesn't exist yet", async () => {
  const folder = join(await tempFolder(), "later");
  const { manager: here } = managerOn(openStorage(`files:${folder}`), { runtime: WITHOUT_POLLS });
  const { manager: other } = managerOn(openStorage(`files:${folder}`));
  const following = here.follow("t");
  const first = following.next();
  await other.save("t", 1);
  expect(await first).toMatchObject({ value: { kind: "checkpoint" } });
  await rm(folder, { recursive: true });
  await mkdir(folder);
  const afterwards = here.follow("u").next();
  await other.save("u", 1);
  expect(await afterwards).toMatchObject({ value: { kind: "checkpoint" } });
  await Promise.all([here.close(), other.close()]);
});

describe("on PostgreSQL", () => {
  it("a follower sees the next record although the server has ended the connection that listens", async () => {
    const { url, schema } = await newSchema();
    const name = schema.slice(0, 60);
    const { manager: other } = managerOn(openAdapter({ url, schema }));
    await other.save("t", 0);
    const named = `${url}${url.includes("?") ? "&" : "?"}application_name=${name}`;
    const { manager: here } = managerOn(openAdapter({ url: named, schema }), { runtime: WITHOUT_POLLS });
    const listening =
      "FROM pg_stat_activity WHERE query LIKE 'LISTEN waymark_%' AND state = 'idle' AND application_name = $1";
    const following = here.follow("t");
    await following.next();
    for (const n of [1, 2]) {
      const next = following.next();
      while ((await administer(url, `SELECT pid ${listening}`, [name])).length === 0);
      await administer(url, `SELECT pg_terminate_backend(pid) ${listening}`, [name]);
      await other.save("t", n);
      expect(await next).toMatchObject({ value: { sequence: n + 1 } });
    }
    await here.close();
  });

  it("a pool of one connection isn't used to listen", async () => {
    const { url, schema } = await newSchema();
    const { manager } = managerOn(openAdapter({ pool: newPool(url, { max: 1 }), schema }));
    await manager.save("t", 0);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const following = manager.follow("t", { afterSequence: 1 });
    const next = following.next();
    await vi.advanceTimersByTimeAsync(10_000);
    vi.useRealTimers();
    await manager.save("t", 1);
    expect(await next).toMatchObject({ value: { sequence: 2 } });
    await following.return();
  });
});
