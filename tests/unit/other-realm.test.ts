// Tests values of another realm. Jest, for example, runs programs in a `node:vm` context with its own built-in classes.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import type { JsonObject } from "waymark";
import { CheckpointManager, encrypt, keyFromPassphrase, type Transform } from "waymark";
import { matchRetry } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { createBuildCheckpoints } from "waymark/builds";
import { WaymarkSaver } from "waymark/langgraph";
import { z } from "zod";
import { recordingLogger } from "../support/recording-logger.js";
import { tempFolder } from "../support/temp-folder.js";
import { managerOn, STORAGES } from "./runs/run-support.js";

const foreign: typeof globalThis = runInNewContext("globalThis");

const IN_A_CONTEXT = fileURLToPath(new URL("../fixtures/in-a-vm-context.mjs", import.meta.url));

/** Makes a signal like another library's, which isn't one of Node's. */
class LibrarySignal extends EventTarget {
  aborted = false;
  reason: unknown;
  onabort = null;

  abort(reason: unknown) {
    this.aborted = true;
    this.reason = reason;
    this.dispatchEvent(new Event("abort"));
  }

  throwIfAborted() {
    if (this.aborted) throw new Error("aborted", { cause: this.reason });
  }
}

it("the other realm has classes of its own", () => {
  expect(new foreign.Error("no")).not.toBeInstanceOf(Error);
  expect(new foreign.Date()).not.toBeInstanceOf(Date);
});

it("a program in a context of its own, as in Jest, saves, loads and runs on each storage", async () => {
  const folder = await tempFolder();
  const args = ["--no-warnings", "--experimental-vm-modules", IN_A_CONTEXT, folder];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const expected = { sequence: 1, bytes: "1,2", isOwn: true, calls: 2, errors: ["ENOENT", "ENOENT"], findings: [] };
  expect(JSON.parse(stdout)).toEqual({ memory: expected, files: expected, tasks: expected, sqlite: expected });
});

it("after an AggregateError of another realm, the steps whose errors it gathers are tried again", async () => {
  const { manager } = managerOn();
  const ran: string[] = [];
  const program = () =>
    manager.run("t", async (run) => {
      const tried = ["a", "b"].map((name) =>
        run.step(name, () => {
          ran.push(name);
          throw new foreign.Error(`${name} failed`);
        }),
      );
      const errors = (await Promise.allSettled(tried)).flatMap((end) => (end.status === "rejected" ? end.reason : []));
      // Only the steps that the thrown error names are tried again, since another one began after them.
      await run.step("report", () => undefined);
      throw new foreign.AggregateError(errors, "both failed");
    });
  await expect(program()).rejects.toThrow("both failed");
  await expect(program()).rejects.toThrow("both failed");
  expect(ran).toEqual(["a", "b", "a", "b"]);
});

it("an AggregateError of another realm with a field that can't be stored keeps the errors that it gathers", async () => {
  const { manager } = managerOn();
  const caught = await manager.run("t", async (run) => {
    const gathered = [new foreign.RangeError("one"), new foreign.Error("two")];
    const failing = () =>
      Promise.reject(Object.assign(new foreign.AggregateError(gathered, "both"), { send: () => 1 }));
    return run.step("a", failing).catch((error: unknown) => error);
  });
  expect(caught).toBeInstanceOf(AggregateError);
  expect(caught).toMatchObject({ message: "both", errors: [new RangeError("one"), new Error("two")] });
});

it("a state with values of another realm is stored like one of this realm", async () => {
  const { manager } = managerOn();
  const stateOf = (realm: typeof globalThis) =>
    Object.assign(new realm.Object(), {
      at: new realm.Date(5),
      byId: new realm.Map([["a", new realm.Set([1])]]),
      pattern: new realm.RegExp("a", "g"),
      error: new realm.TypeError("no"),
      bytes: realm.Uint8Array.of(1, 2),
      buffer: realm.Uint8Array.of(3).buffer,
    });
  const theirs: object = stateOf(foreign);
  await manager.save("theirs", theirs);
  const loaded = (await manager.latest("theirs"))?.state;
  const own = stateOf(globalThis);
  own.error.stack = expect.any(String) as unknown as string;
  expect(loaded).toEqual(own);
});

it("sleepUntil and enqueue take dates of another realm", async () => {
  const { manager } = managerOn();
  await manager.run("t", (run) => run.sleepUntil("nap", new foreign.Date(0)));
  expect(await manager.enqueue("q/1", 1, { dueAt: new foreign.Date(Date.UTC(2999, 0)) })).toBe(true);
  expect(await manager.queue({ prefix: "q/" })).toMatchObject({ tasks: 0 });
});

