// Tests that recorded results are returned in the order in which they were recorded.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import type { CheckpointManager, Run, StorageAdapter } from "waymark";
import type { RecordQuery } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { tempFolder } from "../../support/temp-folder.js";
import { managerOn, STORAGES, withWrites } from "./run-support.js";

type Program = (run: Run<unknown, unknown, unknown>) => Promise<unknown>;

/** Pauses the run in its first life while the step `gate` is running. */
async function pausedInGate(manager: CheckpointManager, program: Program): Promise<void> {
  const deploy = new AbortController();
  const stop = manager.on("stepStarted", ({ step }) => {
    if (step === "gate") deploy.abort();
  });
  await expect(manager.run("t", program, { signal: deploy.signal })).rejects.toMatchObject({ code: "RUN_PAUSED" });
  stop();
}

/** Ends with the gate only after the run has been paused in it once. */
function gate() {
  let lives = 0;
  return ({ signal }: { readonly signal: AbortSignal }) => {
    lives += 1;
    if (lives > 1) return undefined;
    return new Promise((_, reject) => {
      const stop = () => reject(new Error("paused"));
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop);
    });
  };
}

it.each(Object.entries(STORAGES))("the winner of a race of steps wins it on a resume, too (%s)", async (_, open) => {
  const storage = await open();
  const { manager } = managerOn(storage);
  const last = gate();
  const used: string[] = [];
  const program: Program = async (run) => {
    let free: () => void = () => undefined;
    const other = new Promise<void>((resolve) => {
      free = resolve;
    });
    const slow = run.step("slow", async () => {
      await other;
      return "slow";
    });
    const fast = run.step("fast", () => "fast");
    const winner = await Promise.race([slow, fast]);
    free();
    await run.step(`use ${winner}`, () => used.push(winner));
    await slow;
    await run.step("gate", last);
    return winner;
  };
  await pausedInGate(manager, program);
  expect(await manager.run("t", program)).toBe("fast");
  expect(used).toEqual(["fast"]);
  await storage.close();
});

it("a limit that won a race against a wait wins it on a resume, though the event has come since", async () => {
  const { manager } = managerOn();
  const last = gate();
  const program: Program = async (run) => {
    const approved = run.waitFor("approve");
    const limit = run.sleepUntil("limit", new Date(Date.now() + 1));
    const winner = await Promise.race([approved.then(() => "approved"), limit.then(() => "nobody")]);
    if (winner === "nobody") {
      await run.step("escalate", async () => {
        await manager.send("t", "approve");
      });
      await approved;
    }
    await run.step("gate", last);
    return winner;
  };
  await pausedInGate(manager, program);
  expect(await manager.run("t", program)).toBe("nobody");
});

it.each(Object.entries(STORAGES))(
  "an event that came in time wins against a limit, also if the run comes back later (%s)",
  async (_, open) => {
    const storage = await open();
    const clock = { nowMs: Date.UTC(2026, 0, 1) };
    const { manager } = managerOn(storage, { clock: () => clock.nowMs });
    const limit = new Date(clock.nowMs + 1000);
    const program: Program = async (run) =>
      Promise.race([
        run.sleepUntil("limit", limit).then(() => "nobody"),
        run.waitFor("approve").then(() => "approved"),
      ]);
    const deploy = new AbortController();
    manager.on("waitStarted", () => deploy.abort());
    await expect(manager.run("t", program, { signal: deploy.signal })).rejects.toMatchObject({ code: "RUN_PAUSED" });
    await manager.send("t", "approve");
    clock.nowMs += 60_000;
    expect(await manager.run("t", program)).toBe("approved");
    await storage.close();
  },
);

/**
 * Makes a storage whose reads take some turns, like a server's. Each read takes one turn more than the previous one.
 */
function readSlowly(storage: MemoryAdapter): StorageAdapter {
  const { list, read, log } = storage;
  let turns = 0;
  async function* later<Item>(items: AsyncIterable<Item>) {
    turns += 5;
    for (let turn = turns; turn > 0; turn -= 1) await nextTurn();
    yield* items;
  }
  storage.list = (query) => later(list.call(storage, query));
  storage.read = (query) => later(read.call(storage, query));
  Object.assign(storage, { log: { ...log, read: (query: RecordQuery) => later(log.read(query)) } });
  return storage;
}

