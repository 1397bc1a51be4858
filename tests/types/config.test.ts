import { expectTypeOf, it } from "vitest";
import { CheckpointManager, type StateSchema } from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { defineConfig, openManager } from "waymark/config";
import { z } from "zod";

const BuildState = z.object({
  phase: z.number(),
  startedAt: z.codec(z.iso.datetime(), z.date(), { decode: (t) => new Date(t), encode: (d) => d.toISOString() }),
});
type BuildState = { phase: number; startedAt: Date };

it("types a manager by the schema, or by the type parameter", () => {
  const bySchema = () => openManager({ schema: BuildState });
  expectTypeOf(bySchema).returns.resolves.toEqualTypeOf<CheckpointManager<BuildState>>();
  const byType = () => openManager<BuildState>();
  expectTypeOf(byType).returns.resolves.toEqualTypeOf<CheckpointManager<BuildState>>();
  const untyped = () => openManager();
  expectTypeOf(untyped).returns.resolves.toEqualTypeOf<CheckpointManager>();
  const decoding = (schema: StateSchema<string, number>) => openManager({ schema });
  expectTypeOf(decoding).returns.resolves.toEqualTypeOf<CheckpointManager<number, string>>();
});

it("keeps the types of a configuration's settings", () => {
  const config = defineConfig({ storage: "sqlite:x.db", schema: BuildState, retention: { keepLast: 3 } });
  expectTypeOf(config.storage).toEqualTypeOf<"sqlite:x.db">();
  expectTypeOf(config.schema).toEqualTypeOf<typeof BuildState>();
  const own = defineConfig({ storage: new MemoryAdapter(), schema: BuildState });
  const manager = () => new CheckpointManager({ ...own });
  expectTypeOf(manager).returns.toEqualTypeOf<CheckpointManager<BuildState>>();
  // @ts-expect-error It is `retention`.
  void (() => defineConfig({ storage: "sqlite:x.db", retenton: { keepLast: 3 } }));
});
