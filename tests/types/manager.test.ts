import { expectTypeOf, it } from "vitest";
import {
  type Checkpoint,
  CheckpointManager,
  type CheckpointSummary,
  type PruneResult,
  type RetentionPlan,
  type StateChange,
  type StateSchema,
  type StorageAdapter,
} from "waymark";
import type { AppendCondition } from "waymark/adapter";
import { openStorage } from "waymark/adapters";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";
import { listKeys } from "../../src/contract/arguments.js";
import type { ExpectedTask } from "../../src/contract/conditions.js";
import type { StorageMaintenance } from "../../src/contract/findings.js";

const storage = new MemoryAdapter();
const BuildState = z.object({
  phase: z.number(),
  startedAt: z.codec(z.iso.datetime(), z.date(), { decode: (t) => new Date(t), encode: (d) => d.toISOString() }),
});
type BuildState = { phase: number; startedAt: Date };

it("infers the state from the schema, on save and on load", () => {
  const manager = new CheckpointManager({ storage, schema: BuildState });
  expectTypeOf(manager.save).parameter(1).toEqualTypeOf<BuildState>();
  expectTypeOf(manager.latest).returns.resolves.toEqualTypeOf<Checkpoint<BuildState> | undefined>();
  expectTypeOf(manager.restore).returns.resolves.toEqualTypeOf<Checkpoint<BuildState>>();
  // @ts-expect-error A phase is a number.
  void (() => manager.save("t", { phase: "1", startedAt: new Date() }));
});

it("accepts a schema's input and returns its output if the schema can't encode", () => {
  const schema = {} as StateSchema<string, number>;
  const manager = () => new CheckpointManager({ storage, schema });
  expectTypeOf<ReturnType<typeof manager>["save"]>().parameter(1).toEqualTypeOf<string>();
  expectTypeOf<Awaited<ReturnType<ReturnType<typeof manager>["latest"]>>>().toEqualTypeOf<
    Checkpoint<number> | undefined
  >();
});

it("knows nothing of the state without a schema", () => {
  const manager = new CheckpointManager({ storage });
  expectTypeOf(manager.latest).returns.resolves.toEqualTypeOf<Checkpoint<unknown> | undefined>();
});

it("makes a misspelled option a compile error", () => {
  // @ts-expect-error It is `retention`.
  void (() => new CheckpointManager({ storage, retenton: { keepLast: 1 } }));
  const manager = new CheckpointManager({ storage });
  // @ts-expect-error It is `label`.
  void (() => manager.save("t", 1, { labl: "x" }));
  // @ts-expect-error It is `saved`.
  void (() => manager.on("save", () => {}));
  // @ts-expect-error Metadata is plain JSON.
  void (() => manager.save("t", 1, { metadata: { when: new Date() } }));
});

it("types the search by the schema, and the changes of a diff by their kind", () => {
  const manager = new CheckpointManager({ storage, schema: BuildState });
  const search = () => manager.firstWhere("t", async ({ state }) => state.startedAt.getTime() > 0 && state.phase > 1);
  expectTypeOf(search).returns.resolves.toEqualTypeOf<Checkpoint<BuildState> | undefined>();
  // @ts-expect-error The answer is true, false or undefined.
  void (() => manager.firstWhere("t", ({ state }) => state.phase));
  expectTypeOf(manager.diff).returns.resolves.toEqualTypeOf<StateChange[]>();
  expectTypeOf<Extract<StateChange, { kind: "moved" }>["toIndex"]>().toEqualTypeOf<number>();
});

it("makes fork and rewind accept only options that a copy can have", () => {
  const manager = new CheckpointManager({ storage });
  expectTypeOf(manager.fork).returns.resolves.toEqualTypeOf<CheckpointSummary>();
  expectTypeOf(manager.rewind).returns.resolves.toEqualTypeOf<CheckpointSummary>();
  void (() => manager.rewind("t", "c1", { expectedSequence: 3, label: "back", metadata: { why: "wrong" } }));
  // @ts-expect-error The new task must not have checkpoints.
  void (() => manager.fork("t", "c1", "u", { expectedSequence: 3 }));
  // @ts-expect-error The stage is the checkpoint's.
  void (() => manager.rewind("t", "c1", { stage: "x" }));
});

it("types events by their name", () => {
  const manager = new CheckpointManager({ storage });
  manager.on("saved", (summary) => expectTypeOf(summary.sequence).toEqualTypeOf<number>());
  manager.on("autoSaveFailed", ({ error }) => expectTypeOf(error).toEqualTypeOf<unknown>());
});