it("an event that came in time wins against a limit, also if a resume reads slowly", async () => {
  const clock = { nowMs: Date.UTC(2026, 0, 1) };
  const { manager } = managerOn(readSlowly(new MemoryAdapter()), { clock: () => clock.nowMs });
  const limit = new Date(clock.nowMs + 1000);
  const program: Program = async (run) =>
    Promise.race([
      run.sleepUntil("limit", limit).then(() => "nobody"),
      run.waitFor("approve", { timeoutMs: 100_000 }).then(() => "approved"),
    ]);
  const deploy = new AbortController();
  let waits = 0;
  manager.on("waitStarted", () => {
    waits += 1;
    if (waits === 2) deploy.abort();
  });
  await expect(manager.run("t", program, { signal: deploy.signal })).rejects.toMatchObject({ code: "RUN_PAUSED" });
  await manager.send("t", "approve");
  clock.nowMs += 60_000;
  expect(await manager.run("t", program)).toBe("approved");
});

it("an event that comes before a limit wins against it, though the start of its wait is still being written", async () => {
  const clock = { nowMs: Date.UTC(2026, 0, 1) };
  const limit = new Date(clock.nowMs + 60_000);
  const slow = withWrites(new MemoryAdapter(), async (call, isLazy) => {
    const sequence = await call();
    if (!isLazy) return sequence;
    await manager.send("t", "approve");
    clock.nowMs = limit.getTime();
    // Wakes the sleep.
    await manager.send("t", "other");
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    return sequence;
  });
  const { manager } = managerOn(slow, { clock: () => clock.nowMs });
  const program: Program = async (run) => {
    const sleeps = new Promise<void>((resolve) => manager.on("waitStarted", () => resolve()));
    const limited = run.sleepUntil("limit", limit).then(() => "nobody");
    await sleeps;
    return Promise.race([limited, run.waitFor("approve").then(() => "approved")]);
  };
  expect(await manager.run("t", program)).toBe("approved");
});

it.each([
  ["at once", (storage: MemoryAdapter) => storage],
  ["slowly", readSlowly],
])("an event of another process wins against the limit that ends before it is found (reads %s)", async (_, open) => {
  const storage = open(new MemoryAdapter());
  const clock = { nowMs: Date.UTC(2026, 0, 1) };
  const { manager } = managerOn(storage, { clock: () => clock.nowMs });
  const other = managerOn(storage).manager;
  const limit = new Date(clock.nowMs + 100);
  let waits = 0;
  manager.on("waitStarted", () => {
    waits += 1;
    if (waits < 2) return;
    void other.send("t", "approve").then(() => {
      clock.nowMs = limit.getTime();
    });
  });
  const program: Program = (run) =>
    Promise.race([run.sleepUntil("limit", limit).then(() => "nobody"), run.waitFor("approve").then(() => "approved")]);
  expect(await manager.run("t", program)).toBe("approved");
});

it("a milestone beside a wait is given in order, in the first run as in a resume", async () => {
  const { manager } = managerOn();
  const last = gate();
  const orders: string[] = [];
  const program: Program = async (run) => {
    const order: string[] = [];
    const answer = run.waitFor("answer").then(() => order.push("answer"));
    await run.step("send", async () => {
      await manager.send("t", "answer", 5);
    });
    await run.save({ n: 1 });
    order.push("save");
    await answer;
    orders.push(order.join());
    await run.step("gate", last);
  };
  await pausedInGate(manager, program);
  await manager.run("t", program);
  expect(orders[1]).toBe(orders[0]);
});

it("Promise.any takes the result that was recorded first, after the recorded errors", async () => {
  const { manager } = managerOn();
  const last = gate();
  const program: Program = async (run) => {
    const seen: string[] = [];
    const recordEnd = async (name: string, step: Promise<string>) => {
      try {
        return await step;
      } finally {
        seen.push(name);
      }
    };
    let free: () => void = () => undefined;
    const other = new Promise<void>((resolve) => {
      free = resolve;
    });
    const first = await Promise.any([
      recordEnd(
        "late",
        run.step("late", async () => {
          await other;
          return "late";
        }),
      ),
      recordEnd(
        "bad",
        run.step<string>("bad", () => {
          throw new Error("bad");
        }),
      ),
      recordEnd(
        "good",
        run.step("good", async () => {
          await new Promise((resolve) => setImmediate(resolve));
          return "good";
        }),
      ),
    ]);
    free();
    await run.step("then", () => 1);
    await run.step("gate", last);
    return [first, ...seen.slice(0, 2)];
  };
  await pausedInGate(manager, program);
  expect(await manager.run("t", program)).toEqual(["good", "bad", "good"]);
});

