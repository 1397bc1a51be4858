import { describe, expect, it } from "vitest";
import { CheckpointManager, type StateSchema } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";

const isoDate = z.codec(z.iso.datetime(), z.date(), {
  decode: (text) => new Date(text),
  encode: (date) => date.toISOString(),
});

function managerWith<State>(schema: StateSchema<unknown, State>, storage = new MemoryAdapter()) {
  return new CheckpointManager({ storage, schema });
}

/** A Standard Schema without a library, for numbers as text. */
const numberText: StateSchema<string, number> = {
  "~standard": {
    version: 1,
    vendor: "tests",
    validate: (value) =>
      typeof value === "string" && value !== "" && Number.isFinite(Number(value))
        ? { value: Number(value) }
        : { issues: [{ message: "not a number's text" }] },
  },
};

describe("a schema", () => {
  it("encodes with its codecs on save and decodes on load", async () => {
    const storage = new MemoryAdapter();
    const manager = managerWith(z.object({ startedAt: isoDate }), storage);
    const { id } = await manager.save("t", { startedAt: new Date(0) });
    expect(await storage.get("t", id)).toMatchObject({
      payload: { encoding: "json", body: '{"startedAt":"1970-01-01T00:00:00.000Z"}' },
    });
    expect((await manager.latest("t"))?.state.startedAt).toEqual(new Date(0));
  });

  it("refuses a state with the path of each complaint, and stores nothing", async () => {
    const manager = managerWith(z.object({ steps: z.array(z.object({ name: z.string() })) }));
    const saving = manager.save("t", { steps: [{ name: 1 as never }] });
    await expect(saving).rejects.toMatchObject({ code: "STATE_INVALID", issues: [{ path: "$.steps[0].name" }] });
    expect(await manager.has("t")).toBe(false);
  });

  it("refuses a stored state, leaves it untouched, and doesn't step back to an older one", async () => {
    const storage = new MemoryAdapter();
    const old = managerWith(z.object({ n: z.number() }), storage);
    await old.save("t", { n: 1 });
    const strict = managerWith(z.object({ n: z.string() }), storage);
    const loading = strict.latest("t");
    await expect(loading).rejects.toMatchObject({ code: "STATE_INVALID", issues: [{ path: "$.n" }] });
    await expect(loading).rejects.toThrow("is intact");
    expect((await old.latest("t"))?.state).toEqual({ n: 1 });
  });

  it("that can't encode stores the state unchanged, so that it can always be loaded", async () => {
    const manager = managerWith(numberText);
    await manager.save("t", "42");
    expect((await manager.latest("t"))?.state).toBe(42);
    await expect(manager.save("t", "many")).rejects.toMatchObject({ code: "STATE_INVALID", issues: [{ path: "$" }] });
  });

  it("with a one-way transform is refused with advice to use a codec", async () => {
    const manager = managerWith(z.object({ n: z.string().transform(Number) }));
    await expect(manager.save("t", { n: 1 })).rejects.toThrow(/codec/);
    await expect(manager.save("t", { n: 1 })).rejects.toThrow(TypeError);
  });

  it.each<[string, StateSchema]>([
    ["an asynchronous Zod refinement", z.string().refine(async () => true)],
    [
      "an asynchronous Standard Schema",
      { "~standard": { version: 1, vendor: "tests", validate: async (value) => ({ value }) } },
    ],
    [
      "one that gives a thenable",
      // biome-ignore lint/suspicious/noThenProperty: the thenable is what is tested
      { "~standard": { version: 1, vendor: "tests", validate: () => ({ then: () => undefined }) as never } },
    ],
    [
      "one that fails asynchronously",
      { "~standard": { version: 1, vendor: "tests", validate: () => Promise.reject(new Error("late")) } },
    ],
  ])("that works asynchronously is a TypeError: %s", async (_name, schema) => {
    const manager = managerWith(schema);
    const saving = manager.save("t", "state");
    await expect(saving).rejects.toThrow(TypeError);
    await expect(saving).rejects.toThrow(/synchronous/);
  });
});

describe("a state's version", () => {
  const versioned = (storage: MemoryAdapter, stateVersion: number, migrations = {}) =>
    new CheckpointManager({ storage, stateVersion, migrations, schema: z.object({ names: z.array(z.string()) }) });

  it("is brought forward step by step, in its stored form, before the schema sees it", async () => {
    const storage = new MemoryAdapter();
    await new CheckpointManager({ storage }).save("t", { name: "a,b" });
    const manager = versioned(storage, 3, {
      1: (stored: unknown) => z.object({ name: z.string() }).parse(stored).name,
      2: (stored: unknown) => ({ names: z.string().parse(stored).split(",") }),
    });
    const latest = await manager.latest("t");
    expect(latest?.state).toEqual({ names: ["a", "b"] });
    expect(latest?.stateVersion).toBe(1);
    expect((await manager.save("t", { names: [] })).stateVersion).toBe(3);
  });

  it("without its migration is refused by name", async () => {
    const storage = new MemoryAdapter();
    await new CheckpointManager({ storage }).save("t", { names: [] });
    await expect(versioned(storage, 2).latest("t")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
    await expect(versioned(storage, 2).latest("t")).rejects.toThrow("from version 1 to 2");
  });

  it("whose migration throws is refused by name, with the cause", async () => {
    const storage = new MemoryAdapter();
    await new CheckpointManager({ storage }).save("t", { names: [] });
    const cause = new Error("no such field");
    const manager = versioned(storage, 2, {
      1: () => {
        throw cause;
      },
    });
    await expect(manager.latest("t")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT", cause });
    await expect(manager.latest("t")).rejects.toThrow("from version 1 to 2 failed: no such field");
  });

  it("newer than the program's is refused, not skipped", async () => {
    const storage = new MemoryAdapter();
    await versioned(storage, 1).save("t", { names: ["old"] });
    await versioned(storage, 2).save("t", { names: ["new"] });
    await expect(versioned(storage, 1).latest("t")).rejects.toMatchObject({ code: "UNSUPPORTED_FORMAT" });
  });
});
