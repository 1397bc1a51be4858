// Tests run.sleepUntil, run.waitFor and manager.signal.
import { beforeEach, describe, expect, it } from "vitest";
import {
  CheckpointConflictError,
  type CheckpointStatus,
  encrypt,
  RunMismatchError,
  type StorageAdapter,
  StorageError,
} from "waymark";
import type { TaskLog } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { CHECKPOINT_STATUSES } from "../../../src/contract/checkpoint.js";
import { readWaits } from "../../../src/contract/transient.js";
import { collect } from "../../support/collect.js";
import { deferred } from "../../support/deferred.js";
import { shortenPauses } from "../../support/stopped-clock.js";
import { withMembers } from "../../support/with-members.js";
import { managerOn, runOf, STORAGES, withWrites } from "./run-support.js";

beforeEach(shortenPauses);

const MINUTE = 60_000;

/** Makes a manager with a clock that the test sets. */
function clockedOn(storage: StorageAdapter = new MemoryAdapter()) {
  const clock = { nowMs: Date.UTC(2026, 10, 26) };
  return { ...managerOn(storage, { clock: () => clock.nowMs }), clock };
}

it.each(Object.entries(STORAGES))("a run waits for a signal, and its record says who sent it (%s)", async (_, open) => {
  const storage = await open();
  const { manager } = managerOn(storage);
  const waiting = new Promise<void>((resolve) => manager.on("waitStarted", () => resolve()));
  const ran: string[] = [];
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("ask", () => ran.push("ask"));
      const answer = await run.waitFor<{ ok: boolean }>("approve");
      await run.step("act", () => ran.push("act"));
      return [answer.value.ok, answer.by, answer.name];
    });
  const running = program();
  await waiting;
  expect((await runOf(manager, "t"))?.steps.at(-1)).toMatchObject({
    name: "approve",
    status: "started",
    waitsFor: "event",
  });
  const other = managerOn(storage).manager;
  const { id } = await other.send("t", "approve", { ok: true }, { by: "ada" });
  expect(await running).toEqual([true, "ada", "approve"]);
  expect(await program()).toEqual([true, "ada", "approve"]);
  expect(ran).toEqual(["ask", "act"]);
  const record = (await runOf(manager, "t"))?.steps.find(({ name }) => name === "approve");
  expect(record).toMatchObject({ status: "completed", waitsFor: "event", event: { id, by: "ada" } });
  expect(await manager.events("t")).toMatchObject([{ id, status: "received", value: { ok: true } }]);
  await storage.close();
});

it("an event that was sent before the wait, or before the task began, is received", async () => {
  const { manager } = managerOn();
  await manager.send("t", "go", 1);
  await manager.send("t", "other", 2);
  await manager.send("t", "go", 3);
  const received = await manager.run("t", async (run) => {
    const first = await run.waitFor<number>("go");
    const second = await run.waitFor<number>("go");
    return [first.value, second.value, (await run.waitFor<number>("other")).value];
  });
  expect(received).toEqual([1, 3, 2]);
});

it("a run that receives an event each turn doesn't read those again that it has received", async () => {
  const TURNS = 40;
  const storage = new MemoryAdapter();
  let records = 0;
  // A storage reads and checks a record before it knows whether the record is asked for.
  async function* counted<Found extends { status?: CheckpointStatus }>(
    found: AsyncIterable<Found>,
    asked: readonly CheckpointStatus[] = CHECKPOINT_STATUSES,
  ) {
    for await (const each of found) {
      records += 1;
      if (each.status && asked.includes(each.status)) yield each;
    }
  }
  const { list, read } = storage;
  storage.list = ({ status, ...query }) => counted(list.call(storage, query), status);
  storage.read = ({ status, ...query }) => counted(read.call(storage, query), status);
  const { manager } = managerOn(storage);
  const send = () => manager.send("t", "message");
  manager.on("waitEnded", () => void send());
  await send();
  await manager.run(
    "t",
    async (run) => {
      await run.waitFor("message");
      return run.state.turn < TURNS ? run.next({ turn: run.state.turn + 1 }) : undefined;
    },
    { initialState: { turn: 1 } },
  );
  expect((await manager.events("t")).length).toBeGreaterThanOrEqual(TURNS);
  expect(records).toBeLessThan(12 * TURNS);
});