it.each<[string, Program]>([
  ["at first", async () => undefined],
  ["after a step", (run) => run.step("before", () => 1)],
  [
    "after a step and a request",
    async (run) => {
      await run.step("before", () => 1);
      await readFile(import.meta.filename);
    },
  ],
])("a new step can't overtake a recorded one, even if its call comes first (%s)", async (_, before) => {
  const storage = openStorage(`sqlite:${join(await tempFolder(), "store.db")}`);
  const { manager } = managerOn(storage);
  const last = gate();
  let isResume = false;
  const program: Program = async (run) => {
    await before(run);
    const fresh = isResume ? [run.step("new", () => "new")] : [];
    const old = async () => {
      // The call comes some microtasks later.
      for (let tick = 0; tick < 20; tick += 1) await Promise.resolve();
      return run.step("old", () => "old");
    };
    const winner = await Promise.race([...fresh, old()]);
    await Promise.all(fresh);
    await run.step("gate", last);
    return winner;
  };
  await pausedInGate(manager, program);
  isResume = true;
  expect(await manager.run("t", program)).toBe("old");
  await storage.close();
});

it("steps whose results share a save return one after another, also in the first run", async () => {
  const { manager } = managerOn();
  const last = gate();
  const winners: string[] = [];
  const program: Program = async (run) => {
    let free: () => void = () => undefined;
    const both = new Promise<void>((resolve) => {
      free = resolve;
    });
    const step = (name: string) =>
      run.step(name, async () => {
        await both;
        return name;
      });
    // The first result passes through more promises than the second.
    let first: Promise<string> = step("first");
    for (let hop = 0; hop < 20; hop += 1) first = first.then((name) => name);
    const second = step("second");
    free();
    winners.push(await Promise.race([first, second]));
    await Promise.all([first, second]);
    await run.step("gate", last);
  };
  await pausedInGate(manager, program);
  await manager.run("t", program);
  expect(winners).toEqual(["first", "first"]);
});

it("so are the results of two saves", async () => {
  const { manager } = managerOn();
  const last = gate();
  const winners: string[] = [];
  const program: Program = async (run) => {
    const slowly = async (step: Promise<string>) => {
      const name = await step;
      for (let hop = 0; hop < 5; hop += 1) await Promise.resolve();
      return name;
    };
    const before = ["w", "x", "y"].map((name) => run.step(name, () => name));
    const first = run.step("first", () => "first");
    // It ends while the results before it are saved.
    const second = run.step("second", async () => {
      await nextTurn();
      return "second";
    });
    winners.push(await Promise.race([slowly(first), second]));
    await Promise.all([...before, first, second]);
    await run.step("gate", last);
  };
  await pausedInGate(manager, program);
  await manager.run("t", program);
  expect(winners).toEqual(["first", "first"]);
});

it("chains of steps side by side share their saves", async () => {
  const { manager } = managerOn();
  let saves = 0;
  manager.on("saved", () => {
    saves += 1;
  });
  await manager.run("t", (run) =>
    Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        for (const name of ["load", "use", "tell"]) await run.step(`${name} ${n}`, () => n);
      }),
    ),
  );
  // The run's start and its end, and a few for each link of the chains.
  expect(saves).toBeLessThan(12);
});

it("a wait that was under way looks for its event after all recorded results", async () => {
  const { manager } = managerOn();
  const last = gate();
  const program: Program = async (run) => {
    const steps = async () => {
      for (let n = 0; n < 20; n += 1) await run.step(`${n}`, () => n);
      return "steps";
    };
    const winner = await Promise.race([run.waitFor("message").then(() => "message"), steps()]);
    await run.step("gate", last);
    return winner;
  };
  await pausedInGate(manager, program);
  await manager.send("t", "message");
  expect(await manager.run("t", program)).toBe("steps");
});