it("prunes by a policy and applies a plan by two methods", () => {
  const manager = new CheckpointManager({ storage });
  expectTypeOf(manager.retention.apply).parameters.toEqualTypeOf<[plan: RetentionPlan]>();
  expectTypeOf(manager.retention.apply).returns.resolves.toEqualTypeOf<PruneResult>();
  expectTypeOf(manager.retention.prune).returns.resolves.toEqualTypeOf<PruneResult>();
  // @ts-expect-error Without a task, a prefix or `all` it would prune everything.
  void (() => manager.retention.prune({}));
  // @ts-expect-error An id is given as it is, as to every other method.
  void (() => manager.retention.prune({ taskId: "t" }));
});

it("takes the error of a status and the prefix of tasks to remove as named options", () => {
  const manager = new CheckpointManager({ storage });
  void (() => manager.setStatus("t", "c1", "failed", { error: new Error("x") }));
  // @ts-expect-error It is `error`.
  void (() => manager.setStatus("t", "c1", "failed", { eror: "x" }));
  // @ts-expect-error The error is an option.
  void (() => manager.setStatus("t", "c1", "failed", "x"));
  // @ts-expect-error Without a prefix it would remove everything.
  void (() => manager.removeTask({}));
  void (() => manager.save("t", 1, { id: "step-1" }));
});

it("knows a list of options that lacks one, or has another one", () => {
  type Options = { readonly path: string; readonly limit?: number | undefined };
  expectTypeOf(listKeys<Options>({ path: true, limit: true })).toEqualTypeOf<readonly (keyof Options)[]>();
  // @ts-expect-error `limit` is forgotten.
  listKeys<Options>({ path: true });
  // @ts-expect-error There is no such option.
  listKeys<Options>({ path: true, limit: true, limt: true });
});

it("opens a storage without a promise", () => {
  expectTypeOf(openStorage).returns.toEqualTypeOf<StorageAdapter>();
});

it("groups the optional parts of an adapter", () => {
  expectTypeOf<StorageAdapter["maintenance"]>().toEqualTypeOf<StorageMaintenance | undefined>();
  expectTypeOf<NonNullable<StorageAdapter["removePrefix"]>>().parameters.toEqualTypeOf<
    [prefix: string, expected?: readonly ExpectedTask[] | undefined]
  >();
  expectTypeOf<StorageAdapter["remove"]>().parameter(2).toEqualTypeOf<AppendCondition | undefined>();
  expectTypeOf<keyof StorageAdapter>().extract<"verify" | "repair" | "warnings">().toEqualTypeOf<never>();
});

it("types the state by the manager's type parameter where there is no schema", () => {
  const manager = new CheckpointManager<BuildState>({ storage });
  expectTypeOf(manager.save).parameter(1).toEqualTypeOf<BuildState>();
  expectTypeOf(manager.latest).returns.resolves.toEqualTypeOf<Checkpoint<BuildState> | undefined>();
  expectTypeOf(manager.autoSave).parameter(1).toEqualTypeOf<() => BuildState | undefined>();
  // @ts-expect-error A phase is a number.
  void (() => manager.save("t", { phase: "1", startedAt: new Date() }));
  void (() => new CheckpointManager<BuildState>({ storage, schema: BuildState }));
  // @ts-expect-error The schema gives another state.
  void (() => new CheckpointManager<BuildState>({ storage, schema: z.object({ phase: z.string() }) }));
});

it("fits, with a schema, where a manager of the state is taken", () => {
  const manager = new CheckpointManager({ storage, schema: BuildState });
  expectTypeOf(manager).toEqualTypeOf<CheckpointManager<BuildState>>();
});

it("takes interfaces and optional fields as metadata", () => {
  interface Origin {
    readonly host: string;
    readonly port?: number | undefined;
    readonly tags: readonly { name: string }[];
  }
  const manager = new CheckpointManager({ storage });
  const origin: Origin = { host: "a", tags: [] };
  void (() => manager.save("t", 1, { metadata: origin }));
  void (() => manager.rewind("t", "c1", { metadata: origin }));
  void ((metadata: CheckpointSummary["metadata"]) => manager.save("t", 1, metadata ? { metadata } : {}));
  // @ts-expect-error JSON has no dates.
  void ((metadata: { inner: { when: Date } }) => manager.save("t", 1, { metadata }));
  // @ts-expect-error JSON has no functions.
  void ((metadata: { inner?: () => void }) => manager.save("t", 1, { metadata }));
  // @ts-expect-error Metadata is an object.
  void (() => manager.save("t", 1, { metadata: "x" }));
});
