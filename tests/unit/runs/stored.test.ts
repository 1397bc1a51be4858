// Tests a run's checkpoints on every storage, with transforms, redaction, migrations and retention, and in copies.
import { randomBytes, randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { type CheckpointManagerOptions, encrypt, gzip, type Run, StorageError } from "waymark";
import { isCorrupt, isTransient } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { JsonFileAdapter } from "waymark/adapters/json-file";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { collect } from "../../support/collect.js";
import { tempFolder } from "../../support/temp-folder.js";
import { dyingAfter, managerOn, runOf, STORAGES } from "./run-support.js";

const keys = { k1: randomBytes(32) };
const WAYS: Record<string, Pick<CheckpointManagerOptions, "transforms">> = {
  "as they are": {},
  compressed: { transforms: [gzip()] },
  "compressed and encrypted": { transforms: [gzip(), encrypt({ keys, current: "k1" })] },
};

describe.each(Object.entries(WAYS))("runs that are stored %s", (_way, options) => {
  it("resume after any save, even if the answer of one was lost", async () => {
    for (let saves = 1; saves <= 4; saves++) {
      const storage = new MemoryAdapter();
      const append = storage.append.bind(storage);
      let appends = 0;
      storage.append = async (...args) => {
        const sequence = await append(...args);
        appends += 1;
        if (appends === saves) throw new StorageError("no answer", { retryable: true });
        return sequence;
      };
      const { manager } = managerOn(storage, options);
      const result = await manager.run("t", async (run) => {
        await run.step("a", () => new Map([[1, new Date(5)]]));
        if (run.state === undefined) return run.next({ n: 1n });
        return run.state;
      });
      expect(result).toEqual({ n: 1n });
      expect((await manager.list("t")).map(({ status }) => status)).toEqual(["completed", "running", "running"]);
      const resumed = managerOn(dyingAfter(0, storage), options).manager;
      expect(await resumed.run("t", () => expect.unreachable())).toEqual({ n: 1n });
      const report = await manager.maintenance.verify();
      expect(report.findings).toEqual([]);
    }
  });
});

it("json-file keeps the user's state where jq finds it", async () => {
  const root = await tempFolder();
  const { manager } = managerOn(new JsonFileAdapter({ path: root }));
  await manager.run("t", (run) => run.step("a", () => ({ ok: true })), { initialState: { n: 1 } });
  const folder = join(root, "t");
  const [file] = (await readdir(folder)).filter((name) => name.endsWith(".json") && !name.startsWith("."));
  const json = JSON.parse(await readFile(join(folder, file!), "utf8"));
  expect(json).toMatchObject({ encoding: "json", state: { n: 1 } });
});

it("redaction reaches results, errors and labels of steps, also in the first run", async () => {
  const paths = ["step.model.token", 'step["tool 7"]', "step.*.password", "error.message", "label"];
  const { manager, storage } = managerOn(undefined, { redact: { paths } });
  const running = manager.run("t", async (run) => {
    expect(await run.step("model", () => ({ token: "secret", n: 1 }))).toEqual({ token: "[redacted]", n: 1 });
    expect(await run.step("tool 7", () => "secret")).toBe("[redacted]");
    expect(await run.step("other", () => ({ password: "secret", token: "kept" }))).toEqual({
      password: "[redacted]",
      token: "kept",
    });
    await run.step("fails", () => Promise.reject(Object.assign(new Error("secret"), { password: "secret" })));
  });
  await expect(running).rejects.toMatchObject({ message: "[redacted]", password: "[redacted]" });
  for await (const record of storage.read({ taskId: "t", order: "newest" })) {
    expect(JSON.stringify(record)).not.toContain("secret");
  }
});

it("redaction reaches a run's input and result", async () => {
  const { manager } = managerOn(undefined, { redact: { paths: ["input.token", "result.token"] } });
  const result = await manager.run("t", (run) => ({ token: "secret", input: run.input }), {
    input: { token: "secret", n: 1 },
  });
  expect(result).toEqual({ token: "[redacted]", input: { token: "[redacted]", n: 1 } });
  expect(JSON.stringify(await manager.latest("t"))).not.toContain("secret");
  expect(await manager.run("t", () => 0 as never, { input: { token: "other", n: 1 } })).toEqual(result);
});

it.each(["memory", "sqlite"])("one path keeps a token out of everything that a run stores, on %s", async (kind) => {
  const token = `tok-${randomUUID()}`;
  const folder = await tempFolder();
  const storage = kind === "sqlite" ? openStorage(`sqlite:${join(folder, "store.db")}`) : new MemoryAdapter();
  const { manager } = managerOn(storage, { redact: { paths: ["**.token", "error.message"] } });
  const secret = { deep: [{ token, n: 1 }] };
  const failure = () => Object.assign(new Error(`refused ${token}`, { cause: { token } }), { token });
  const redacted = { deep: [{ token: "[redacted]", n: 1 }] };
  const refuseEvent = z.object({ n: z.literal(2) }, { error: `not ${token}` });

  await manager.send("t", "answer", secret);
  await manager.send("t", "number", { token, n: 1 });
  await manager.send("t", "number", { token, n: 2 });
  const result = await manager.run(
    "t",
    async (run) => {
      if (run.state?.n === 2) return { kept: await run.step("keeps", () => secret), token };
      await run.step("chunks", ({ write }) => write(secret));
      await run.step("fails", () => Promise.reject(failure())).catch(() => undefined);
      expect((await run.waitFor("answer")).value).toEqual(redacted);
      await run.waitFor("number", { schema: refuseEvent });
      await run.save({ ...secret, n: 3 }, { metadata: secret });
      return run.next({ ...secret, n: 2 });
    },
    { input: secret, initialState: { ...secret, n: 1 } },
  );
  await expect(manager.run("failed", () => Promise.reject(failure()))).rejects.toThrow("refused");

  expect(result).toEqual({ kept: redacted, token: "[redacted]" });
  expect((await manager.events("t")).map(({ status }) => status)).toEqual(["received", "refused", "received"]);
  for (const taskId of ["t", "failed"]) {
    for (const item of await collect(manager.records(taskId)))
      expect(inspect(item, { depth: 20 })).not.toContain(token);
    for await (const item of storage.read({ taskId, order: "oldest" })) expect(inspect(item)).not.toContain(token);
  }
  await storage.close();
  for (const file of await readdir(folder)) expect((await readFile(join(folder, file))).includes(token)).toBe(false);
});

it("a path keeps a token out of an object that was thrown, or passed as an error", async () => {
  const { manager } = managerOn(undefined, { redact: { paths: ["**.token"] } });
  const thrown: unknown = { status: 401, token: "tok-1", inner: { token: "tok-2" } };
  const message = '{"status":401,"token":"[redacted]","inner":{"token":"[redacted]"}}';
  const fails = () => {
    throw thrown;
  };
  await manager.run("run", fails).catch(() => undefined);
  await manager.save("failed", 1);
  await manager.fail("failed", thrown);
  await manager.save("saved", 1, { error: thrown });
  for (const taskId of ["run", "failed", "saved"])
    expect((await manager.latest(taskId))?.error, taskId).toMatchObject({ message });
});

it.each([
  ["**.token", "[redacted]"],
  ["step.token", "[redacted]"],
  ["step.*.secret", { secret: "[redacted]", id: 1 }],
  ["step.token.secret", { secret: "[redacted]", id: 1 }],
  ["step.other", { secret: "tok-1", id: 1 }],
])("of the result of a step named token, the path %s leaves %j", async (path, left) => {
  const { manager } = managerOn(undefined, { redact: { paths: [path] } });
  expect(await manager.run("t", (run) => run.step("token", () => ({ secret: "tok-1", id: 1 })))).toEqual(left);
});

it("redaction of whole errors leaves no part of them", async () => {
  const { manager, storage } = managerOn(undefined, { redact: { paths: ["error"] } });
  const running = manager.run("t", async (run) => {
    await run.step("a", () => Promise.reject(new TypeError("secret"))).catch(() => undefined);
    await run.step("b", () => 1);
    throw new Error("secret");
  });
  await expect(running).rejects.toThrow("secret");
  for await (const record of storage.read({ taskId: "t", order: "newest" })) {
    expect(JSON.stringify(record)).not.toContain("secret");
  }
});

it("a run's state and its turn's beginning are migrated, and its steps stay", async () => {
  const storage = new MemoryAdapter();
  const old = managerOn(storage).manager;
  const stopped = old.run(
    "t",
    async (run) => {
      await run.step("a", () => "recorded");
      await run.save({ name: "saved" });
      throw new Error("stop");
    },
    { initialState: { name: "begun" } },
  );
  await expect(stopped).rejects.toThrow("stop");
  const schema = z.object({ title: z.string() });
  const migrations = { 1: (state: unknown) => ({ title: (state as { name: string }).name }) };
  const { manager } = managerOn(storage, { schema, stateVersion: 2, migrations });
  expect((await manager.latest("t"))?.state).toEqual({ title: "saved" });
  const result = await manager.run("t", async (run) => {
    const a = await run.step("a", () => expect.unreachable());
    await run.step("b", () => 1);
    expect(await manager.latest("t")).toMatchObject({ state: { title: "saved" }, stateVersion: 2 });
    return [a, run.state];
  });
  expect(result).toEqual(["recorded", { title: "begun" }]);
});

describe.each(Object.entries(STORAGES))("a run on %s", (_name, open) => {
  it("takes the space of one record, and a policy counts only its milestones", async () => {
    const storage = await open();
    onTestFinished(() => storage.close());
    const { manager } = managerOn(storage, { retention: { keepLast: 2 } });
    let most = 0;
    await manager.run(
      "t",
      async (run) => {
        for (let n = 0; n < 3; n++) {
          await run.step("a", () => n);
          most = Math.max(most, (await manager.list("t")).filter(isTransient).length);
        }
        return run.state === 3 ? "done" : run.next(run.state + 1);
      },
      { initialState: 0 },
    );
    expect(most).toBe(1);
    expect((await manager.list("t")).map(({ status }) => status)).toEqual(["completed", "running"]);
    expect((await runOf(manager, "t"))?.steps).toHaveLength(3);
  });
});

it("a fork continues from its checkpoint, in the middle of a turn, and the original isn't harmed", async () => {
  const { manager, storage } = managerOn();
  const ran: string[] = [];
  const program = (taskId: string, on = manager) =>
    on.run(taskId, async (run) => {
      await run.step("a", () => ran.push("a"));
      await run.step("b", () => ran.push("b"));
      return `${run.attempt} ${ran.join()}`;
    });
  await expect(program("t", managerOn(dyingAfter(2, storage)).manager)).rejects.toThrow(StorageError);
  const newest = (await manager.latest("t"))!;
  let step = 0;
  for await (const { sequence } of manager.records("t", { kinds: ["step"] })) step = sequence;
  const fork = await manager.fork("t", step, "fork", { metadata: { by: "me" } });
  expect(isTransient(fork)).toBe(false);
  await expect(manager.autoSave("fork", () => 1).stop()).rejects.toThrow(TypeError);
  expect(await program("fork")).toBe("1 a,b,b");
  expect((await manager.latest("t"))?.id).toBe(newest.id);
  expect(await program("t")).toBe("2 a,b,b,b");
});

it("a rewind to a milestone continues with its state, and diff compares the users' states", async () => {
  const { manager } = managerOn();
  const seen: number[] = [];
  const program = () =>
    manager.run(
      "t",
      async (run) => {
        seen.push(run.state.turn);
        await run.step("a", () => 1);
        return run.state.turn === 3 ? "done" : run.next({ turn: run.state.turn + 1 });
      },
      { initialState: { turn: 0 } },
    );
  await program();
  const [, first, second] = await manager.list("t", { order: "oldest" });
  expect(await manager.diff("t", first!.id, second!.id)).toMatchObject([{ from: 1, to: 2 }]);
  await manager.rewind("t", first!.id);
  expect(await program()).toBe("done");
  expect(seen).toEqual([0, 1, 2, 3, 1, 2, 3]);
});

it("a person's edit is a plain save, and the run continues with it", async () => {
  const { manager } = managerOn();
  const program = () =>
    manager.run(
      "t",
      async (run) => {
        if (run.state.approved) return `${run.attempt} ${run.state.text}`;
        await run.step("ask", () => 1);
        throw new Error("waits for a person");
      },
      { initialState: { text: "draft", approved: false } },
    );
  await expect(program()).rejects.toThrow("waits");
  await manager.save("t", { text: "better", approved: true });
  expect(await program()).toBe("2 better");
});

it("a run continues from the newest intact checkpoint if the newest one is damaged", async () => {
  const { manager, storage } = managerOn();
  const ran: string[] = [];
  const program = () =>
    manager.run("t", async (run) => {
      if (run.state === undefined) return run.next(1);
      await run.step("a", () => ran.push("a"));
      if (run.attempt === 1) throw new Error("stop");
      return ran.join();
    });
  await expect(program()).rejects.toThrow("stop");
  const read = storage.read.bind(storage);
  storage.read = async function* (query) {
    for await (const record of read(query)) {
      const isDamaged = !isCorrupt(record) && record.status === "failed";
      yield isDamaged ? { ...record, seal: "0".repeat(64) } : record;
    }
  };
  // The step's result is a separate record.
  expect(await program()).toBe("a");
});

it("events report a run from its beginning to its end", async () => {
  const { manager } = managerOn();
  const told: unknown[] = [];
  for (const event of ["runStarted", "stepStarted", "stepEnded", "stepReused", "runPaused", "runEnded"] as const) {
    manager.on(event, (details) => told.push([event, details]));
  }
  let isSecond = false;
  const program = () =>
    manager.run("t", async (run) => {
      await run.step("a", () => 1);
      await run.step("a", () => {
        if (!isSecond) throw new Error("no");
      });
    });
  await expect(program()).rejects.toThrow("no");
  isSecond = true;
  await program();
  const step = { taskId: "t", turn: 1 };
  const error = expect.objectContaining({ message: "no" });
  const ended = { durationMs: expect.any(Number), attempts: 1 };
  expect(told).toEqual([
    ["runStarted", { taskId: "t", attempt: 1, turn: 1, recordedSteps: 0 }],
    ["stepStarted", { ...step, step: "a" }],
    ["stepEnded", { ...step, step: "a", ...ended }],
    ["stepStarted", { ...step, step: "a 2" }],
    ["stepEnded", { ...step, step: "a 2", ...ended, error }],
    ["runEnded", { taskId: "t", status: "failed", error }],
    ["runStarted", { taskId: "t", attempt: 2, turn: 1, recordedSteps: 1 }],
    ["stepReused", { ...step, step: "a" }],
    ["stepStarted", { ...step, step: "a 2" }],
    ["stepEnded", { ...step, step: "a 2", ...ended }],
    ["runEnded", { taskId: "t", status: "completed" }],
  ]);
});

it("rekey encrypts a run's record, and the run continues with only the new key", async () => {
  const { manager, storage } = managerOn();
  const program = (on: typeof manager, isLast: boolean) =>
    on.run("t", async (run) => {
      await run.step("a", () => (isLast ? expect.unreachable() : "secret"));
      if (!isLast) throw new Error("stop");
      return "done";
    });
  await expect(program(manager, false)).rejects.toThrow("stop");
  const encrypted = managerOn(storage, {
    transforms: [encrypt({ keys, current: "k1" })],
  }).manager;
  expect(await encrypted.maintenance.rekey()).toMatchObject({ rewritten: 5 });
  await expect(program(manager, true)).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
  expect(await program(encrypted, true)).toBe("done");
});

describe.each(Object.entries(STORAGES))("a policy on %s", (_name, open) => {
  it("removes the values of received events with the milestone after their receipt, and keeps their ids", async () => {
    const { manager } = managerOn(await open());
    await manager.send("t", "later", "kept");
    for (let n = 1; n <= 4; n++) await manager.send("t", "msg", n, { id: `m${n}` });
    const receive = async (count: number) => {
      const receiving = manager.run(
        "t",
        async (run: Run<readonly number[]>) => {
          if (run.state.length === count) throw new Error("enough");
          const { value } = await run.waitFor<number>("msg");
          return run.next([...run.state, value]);
        },
        { initialState: [] },
      );
      await expect(receiving).rejects.toThrow("enough");
      return (await manager.latest("t"))?.state;
    };
    await receive(4);
    const milestones = (await manager.list("t")).filter((summary) => !isTransient(summary));
    await manager.retention.prune("t", { keepLast: 3 });
    const events = async () => (await manager.events("t")).map(({ id, value, status }) => [id, value, status]);
    const left = [
      [expect.any(String), "kept", "pending"],
      ["m1", undefined, "received"],
      ["m2", undefined, "received"],
      ["m3", 3, "received"],
      ["m4", 4, "received"],
    ];
    expect(await events()).toEqual(left);
    await manager.send("t", "msg", 1, { id: "m1" });
    expect(await events()).toEqual(left);
    // The turn that received the last one can still be branched off in its middle.
    const receipt = (await collect(manager.records("t", { kinds: ["step"] }))).at(-1)?.sequence ?? 0;
    expect(receipt).toBeLessThan(milestones[0]?.sequence ?? 0);
    await manager.rewind("t", receipt);
    expect(await receive(4)).toEqual([1, 2, 3, 4]);
    expect(await manager.retention.prune("t", { keepLast: 1 })).toMatchObject({ failures: [] });
    await manager.send("t", "msg", 5);
    expect(await receive(5)).toEqual([1, 2, 3, 4, 5]);
  });
});