it("a wait that looks once its turn is over leaves the event to the next turn", async () => {
  const { manager } = managerOn();
  const deploy = new AbortController();
  const program = async (run: Run<{ readonly turn: number }>) => {
    const message = run.waitFor("message");
    if (run.state.turn === 2) return (await message).value;
    await Promise.race([message, run.step("tick", () => 1)]);
    deploy.abort();
    return run.next({ turn: 2 });
  };
  const options = { initialState: { turn: 1 } };
  const paused = manager.run("t", program, { ...options, signal: deploy.signal });
  await expect(paused).rejects.toMatchObject({ code: "RUN_PAUSED" });
  await manager.send("t", "message", 7);
  expect(await manager.run("t", program, options)).toBe(7);
});

it("an event that comes while a race against it is lost stays for the next turn", async () => {
  const { manager, storage } = managerOn();
  const append = storage.append.bind(storage);
  let hasTicked = false;
  storage.append = async (draft, ...how) => {
    if (draft.taskId === "t" && hasTicked) {
      hasTicked = false;
      await manager.send("t", "message", 7);
    }
    return append(draft, ...how);
  };
  const program = async (run: Run<{ readonly turn: number }>) => {
    const message = run.waitFor("message");
    if (run.state.turn === 2) return (await message).value;
    await run.step("before", () => 1);
    const tick = run.step("tick", () => {
      hasTicked = true;
    });
    await Promise.race([message, tick]);
    return run.next({ turn: 2 });
  };
  expect(await manager.run("t", program, { initialState: { turn: 1 } })).toBe(7);
});

it("a step that waits for its turn doesn't begin after a stop", async () => {
  const { manager } = managerOn();
  const began: string[] = [];
  const life = (...more: readonly string[]) => {
    const stopping = new AbortController();
    const program: Program = async (run) => {
      const recorded = run.step("recorded", () => 1);
      const others = more.map((name) => run.step(name, () => began.push(name)));
      await recorded;
      stopping.abort();
      await Promise.all(others);
      return run.step("last", () => 1);
    };
    return manager.run("t", program, { signal: stopping.signal });
  };
  await expect(life()).rejects.toMatchObject({ code: "RUN_PAUSED" });
  await expect(life("new")).rejects.toMatchObject({ code: "RUN_PAUSED" });
  expect(began).toEqual([]);
});

it("milestones may be saved while an event comes", async () => {
  const storage = openStorage(`files:${join(await tempFolder(), "store")}`);
  const { manager } = managerOn(storage);
  const got = await manager.run("t", async (run: Run<unknown, unknown, unknown>) => {
    const answer = run.waitFor("answer");
    await run.step("a", () => 1);
    const sent = manager.send("t", "answer", 5);
    for (let n = 0; n < 20; n += 1) await run.save({ n });
    await sent;
    return (await answer).value;
  });
  expect(got).toBe(5);
  await storage.close();
});

it("a milestone may be saved beside a wait whose end is recorded after it", async () => {
  const { manager } = managerOn();
  const last = gate();
  const program: Program = async (run) => {
    const answer = run.waitFor("answer");
    await run.step("a", () => 1);
    await run.save({ n: 1 });
    await run.step("send", async () => {
      await manager.send("t", "answer", 5);
    });
    const { value } = await answer;
    await run.step("gate", last);
    return value;
  };
  await pausedInGate(manager, program);
  expect(await manager.run("t", program)).toBe(5);
});

it("the loser of a race keeps its record", async () => {
  const { manager } = managerOn();
  const last = gate();
  let slowRuns = 0;
  const program: Program = async (run) => {
    let free: () => void = () => undefined;
    const other = new Promise<void>((resolve) => {
      free = resolve;
    });
    const slow = run.step("slow", async () => {
      slowRuns += 1;
      await other;
      return "slow";
    });
    const winner = await Promise.race([slow, run.step("fast", () => "fast")]);
    free();
    const both = [winner, await slow];
    await run.step("gate", last);
    return both;
  };
  await pausedInGate(manager, program);
  expect(await manager.run("t", program)).toEqual(["fast", "slow"]);
  expect(slowRuns).toBe(1);
});