it("an event with one id counts once, and another value under it is refused", async () => {
  const { manager } = managerOn();
  await manager.send("t", "paid", { cents: 5 }, { id: "evt_1", by: "shop" });
  await manager.send("t", "paid", { cents: 5 }, { id: "evt_1", by: "shop" });
  await expect(manager.send("t", "paid", { cents: 6 }, { id: "evt_1", by: "shop" })).rejects.toThrow(
    CheckpointConflictError,
  );
  await manager.run("t", (run) => run.waitFor("paid"));
  // Another relay may send the event again.
  expect(await manager.send("t", "paid", { cents: 5 }, { id: "evt_1", by: "other" })).toEqual({ id: "evt_1" });
  await manager.send("u", "paid", { cents: 5, of: 1 }, { id: "evt_2" });
  expect(await manager.send("u", "paid", { of: 1, cents: 5 }, { id: "evt_2" })).toEqual({ id: "evt_2" });
  expect(await manager.events("t")).toMatchObject([
    { id: "evt_1", value: { cents: 5 }, by: "shop", status: "received" },
  ]);
});

it("an encrypted event counts once too, and another value under its id is refused", async () => {
  const transforms = [encrypt({ keys: { k1: Buffer.alloc(32, 1) }, current: "k1" })];
  const { manager, storage } = managerOn(new MemoryAdapter(), { transforms });
  const send = (cents: number) => manager.send("t", "paid", { cents }, { id: "evt_1" });
  await send(5);
  await send(5);
  await expect(send(6)).rejects.toThrow(CheckpointConflictError);
  expect(await manager.run("t", async (run) => (await run.waitFor("paid")).value)).toEqual({ cents: 5 });
  await send(5);
  expect(await manager.events("t")).toMatchObject([{ id: "evt_1", status: "received" }]);
  // The rest of the event doesn't show its value.
  await storage.log?.remove("t", { kinds: ["event"] });
  await send(5);
  const [event] = await manager.events("t");
  expect(event).toMatchObject({ id: "evt_1", status: "received", value: undefined });
});

it("an event whose receipt can't be recorded is pending, and the next attempt receives it", async () => {
  const storage = new MemoryAdapter();
  await managerOn(storage).manager.send("t", "go", "first");
  let isFull = false;
  const failing = withWrites(storage, async (call) => {
    if (isFull) throw new StorageError("The disk is full.");
    return call();
  });
  const program = (of: StorageAdapter) => {
    const { manager } = managerOn(of);
    manager.on("runStarted", () => {
      isFull = true;
    });
    return manager.run("t", async (run) => {
      const values = [(await run.waitFor("go")).value];
      values.push((await run.waitFor("go", { timeoutMs: 0 }))?.value);
      return values;
    });
  };
  const { manager } = managerOn(storage);
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    isFull = false;
    await expect(program(failing)).rejects.toThrow("The disk is full.");
    expect((await manager.events("t"))[0]?.status).toBe("pending");
    expect((await manager.latest("t"))?.status).toBe("running");
  }
  expect(await program(storage)).toEqual(["first", undefined]);
  expect((await manager.events("t"))[0]?.status).toBe("received");
});

it("an event for a wait that has ended stays pending, also if a later one was received before a resume", async () => {
  const { manager } = managerOn();
  await manager.send("t", "go", "for a wait that has ended", { wait: "elsewhere", force: true });
  await manager.send("t", "go", "for any");
  let failures = 1;
  const program = () =>
    manager.run("t", async (run) => {
      const { value } = await run.waitFor("go");
      await run.step("fail once", () => {
        failures -= 1;
        if (failures === 0) throw new Error("once");
      });
      return value;
    });
  await expect(program()).rejects.toThrow("once");
  expect(await program()).toBe("for any");
  expect((await manager.events("t")).map(({ status }) => status)).toEqual(["pending", "received"]);
});