it("a signal of another library pauses a run and a worker, and stops verify and repair", async () => {
  const { manager } = managerOn((await STORAGES["json-file"]?.()) ?? new MemoryAdapter());
  const signal = new LibrarySignal();
  const running = manager.run(
    "t",
    (run) =>
      run.step("a", ({ signal: stop }) => {
        signal.abort("enough");
        stop.throwIfAborted();
      }),
    { signal },
  );
  await expect(running).rejects.toMatchObject({ code: "RUN_PAUSED", cause: "enough" });
  await manager.work({ prefix: "q/", signal }, () => 1);
  await expect(manager.maintenance.verify({ signal })).rejects.toBe("enough");
  await expect(manager.maintenance.repair({ signal })).rejects.toBe("enough");
});

it("a rejection of a listener of another realm is logged", async () => {
  const { manager, logger } = managerOn();
  // This is an async listener of a program without types.
  const reject: () => void = runInNewContext("async () => { throw new Error('no'); }");
  manager.on("saved", reject);
  await manager.save("t", 1);
  expect(logger.lines.map(({ message }) => message)).toContain('A listener of "saved" threw');
});

it("keys, salts and transforms may have bytes of another realm", async () => {
  const bytes = (length: number) => foreign.Uint8Array.from({ length }, (_, n) => n);
  const mirror = (body: Uint8Array) => foreign.Uint8Array.from([...body].reverse());
  const reversed: Transform = { name: "reversed", encode: mirror, decode: mirror };
  const keys = {
    given: bytes(32),
    fetched: async () => bytes(32),
    made: keyFromPassphrase("a".repeat(20), { salt: bytes(16) }),
  };
  for (const current of ["given", "fetched", "made"] as const) {
    const transforms = [reversed, encrypt({ keys, current })];
    const manager = new CheckpointManager({ storage: new MemoryAdapter(), transforms });
    await manager.save("t", { current });
    expect((await manager.latest("t"))?.state).toEqual({ current });
  }
});

it("metadata of another realm counts as the same if an append is repeated", () => {
  const payload = { encoding: "json", body: "1", sha256: "00" };
  const recordWith = (metadata: JsonObject) => {
    const times = { createdAt: "2026-01-01T00:00:00.000Z", status: "running" } as const;
    return { taskId: "t", id: "one", sequence: 7, ...times, stateVersion: 1, sizeBytes: 1, metadata, payload };
  };
  const theirs: JsonObject = foreign.JSON.parse('{"of":{"n":1},"who":"me"}');
  expect(matchRetry(recordWith(theirs), recordWith({ who: "me", of: { n: 1 } }))).toBe(7);
  expect(() => matchRetry(recordWith(theirs), recordWith({ who: "me", of: { n: 2 } }))).toThrow("another metadata");
});

it("migrated states with Maps and Sets of another realm are compared by their members", async () => {
  const storage = new MemoryAdapter();
  const old = managerOn(storage).manager;
  const { id: a } = await old.save("t", [1]);
  const { id: b } = await old.save("t", [2]);
  const differences = ({ Map: AMap, Set: ASet }: typeof globalThis) => {
    const toMap = (state: unknown) => new AMap([["items", new ASet(state as number[])]]);
    return new CheckpointManager({ storage, stateVersion: 2, migrations: { 1: toMap } }).diff("t", a, b);
  };
  const theirs = await differences(foreign);
  expect(theirs[0]?.path).toHaveLength(2);
  expect(theirs).toEqual(await differences(globalThis));
});

it("keys that a schema drops from a state of another realm are reported", async () => {
  const { manager, logger } = managerOn(new MemoryAdapter(), { schema: z.object({ a: z.number() }) });
  await manager.save("t", Object.assign(new foreign.Object(), { a: 1, retries: 7 }));
  expect(logger.lines.map(({ message }) => message).join()).toContain("retries");
});

it("builds store dates of another realm as text", async () => {
  const builds = createBuildCheckpoints({ path: `${await tempFolder()}/builds.db` });
  const task = Object.assign(new foreign.Object(), { at: new foreign.Date(0) });
  builds.saveCheckpoint("b", { tasks: [task], currentPhase: 1, metadata: {} });
  expect(builds.getLatestCheckpoint("b")?.tasks).toEqual([{ at: "1970-01-01T00:00:00.000Z" }]);
  builds.close();
});

it("LangGraph's threads are found by a date of another realm", async () => {
  const saver = new WaymarkSaver({ storage: new MemoryAdapter(), logger: recordingLogger() });
  expect(await saver.threads({ idleSince: new foreign.Date(0) })).toEqual([]);
});
