import { describe, expect, it } from "vitest";
import { CheckpointConflictError } from "waymark";
import { AdapterCalls } from "waymark/adapter";
import { deferred } from "../../support/deferred.js";

describe("the calls of an adapter", () => {
  it("run one after another in a task, in call order, though a later one would be ready first", async () => {
    const calls = new AdapterCalls({ name: "test" });
    const [slow, slower] = [deferred(), deferred()];
    const ended: string[] = [];
    const first = calls.inTurn("t", async () => {
      await slow.promise;
      ended.push("first");
    });
    const second = calls.inTurn("t", async () => {
      await slower.promise;
      ended.push("second");
    });
    await calls.inTurn("u", async () => void ended.push("another task's"));
    expect(ended).toEqual(["another task's"]);
    slow.resolve();
    await first;
    // The first call's turn is cleared away meanwhile.
    await calls.inTurn("u", async () => undefined);
    const third = calls.inTurn("t", async () => void ended.push("third"));
    await calls.inTurn("u", async () => void ended.push("another task's second"));
    expect(ended).toEqual(["another task's", "first", "another task's second"]);
    slower.resolve();
    await Promise.all([second, third]);
    expect(ended).toEqual(["another task's", "first", "another task's second", "second", "third"]);
  });

  it("run in a task after one that failed", async () => {
    const calls = new AdapterCalls({ name: "test" });
    const failed = calls.inTurn("t", async () => Promise.reject(new Error("full")));
    const next = calls.inTurn("t", async () => "stored");
    await expect(failed).rejects.toThrow("full");
    expect(await next).toBe("stored");
  });

  it("begin at once outside a turn", async () => {
    const calls = new AdapterCalls({ name: "test" });
    let hasBegun = false;
    const call = calls.run(async () => {
      hasBegun = true;
    });
    expect(hasBegun).toBe(true);
    await call;
  });

  it("all end before a close releases what they need, queued ones included", async () => {
    const calls = new AdapterCalls({ name: "test" });
    const slow = deferred();
    const events: string[] = [];
    const made = [
      calls.inTurn("t", () => slow.promise),
      calls.inTurn("t", async () => void events.push("waited for its turn")),
      calls.run(() => slow.promise),
    ];
    const closed = calls.close(async () => void events.push("released"));
    slow.resolve();
    await closed;
    expect(events).toEqual(["waited for its turn", "released"]);
    await Promise.all(made);
  });

  it("are refused as closed from close on, while the earlier ones still run", async () => {
    const calls = new AdapterCalls({ name: "test" });
    const slow = deferred();
    const early = calls.inTurn("t", () => slow.promise);
    const closed = calls.close();
    const refused = { code: "CLOSED", message: expect.stringContaining("The test adapter is closed") };
    let hasBegun = false;
    const begin = async (): Promise<void> => {
      hasBegun = true;
    };
    await expect(calls.run(begin)).rejects.toMatchObject(refused);
    await expect(calls.inTurn("t", begin)).rejects.toMatchObject(refused);
    expect(hasBegun).toBe(false);
    slow.resolve();
    await Promise.all([early, closed]);
  });

  it("are closed once, however often that is asked for", async () => {
    const calls = new AdapterCalls({ name: "test" });
    let releases = 0;
    const release = async (): Promise<void> => void releases++;
    await Promise.all([calls.close(release), calls.close(release)]);
    await calls.close(release);
    expect(releases).toBe(1);
  });

  it("reject with a StorageError that names place and cause if the backend fails", async () => {
    const calls = new AdapterCalls({ name: "test" });
    const cause = new TypeError("fetch failed");
    const thrower = (): never => {
      throw cause;
    };
    await expect(calls.inTurn("build-42", async () => thrower())).rejects.toMatchObject({
      code: "STORAGE_FAILED",
      message: expect.stringMatching(/^The test adapter failed in a call for "build-42": fetch failed\. .* intact/),
      retryable: false,
      cause,
    });
    await expect(calls.run(thrower)).rejects.toMatchObject({ code: "STORAGE_FAILED", cause });
    const text: unknown = "text";
    await expect(calls.run(async () => Promise.reject(text))).rejects.toMatchObject({ cause: "text" });
    await expect(calls.close(async () => thrower())).rejects.toMatchObject({ code: "STORAGE_FAILED", cause });
  });

  it("reject with the error that `explain` makes, but with a CheckpointError as it is", async () => {
    const explained = new RangeError("the disk is full");
    const calls = new AdapterCalls({ name: "test", explain: (error) => (error === "full" ? explained : error) });
    const thrown: unknown = "full";
    await expect(calls.run(async () => Promise.reject(thrown))).rejects.toBe(explained);
    const conflict = new CheckpointConflictError("taken");
    await expect(calls.inTurn("t", async () => Promise.reject(conflict))).rejects.toBe(conflict);
  });

  it("reject with a CheckpointError as it is", async () => {
    const calls = new AdapterCalls({ name: "test" });
    const conflict = new CheckpointConflictError("taken");
    await expect(calls.inTurn("t", async () => Promise.reject(conflict))).rejects.toBe(conflict);
  });

  it.each([
    ["a lost connection", Object.assign(new Error("socket hang up"), { code: "ECONNRESET" }), true],
    ["a lost connection below", new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } }), false],
    [
      "an error whose cause is a lost connection",
      new TypeError("fetch failed", { cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) }),
      true,
    ],
    ["any other error", Object.assign(new Error("no"), { code: "ENOENT" }), false],
  ])("may be retried or not, by default: %s", async (_what, error, retryable) => {
    const calls = new AdapterCalls({ name: "test" });
    await expect(calls.run(async () => Promise.reject(error))).rejects.toMatchObject({ retryable });
  });

  it("may be retried if the adapter allows it", async () => {
    const isRetryable = (error: unknown): boolean => error instanceof RangeError;
    const calls = new AdapterCalls({ name: "test", isRetryable });
    await expect(calls.run(async () => Promise.reject(new RangeError()))).rejects.toMatchObject({ retryable: true });
    await expect(calls.run(async () => Promise.reject(new Error()))).rejects.toMatchObject({ retryable: false });
  });
});