it("an event for one wait isn't received by another wait of its name", async () => {
  const { manager } = managerOn();
  const waits = async () => {
    const keys: unknown[] = [];
    for await (const record of manager.records("t", { kinds: ["mark"] })) {
      if ("name" in record && record.name === "approve" && "value" in record) keys.push(record.value);
    }
    return keys as { readonly key: string }[];
  };
  const stop = new AbortController();
  const waiting = new Promise((resolve) => manager.on("waitStarted", resolve));
  const program = (signal?: AbortSignal) =>
    manager.run("t", async (run) => [(await run.waitFor("approve")).value, (await run.waitFor("approve")).value], {
      signal,
    });
  const paused = expect(program(stop.signal)).rejects.toMatchObject({ code: "RUN_PAUSED" });
  await waiting;
  stop.abort();
  await paused;
  const [first] = await waits();
  await manager.send("t", "approve", "for another wait", { wait: "elsewhere", force: true });
  await manager.send("t", "approve", "for the first", { wait: first!.key });
  await manager.send("t", "approve", "for any");
  const waitsOf = async () => (await manager.events("t")).map(({ status, wait }) => [status, wait?.isOpen]);
  expect(await waitsOf()).toEqual([
    ["pending", false],
    ["pending", true],
    ["pending", undefined],
  ]);
  expect(await program()).toEqual(["for the first", "for any"]);
  expect(await waitsOf()).toEqual([
    ["pending", false],
    ["received", undefined],
    ["received", undefined],
  ]);
});

it("a wait's mark has what a person sees: its question, and the JSON Schema of its answer", async () => {
  const { manager } = managerOn();
  const jsonSchema = { type: "object", properties: { ok: { type: "boolean" } } };
  const schema = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => jsonSchema },
    },
  } as const;
  const stop = new AbortController();
  manager.on("waitStarted", () => stop.abort());
  const program = manager.run("t", (run) => run.waitFor("approve", { ask: "Deploy?", schema }), {
    signal: stop.signal,
  });
  await expect(program).rejects.toMatchObject({ code: "RUN_PAUSED" });
  const asked: unknown[] = [];
  for await (const record of manager.records("t", { kinds: ["mark"] })) {
    if ("name" in record && record.name === "approve" && "value" in record) asked.push(record.value);
  }
  expect(asked).toMatchObject([{ waitsFor: "event", ask: { question: "Deploy?", schema: jsonSchema } }]);
});

it("a wait whose time has passed returns undefined, and the limit counts from the first attempt", async () => {
  const { manager, clock, storage } = clockedOn();
  const controller = new AbortController();
  manager.on("waitStarted", () => controller.abort());
  const wait = (signal?: AbortSignal) =>
    manager.run("t", async (run) => (await run.waitFor("approve", { timeoutMs: 10 * MINUTE })) ?? "nobody", { signal });
  await expect(wait(controller.signal)).rejects.toMatchObject({ code: "RUN_PAUSED" });
  clock.nowMs += 10 * MINUTE;
  expect(await wait()).toBe("nobody");
  await managerOn(storage).manager.send("t", "approve", "late", { force: true });
  expect(await wait()).toBe("nobody");
});

it("the start of an open wait is recorded once, however often the run is resumed", async () => {
  const { manager } = clockedOn();
  for (let attempt = 0; attempt < 3; attempt++) {
    const stop = new AbortController();
    manager.on("waitStarted", () => stop.abort());
    const waiting = manager.run("t", (run) => run.waitFor("approve"), { signal: stop.signal });
    await expect(waiting).rejects.toMatchObject({ code: "RUN_PAUSED" });
  }
  const marks = await collect(manager.records("t", { kinds: ["mark"] }));
  expect(marks.filter((mark) => "name" in mark && mark.name === "approve")).toHaveLength(1);
});

it("a limit that new code sets on an open wait counts from the attempt that brings it", async () => {
  const { manager, clock } = clockedOn();
  let attempt = new AbortController();
  manager.on("waitStarted", () => attempt.abort());
  const wait = (timeoutMs?: number) => {
    attempt = new AbortController();
    const { signal } = attempt;
    return manager.run("t", async (run) => (await run.waitFor("approve", { timeoutMs })) ?? "nobody", { signal });
  };
  await expect(wait()).rejects.toMatchObject({ code: "RUN_PAUSED" });
  clock.nowMs += 60 * MINUTE;
  await expect(wait(10 * MINUTE)).rejects.toMatchObject({ code: "RUN_PAUSED" });
  clock.nowMs += 10 * MINUTE;
  expect(await wait(10 * MINUTE)).toBe("nobody");
});

