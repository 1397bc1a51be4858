import { describe, expect, it } from "vitest";
import { CheckpointManager, type StateSchema } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { recordingLogger } from "../../support/recording-logger.js";

function managerWith<Schema extends StateSchema>(schema: Schema) {
  const logger = recordingLogger();
  const manager = new CheckpointManager({ storage: new MemoryAdapter(), schema, logger });
  const warnings = () => logger.lines.filter(({ level }) => level === "warn");
  /** Saves a state with more keys than its schema. */
  const save = (state: unknown) => manager.save("t", state as never);
  return { manager, save, warnings };
}

describe("a schema that drops keys of a saved state", () => {
  it("causes one warning per manager, with the keys", async () => {
    const { manager, save, warnings } = managerWith(z.object({ a: z.number() }));
    await save({ a: 1, retries: 7 });
    expect((await manager.latest("t"))?.state).toEqual({ a: 1 });
    for (let n = 2; n <= 8; n++) await save({ a: n, retries: 7 });
    expect(warnings()).toEqual([
      {
        level: "warn",
        message: expect.stringMatching(/^The schema drops keys of a saved state, .*: \$\.retries\. Add them/),
        details: { taskId: "t", keys: ["$.retries"] },
      },
    ]);
  });

  it("causes another warning at a later save if its keys are new", async () => {
    const { save, warnings } = managerWith(z.object({ a: z.number() }));
    for (const state of [{ a: 1 }, { a: 2 }, { a: 3, retries: 7 }]) await save(state);
    expect(warnings().map(({ details }) => details)).toEqual([{ taskId: "t", keys: ["$.retries"] }]);
  });

  it("causes warnings at any depth, and one for a list", async () => {
    const { save, warnings } = managerWith(
      z.object({
        steps: z.array(z.object({ name: z.string(), of: z.object({}) })),
        byKey: z.record(z.string(), z.object({})),
      }),
    );
    const step = { name: "s", of: { "a b": 1 }, took: 3 };
    await save({ steps: [step, step], byKey: { x: { lost: true } } });
    expect(warnings().map(({ details }) => details)).toEqual([
      { taskId: "t", keys: ['$.steps[].of["a b"]', "$.steps[].took", "$.byKey.x.lost"] },
    ]);
  });

  it("causes a warning if a key comes later", async () => {
    const { save, warnings } = managerWith(z.object({ a: z.number() }));
    for (let n = 1; n <= 100; n++) await save({ a: n });
    expect(warnings()).toEqual([]);
    for (let n = 101; n <= 128; n++) await save({ a: n, retries: 7 });
    expect(warnings()).toHaveLength(1);
  });

  it("causes a warning even if the schema can't encode", async () => {
    const stripping: StateSchema<{ a: number }> = {
      "~standard": { version: 1, vendor: "tests", validate: (value) => ({ value: { a: (value as { a: number }).a } }) },
    };
    const { save, warnings } = managerWith(stripping);
    await save({ a: 1, retries: 7 });
    expect(warnings()).toHaveLength(1);
  });
});

describe("a schema that keeps all keys", () => {
  const date = z.codec(z.iso.datetime(), z.date(), {
    decode: (text) => new Date(text),
    encode: (value) => value.toISOString(),
  });
  const renamed = z.codec(z.object({ iso: z.string() }), z.object({ at: z.date() }), {
    decode: ({ iso }) => ({ at: new Date(iso) }),
    encode: ({ at }) => ({ iso: at.toISOString() }),
  });

  it.each<[string, StateSchema, unknown]>([
    ["a codec that makes text of a Date", z.object({ at: date }), { at: new Date(0) }],
    ["a codec that stores other keys", z.object({ when: renamed }), { when: { at: new Date(0) } }],
    ["a loose object", z.looseObject({ a: z.number() }), { a: 1, more: { b: 2 } }],
    ["a default", z.object({ a: z.number().default(3) }), { a: 1 }],
    ["a key that is undefined", z.object({ a: z.number() }), { a: 1, b: undefined }],
    ["a map", z.object({ m: z.map(z.string(), z.number()) }), { m: new Map([["k", 1]]) }],
  ])("causes no warning: %s", async (_, schema, state) => {
    const { save, warnings } = managerWith(schema);
    await save(state);
    expect(warnings()).toEqual([]);
  });

  it("costs little: ten of a thousand saves are checked", async () => {
    let decoded = 0;
    const counted = z.codec(z.number(), z.number(), {
      decode: (n) => {
        decoded += 1;
        return n;
      },
      encode: (n) => n,
    });
    const { save } = managerWith(z.object({ n: counted }));
    for (let n = 1; n <= 1000; n++) await save({ n });
    expect(decoded).toBe(10);
  });
});
