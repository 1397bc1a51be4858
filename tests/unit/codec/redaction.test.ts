import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CheckpointManager,
  type CheckpointManagerOptions,
  encrypt,
  StateNotSerializableError,
  type StateSchema,
} from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { recordingLogger } from "../../support/recording-logger.js";

const SECRET = "hunter2-hunter2";

function managerThat(paths: readonly string[], options: Partial<CheckpointManagerOptions> & { censor?: string } = {}) {
  const { censor, ...rest } = options;
  return new CheckpointManager({ storage: new MemoryAdapter(), redact: { paths, censor }, ...rest });
}

/** Returns the stored form of a state. */
async function stored(state: unknown, ...paths: string[]): Promise<unknown> {
  const manager = managerThat(paths);
  await manager.save("t", state);
  return (await manager.latest("t"))?.state;
}

describe("redact, of a state", () => {
  it.each<[string, unknown, string, unknown]>([
    ["a property", { a: SECRET, b: 1 }, "state.a", { a: "[redacted]", b: 1 }],
    ["one of any name", { "two words": SECRET, b: 1 }, 'state["two words"]', { "two words": "[redacted]", b: 1 }],
    ["one in quotes with a quote", { 'a"b': SECRET }, 'state["a\\"b"]', { 'a"b': "[redacted]" }],
    [
      "one named __proto__",
      JSON.parse(`{"__proto__":"${SECRET}"}`),
      "state.__proto__",
      JSON.parse('{"__proto__":"[redacted]"}'),
    ],
    ["one named *", { "*": SECRET, a: 1 }, 'state["*"]', { "*": "[redacted]", a: 1 }],
    ["deep down", { a: { b: { c: SECRET, d: 2 } } }, "state.a.b.c", { a: { b: { c: "[redacted]", d: 2 } } }],
    ["an item", { a: [1, SECRET, 3] }, "state.a[1]", { a: [1, "[redacted]", 3] }],
    [
      "every item's",
      { a: [{ k: SECRET, n: 1 }, { n: 2 }] },
      "state.a[*].k",
      { a: [{ k: "[redacted]", n: 1 }, { n: 2 }] },
    ],
    [
      "any property's",
      { x: { k: SECRET }, y: { k: SECRET } },
      "state.*.k",
      { x: { k: "[redacted]" }, y: { k: "[redacted]" } },
    ],
    ["whole objects", { a: { deep: [SECRET] } }, "state.a", { a: "[redacted]" }],
    ["a value that isn't text", { a: 42, b: null }, "state.*", { a: "[redacted]", b: "[redacted]" }],
    ["of an array itself", [SECRET, 1], "state[0]", ["[redacted]", 1]],
    ["a Map's value", { m: new Map([["k", SECRET]]) }, "state.m.k", { m: new Map([["k", "[redacted]"]]) }],
    [
      "a Map's value under no text",
      new Map<unknown, unknown>([[1, { k: SECRET }]]),
      "state.*.k",
      new Map([[1, { k: "[redacted]" }]]),
    ],
    [
      "within a Set's items",
      { s: new Set([{ k: SECRET }, { k: SECRET }]) },
      "state.s[*].k",
      { s: new Set([{ k: "[redacted]" }, { k: "[redacted]" }]) },
    ],
    ["a Set if its items are meant", { s: new Set([SECRET, "b"]) }, "state.s[*]", { s: "[redacted]" }],
    ["a value that could not be saved", { f: () => SECRET, n: 1 }, "state.f", { f: "[redacted]", n: 1 }],
    ["nothing that doesn't exist", { a: 1 }, "state.b.c", { a: 1 }],
    [
      "at any depth",
      { k: SECRET, a: [{ k: SECRET, n: 1 }], m: new Map([["x", { k: SECRET }]]) },
      "state.**.k",
      { k: "[redacted]", a: [{ k: "[redacted]", n: 1 }], m: new Map([["x", { k: "[redacted]" }]]) },
    ],
    [
      "at any depth below a name, and above one",
      { a: { k: { z: SECRET }, b: { k: { z: SECRET, n: 1 } } }, k: { z: 1 } },
      "state.a.**.k.z",
      { a: { k: { z: "[redacted]" }, b: { k: { z: "[redacted]", n: 1 } } }, k: { z: 1 } },
    ],
    ["in a Map's key, which has it inside", new Map([[{ k: SECRET }, 1]]), "**.k", new Map([[{ k: "[redacted]" }, 1]])],
    ["but no Set of others", { s: new Set(["a"]), k: SECRET }, "**.k", { s: new Set(["a"]), k: "[redacted]" }],
    ["no other depth", { a: SECRET, b: { a: 1 } }, "state.a", { a: "[redacted]", b: { a: 1 } }],
  ])("strips %s", async (_what, state, path, expected) => {
    const before = inspect(state, { depth: 9 });
    expect(await stored(state, path)).toEqual(expected);
    expect(inspect(state, { depth: 9 })).toBe(before);
  });

  it("strips an error's name from its stack, and treats the censor's special characters as text", async () => {
    const error = Object.assign(new Error("open sesame"), { name: "SecretError" });
    error.stack = "SecretError: open sesame\n    at the door";
    const storage = new MemoryAdapter();
    const manager = new CheckpointManager({
      storage,
      redact: { paths: ["error.name", "error.message"], censor: "$&" },
    });
    const { id } = await manager.save("t", 1, { error });
    const kept = (await manager.restore("t", id)).error;
    expect(kept).toMatchObject({ name: "$&", message: "$&", stack: "$&: $&\n    at the door" });
  });

  it("leaves a stack's calls unchanged, however short the message is", async () => {
    const calls = "\n    at attach (at.js:1:2)\n    at async at.js:7:7";
    const error = Object.assign(new RangeError("at"), { stack: `RangeError: at${calls}` });
    const manager = managerThat(["error.message", "state.error.message"]);
    const { id } = await manager.save("t", { error }, { error });
    const kept = await manager.restore("t", id);
    expect(kept.error?.stack).toBe(`RangeError: [redacted]${calls}`);
    expect(kept.state).toMatchObject({ error: { stack: `RangeError: [redacted]${calls}` } });
  });

  it("strips a message of several lines from its stack, even one that looks like a call", async () => {
    const message = `refused\n    at ${SECRET}`;
    const error = Object.assign(new Error(message), { stack: `Error: ${message}\n    at call (file.js:1:2)` });
    const manager = managerThat(["error.message"]);
    const { id } = await manager.save("t", 1, { error });
    expect((await manager.restore("t", id)).error?.stack).toBe("Error: [redacted]\n    at call (file.js:1:2)");
  });

  it("strips an error's message from its stack as well", async () => {
    const error = Object.assign(new TypeError(`token ${SECRET} refused`, { cause: SECRET }), { token: SECRET });
    const kept = await stored({ error }, "state.error.message", "state.error.cause", "state.error.token");
    expect(inspect(kept, { showHidden: true })).not.toContain(SECRET);
    expect(kept).toMatchObject({ error: { message: "[redacted]", name: "TypeError", token: "[redacted]" } });
    expect(error.message).toContain(SECRET);
  });

  it("leaves frozen states unchanged, and values that are read beside them", async () => {
    const state = Object.freeze({ key: SECRET, list: Object.freeze([SECRET]) });
    const manager = managerThat(["state.key", "state.list[*]"]);
    const saving = manager.save("t", state);
    expect(state).toEqual({ key: SECRET, list: [SECRET] });
    await saving;
    expect((await manager.latest("t"))?.state).toEqual({ key: "[redacted]", list: ["[redacted]"] });
  });

  it("never stores the value at a redacted path", async () => {
    const values = fc.anything({ withDate: true, withMap: true, withSet: true, maxDepth: 3 });
    let stored = 0;
    await fc.assert(
      fc.asyncProperty(values, fc.constantFrom("a", "b c", "*"), async (value, key) => {
        const state = { [key]: SECRET, at: value, list: [{ [key]: SECRET }, new Map([[key, SECRET]])] };
        const step = `[${JSON.stringify(key)}]`;
        const storage = new MemoryAdapter();
        const redact = { paths: [`state${step}`, `state.list[*]${step}`] };
        const manager = new CheckpointManager({ storage, redact });
        const saved = await manager.save("t", state).catch((error: unknown) => {
          // fast-check also makes symbols, and objects without a prototype under odd names.
          if (error instanceof StateNotSerializableError) return undefined;
          throw error;
        });
        if (saved === undefined) return;
        stored += 1;
        const record = await storage.get("t", saved.id);
        expect(inspect(record)).not.toContain(SECRET);
        expect((await manager.latest("t"))?.state).toBeDefined();
      }),
    );
    expect(stored).toBeGreaterThan(50);
  });

  it("takes another censor", async () => {
    const manager = managerThat(["state.a"], { censor: "***" });
    await manager.save("t", { a: SECRET });
    expect((await manager.latest("t"))?.state).toEqual({ a: "***" });
  });

  it("comes before encryption and digests, so that a changed secret causes no auto-save", async () => {
    const state = { key: SECRET, n: 1 };
    const manager = managerThat(["state.key"], {
      transforms: [encrypt({ keys: { k: new Uint8Array(32).fill(3) }, current: "k" })],
    });
    const autoSave = manager.autoSave("t", () => state);
    await autoSave.flush();
    state.key = `${SECRET}!`;
    await autoSave.flush();
    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([1]);
    state.n = 2;
    await autoSave.flush();
    expect((await manager.list("t")).map(({ sequence }) => sequence)).toEqual([2]);
    await manager.close();
  });

  it("refuses to save a state that the schema would refuse to load", async () => {
    const schema: StateSchema = z.object({ pin: z.number(), key: z.string() });
    const manager = managerThat(["state.pin"], { schema });
    await expect(manager.save("t", { pin: 1234, key: "k" })).rejects.toMatchObject({
      code: "STATE_INVALID",
      message: expect.stringMatching(/Nothing was saved: the schema refuses the redacted state: \$\.pin/),
    });
    expect(await manager.has("t")).toBe(false);
    const lenient = managerThat(["state.key"], { schema });
    await lenient.save("t", { pin: 1234, key: SECRET });
    expect((await lenient.latest("t"))?.state).toEqual({ pin: 1234, key: "[redacted]" });
  });
});