it("a sleep ends at the time that its first attempt said", async () => {
  const { manager, clock } = clockedOn();
  const controller = new AbortController();
  manager.on("waitStarted", () => controller.abort());
  const sleep = (signal?: AbortSignal) =>
    manager.run("t", (run) => run.sleepUntil("night", new Date(clock.nowMs + 30 * MINUTE)), { signal });
  await expect(sleep(controller.signal)).rejects.toMatchObject({ code: "RUN_PAUSED" });
  clock.nowMs += 31 * MINUTE;
  await sleep();
  expect((await runOf(manager, "t"))?.steps).toMatchObject([
    { name: "night", waitsFor: "sleep", status: "completed", durationMs: 31 * MINUTE },
  ]);
});

it("a sleep continues when its time comes", async () => {
  const { manager } = managerOn();
  const kinds: string[] = [];
  manager.on("waitStarted", ({ step }) => kinds.push(`${step} started`));
  manager.on("waitEnded", ({ step }) => kinds.push(`${step} ended`));
  await manager.run("t", async (run) => {
    await run.sleepUntil("short", new Date(Date.now() + 30));
    await run.sleepUntil("past", new Date(0));
  });
  expect(kinds).toEqual(["short started", "short ended", "past ended"]);
});

it("a value that the schema refuses is marked, and the wait continues with the next event", async () => {
  const { manager, logger } = managerOn();
  await manager.send("t", "answer", { ok: "perhaps" });
  await manager.send("t", "answer", { ok: true });
  const refused: string[] = [];
  manager.on("eventRefused", ({ name }) => refused.push(name));
  const schema = z.object({ ok: z.boolean() });
  const value = await manager.run("t", async (run) => (await run.waitFor("answer", { schema })).value.ok);
  expect(value).toBe(true);
  expect(refused).toEqual(["answer"]);
  expect(logger.lines.some(({ message }) => message.includes('event "answer"'))).toBe(true);
  expect((await manager.events("t")).map(({ status, error }) => [status, error?.code])).toEqual([
    ["refused", "STATE_INVALID"],
    ["received", undefined],
  ]);
});

it("a schema with a codec decodes the value once, in the first run and on a resume", async () => {
  const { manager } = managerOn();
  const schema = z.object({
    on: z.codec(z.iso.datetime(), z.date(), { decode: (text) => new Date(text), encode: (date) => date.toISOString() }),
  });
  await manager.send("t", "when", { on: "2026-11-26T00:00:00.000Z" });
  let fails = true;
  const program = () =>
    manager.run("t", async (run) => {
      const { value } = await run.waitFor("when", { schema });
      await run.step("act", () => {
        if (fails) throw new Error("not yet");
      });
      return value.on.getTime();
    });
  await expect(program()).rejects.toThrow("not yet");
  fails = false;
  expect(await program()).toBe(Date.UTC(2026, 10, 26));
});

it("a name that was a step can't be a wait in the next attempt", async () => {
  const { manager } = managerOn();
  const fail = async () => {
    throw new Error("stop");
  };
  await expect(
    manager.run("t", async (run) => {
      await run.step("x", () => 1);
      await run.sleepUntil("y", new Date(0));
      await fail();
    }),
  ).rejects.toThrow("stop");
  await expect(manager.run("t", (run) => run.waitFor("x"))).rejects.toThrow(RunMismatchError);
  await expect(manager.run("t", (run) => run.step("y", () => 1))).rejects.toThrow(
    /recorded as a sleep, but is now a step/,
  );
});

it("a step, a sleep and a wait of one name can't overlap", async () => {
  const { manager } = managerOn();
  const both = manager.run("t", async (run) => {
    const waiting = run.waitFor("x");
    try {
      await run.step("x", () => 1);
    } finally {
      await manager.send("t", "x");
      await waiting;
    }
  });
  await expect(both).rejects.toThrow(/already under way/);
});

it("a storage that fails while a run looks for events stops the run, and doesn't fail it", async () => {
  const storage = new MemoryAdapter();
  const { log } = storage;
  const read: TaskLog["read"] = (query) => {
    if (query.kinds?.includes("event")) throw new StorageError("The server is gone.");
    return log.read(query);
  };
  const failing = withMembers(storage, { log: { ...log, read } });
  const program = (of: MemoryAdapter) => managerOn(of).manager.run("t", async (run) => (await run.waitFor("go")).value);
  await expect(program(failing)).rejects.toThrow("The server is gone.");
  const { manager } = managerOn(storage);
  expect((await manager.latest("t"))?.status).toBe("running");
  await manager.send("t", "go", "on");
  expect(await program(storage)).toBe("on");
});

it("rewound and restarted runs wait for a new signal", async () => {
  const { manager } = managerOn();
  const program = (restart = false) =>
    manager.run("t", async (run) => (await run.waitFor("approve", { timeoutMs: 0 }))?.value ?? "none", { restart });
  const first = await manager.save("t", {});
  await manager.send("t", "approve", 1);
  expect(await program()).toBe(1);
  await manager.rewind("t", first.id);
  expect(await program()).toBe("none");
  expect(await program(true)).toBe("none");
  await manager.send("t", "approve", 2, { force: true });
  expect(await program(true)).toBe(2);
});

describe("an event that nothing would receive", () => {
  it("is refused if the task is completed or cancelled, and kept with force for a restart", async () => {
    const { manager } = managerOn();
    const program = (restart = false) =>
      manager.run("t", async (run) => (await run.waitFor("go", { timeoutMs: 0 }))?.value, { restart });
    await program();
    await manager.save("saved", 1, { status: "completed" });
    await manager.enqueue("cancelled");
    await manager.cancel("cancelled", "too late");
    const conflict = (message: RegExp) => ({ code: "CHECKPOINT_CONFLICT", message: expect.stringMatching(message) });
    await expect(manager.send("t", "go", 1)).rejects.toMatchObject(
      conflict(/its task is completed.*Nothing was stored/),
    );
    await expect(manager.send("saved", "go", 1)).rejects.toMatchObject(conflict(/completed/));
    await expect(manager.send("cancelled", "go", 1)).rejects.toMatchObject(conflict(/was cancelled \(too late\)/));
    for (const task of ["t", "saved", "cancelled"]) expect(await manager.events(task)).toEqual([]);
    await manager.send("t", "go", 1, { force: true });
    expect(await program(true)).toBe(1);
  });

  it("is kept if the run has failed, for its retry", async () => {
    const { manager } = managerOn();
    let failures = 1;
    const program = () =>
      manager.run("t", async (run) => {
        await run.step("fails once", () => {
          failures -= 1;
          if (failures === 0) throw new Error("once");
        });
        return (await run.waitFor("go")).value;
      });
    await expect(program()).rejects.toThrow("once");
    await manager.send("t", "go", 1);
    expect(await program()).toBe(1);
  });

  it("counts as sent if it was sent before the run ended", async () => {
    const { manager } = managerOn();
    await manager.send("t", "go", 1, { id: "e1" });
    await manager.run("t", (run) => run.waitFor("go"));
    expect(await manager.send("t", "go", 1, { id: "e1" })).toEqual({ id: "e1" });
    await expect(manager.send("t", "go", 2, { id: "e1" })).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    await expect(manager.send("t", "go", 1, { id: "e2" })).rejects.toMatchObject({ code: "CHECKPOINT_CONFLICT" });
    expect(await manager.events("t")).toHaveLength(1);
  });

  it("is refused if the run completes before it is stored, and sent if the run begins anew", async () => {
    const inner = new MemoryAdapter();
    let before = async () => {};
    const storage = withWrites(inner, async (call, _isLazy, titles) => {
      if (titles.includes("event go")) await before();
      return call();
    });
    const { manager } = managerOn(storage);
    const other = managerOn(inner).manager;
    await manager.save("t", {});
    before = async () => void (await other.save("t", {}, { status: "completed" }));
    await expect(manager.send("t", "go")).rejects.toMatchObject({ message: expect.stringMatching(/is completed/) });
    expect(await manager.events("t")).toEqual([]);
    await other.save("t", {});
    before = async () => {
      before = async () => {};
      await other.save("t", {});
    };
    await manager.send("t", "go");
    expect(await manager.events("t")).toHaveLength(1);
  });
});