describe("redact, of values beside a state", () => {
  const error = Object.assign(new RangeError(`bad token ${SECRET}`), { code: SECRET });

  it("strips metadata and label", async () => {
    const manager = managerThat(["metadata.token", "metadata.users[*].password", "label"]);
    const metadata = { token: SECRET, users: [{ password: SECRET, name: "ann" }] };
    const saved = await manager.save("t", 1, { metadata, label: `with ${SECRET}`, stage: "s" });
    expect(saved).toMatchObject({
      metadata: { token: "[redacted]", users: [{ password: "[redacted]", name: "ann" }] },
      label: "[redacted]",
      stage: "s",
    });
    expect(metadata.token).toBe(SECRET);
    expect(inspect(await manager.list("t"), { depth: 9 })).not.toContain(SECRET);
  });

  it.each<[readonly string[], object]>([
    [["error"], { message: "[redacted]" }],
    [["error.*"], { message: "[redacted]", name: "[redacted]", code: "[redacted]", stack: "[redacted]" }],
    [["error.message", "error.code"], { message: "[redacted]", name: "RangeError", code: "[redacted]" }],
  ])("strips %j from an error, whichever way it comes in", async (paths, expected) => {
    const logger = recordingLogger();
    const manager = managerThat(paths, { logger });
    const { id } = await manager.save("saved", 1, { error });
    await manager.save("failed", 1);
    await manager.fail("failed", error);
    await manager.setStatus("saved", id, "failed", { error });
    for (const taskId of ["saved", "failed"]) {
      const [summary] = await manager.list(taskId);
      expect(summary?.error).toMatchObject(expected);
      expect(inspect(summary)).not.toContain(SECRET);
    }
    expect(inspect(logger.lines, { depth: 9 })).not.toContain(SECRET);
  });

  it("strips metadata and errors at any depth", async () => {
    const manager = managerThat(["**.password", "**.code"]);
    const metadata = { user: { password: SECRET, name: "ann" } };
    const saved = await manager.save(
      "t",
      { n: 1 },
      { metadata, error: Object.assign(new Error("no"), { code: SECRET }) },
    );
    expect(saved).toMatchObject({
      metadata: { user: { password: "[redacted]", name: "ann" } },
      error: { message: "no", code: "[redacted]" },
    });
  });

  it("leaves the rest of an error unchanged", async () => {
    const manager = managerThat(["error.stack", "error.cause"]);
    const { error: kept } = await manager.save("t", 1, { error: new Error("open") });
    expect(kept).toEqual({ message: "open", name: "Error", stack: "[redacted]" });
  });
});

describe("a path to redact", () => {
  it.each([
    ..."state,metadata,apiKey,label.x,error.mesage,error.message.x,stage,state.,state..a,state[,state[x],state['a'],state.a b".split(
      ",",
    ),
    ...["", "state.a.", 'state["a]', "$.a", "state[-1]", "state.**", " state.a"],
    ...["**", "**.", "**.a.**", "a.**.b", "label.**.a", "error.**.message", "***.a", "state.***", "state[**].a"],
  ])("is a TypeError if it leads nowhere: %s", (path) => {
    expect(() => managerThat([path])).toThrow(TypeError);
    expect(() => managerThat([path])).toThrow(/isn't a path to redact/);
  });

  it("is looked for in an array of text", () => {
    const make = (redact: unknown) => () =>
      new CheckpointManager({ storage: new MemoryAdapter(), redact: redact as never });
    expect(make({ paths: "state.a" })).toThrow(/must be an array of paths/);
    expect(make({ paths: [1] })).toThrow(/must be text/);
    expect(make({ path: [] })).toThrow(/has no "path"/);
    expect(make({ paths: [], censor: 1 })).toThrow(/censor must be a string/);
    expect(make(["state.a"])).toThrow(/must be an object/);
  });
});