describe("an event for one wait", () => {
  /** A run that waits three times for `approve`, and the key of its open wait. */
  async function waitingRun(storage?: StorageAdapter, timeoutMs?: number) {
    const { manager, ...rest } = clockedOn(storage);
    const starts: (() => void)[] = [];
    manager.on("waitStarted", () => starts.shift()?.());
    const started = () => new Promise<void>((resolve) => starts.push(resolve));
    const first = started();
    const running = manager.run("t", async (run) => {
      const values: unknown[] = [];
      for (let wait = 0; wait < 3; wait++) values.push((await run.waitFor("approve", { timeoutMs }))?.value);
      return values;
    });
    await first;
    const findKey = async () => {
      const { steps } = (await runOf(manager, "t")) ?? {};
      return steps?.find(({ status }) => status === "started")?.key ?? "";
    };
    return { manager, running, started, findKey, ...rest };
  }

  it("answers it, and a second click is refused instead of answering the next one", async () => {
    const { manager, running, started, findKey } = await waitingRun();
    const key = await findKey();
    const second = started();
    await manager.send("t", "approve", 1, { wait: key });
    await second;
    expect(await findKey()).not.toBe(key);
    await expect(manager.send("t", "approve", "again", { wait: key })).rejects.toMatchObject({
      code: "CHECKPOINT_CONFLICT",
      message: expect.stringMatching(/wait \w+ isn't open.*Nothing was stored/),
    });
    const third = started();
    await manager.send("t", "approve", 2, { wait: await findKey() });
    await third;
    await manager.send("t", "approve", 3);
    expect(await running).toEqual([1, 2, 3]);
  });

  it("is refused while another answer to the wait is pending, also if both are sent at once", async () => {
    const { manager, running, findKey } = await waitingRun();
    const key = await findKey();
    const clicks = Array.from({ length: 4 }, (_, click) => manager.send("t", "approve", click, { wait: key }));
    const sent = await Promise.allSettled(clicks);
    expect(sent.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await manager.events("t")).toHaveLength(1);
    for (const value of ["b", "c"]) await manager.send("t", "approve", value);
    expect((await running).slice(1)).toEqual(["b", "c"]);
  });

  it("isn't refused for a pending event of another name, or one that the schema has refused", async () => {
    const { manager } = managerOn();
    const refused = deferred();
    manager.on("eventRefused", () => refused.resolve());
    const started = deferred();
    manager.on("waitStarted", () => started.resolve());
    const running = manager.run("t", (run) => run.waitFor("approve", { schema: z.number() }));
    await started.promise;
    const wait = (await runOf(manager, "t"))?.steps.find(({ status }) => status === "started")?.key ?? "";
    await manager.send("t", "chat", "hello");
    await manager.send("t", "approve", "not a number", { wait });
    await refused.promise;
    await manager.send("t", "approve", 7, { wait });
    expect((await running).value).toBe(7);
  });

  it("is refused while an earlier event of the name is pending for the wait", async () => {
    const storage = new MemoryAdapter();
    const stop = new AbortController();
    const { manager } = managerOn(storage);
    manager.on("waitStarted", () => stop.abort());
    const program = (signal?: AbortSignal) => manager.run("t", (run) => run.waitFor("approve"), { signal });
    await expect(program(stop.signal)).rejects.toMatchObject({ code: "RUN_PAUSED" });
    const wait = (await runOf(manager, "t"))?.steps[0]?.key ?? "";
    await manager.send("t", "approve", "first", { id: "e1" });
    await expect(manager.send("t", "approve", "second", { wait })).rejects.toMatchObject({
      message: expect.stringMatching(/is answered by event "e1"/),
    });
    expect((await program()).value).toBe("first");
  });

  it("reports to its sender if the wait ends before the event is received", async () => {
    const inner = new MemoryAdapter();
    let isAnswered = Promise.resolve();
    let pass = () => {};
    const storage = withWrites(inner, async (call, _isLazy, titles) => {
      // The wait's time limit passes while the event is being sent.
      if (titles.includes("event approve")) await isAnswered;
      const sequence = await call();
      if (titles.includes("step approve")) pass();
      return sequence;
    });
    const { manager, clock, running, findKey } = await waitingRun(storage, MINUTE);
    const key = await findKey();
    isAnswered = new Promise((resolve) => {
      pass = resolve;
    });
    const sending = manager.send("t", "approve", "late", { wait: key, id: "late" });
    clock.nowMs += MINUTE;
    await expect(sending).rejects.toMatchObject({ message: expect.stringMatching(/ended before it received/) });
    expect((await manager.events("t")).map(({ id, status }) => [id, status])).toEqual([["late", "pending"]]);
    for (const value of ["b", "c"]) await manager.send("t", "approve", value);
    expect(await running).toEqual([undefined, "b", "c"]);
  });
});

it("a task's events go where the task goes, and no list shows them as a task", async () => {
  const { manager } = managerOn();
  const { id } = await manager.save("t", {});
  await manager.save("u", {});
  await manager.send("t", "approve", 1, { by: "ada" });
  expect((await manager.tasks({ limit: 2 })).map(({ taskId }) => taskId)).toEqual(["t", "u"]);
  expect((await manager.findIncomplete({ limit: 2 })).map(({ taskId }) => taskId).toSorted()).toEqual(["t", "u"]);
  await manager.fork("t", id, "copy");
  expect(await manager.events("copy")).toEqual(await manager.events("t"));
  expect(await manager.run("copy", async (run) => (await run.waitFor("approve")).by)).toBe("ada");
  expect((await manager.events("t"))[0]?.status).toBe("pending");
  await manager.retention.prune({ all: true }, { keepLast: 1 });
  expect(await manager.events("t")).toHaveLength(1);
  await manager.removeTask("t");
  await manager.removeTask({ prefix: "copy" });
  for (const taskId of ["t", "copy"]) {
    expect(await manager.events(taskId)).toEqual([]);
  }
});

it("a fork that fails leaves no events, and a task that has events can't begin as a fork", async () => {
  const { manager } = managerOn();
  const { id } = await manager.save("t", {});
  await manager.send("t", "approve", 1);
  await expect(manager.fork("t", "nowhere", "copy")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  expect(await manager.events("copy")).toEqual([]);
  await manager.send("other", "approve", 2);
  const bare = await manager.save("without events", {});
  for (const [from, point] of [["t", id] as const, ["without events", bare.id] as const])
    await expect(manager.fork(from, point, "other")).rejects.toThrow(/^Task "other" already has checkpoints or events/);
  expect(await manager.has("other")).toBe(false);
});

it("the summary of a run that was paused while it waited shows the wait", async () => {
  const { manager } = managerOn();
  const controller = new AbortController();
  const waiting = new Promise((resolve) => manager.on("waitStarted", resolve));
  const running = manager.run("t", (run) => run.waitFor("approve"), { signal: controller.signal });
  const paused = expect(running).rejects.toMatchObject({ code: "RUN_PAUSED" });
  await waiting;
  const waits = async () => {
    const newest = await manager.latest("t");
    return newest && { status: newest.status, waits: readWaits(newest) };
  };
  // Until then, the wait's mark shows it.
  expect(await waits()).toEqual({ status: "running", waits: undefined });
  expect((await runOf(manager, "t"))?.steps).toMatchObject([{ name: "approve", status: "started", waitsFor: "event" }]);
  controller.abort();
  await paused;
  expect(await waits()).toMatchObject({ status: "paused", waits: { waitsFor: ["approve"] } });
  expect((await manager.queue({ prefix: "t" })).tasks).toBe(1);
});

it("a policy that removes a whole task also removes its events", async () => {
  const { manager, clock } = clockedOn();
  await manager.send("t", "approve", 1);
  await manager.run("t", (run) => run.waitFor("approve"));
  clock.nowMs += 2 * MINUTE;
  expect(await manager.retention.prune({ all: true }, { maxAgeMs: MINUTE })).toMatchObject({ tasks: 1, failures: [] });
  expect(await manager.has("t")).toBe(false);
  expect(await manager.events("t")).toEqual([]);
});

it("a removal under a lost lease keeps the events", async () => {
  const { manager, storage } = managerOn();
  await manager.save("t", {});
  await manager.send("t", "approve");
  const lease = await manager.lease("t");
  await storage.leases?.claim("t", "another", 60_000, { force: true });
  await expect(manager.removeTask("t", { lease })).rejects.toMatchObject({ code: "LEASE_LOST" });
  expect(await manager.events("t")).toHaveLength(1);
});

it("a misspelled option and a wrong date are refused by name", async () => {
  const { manager } = managerOn();
  // @ts-expect-error A misspelled option.
  await expect(manager.run("a", (run) => run.waitFor("x", { timeout: 1 }))).rejects.toThrow(/timeout/);
  // @ts-expect-error Not a date.
  await expect(manager.run("b", (run) => run.sleepUntil("x", 5))).rejects.toThrow(/must be a Date/);
  await expect(manager.run("c", (run) => run.sleepUntil("x", new Date(Number.NaN)))).rejects.toThrow("invalid Date");
  // @ts-expect-error A misspelled option.
  await expect(manager.send("t", "x", 1, { from: "me" })).rejects.toThrow(/from/);
});
