import { expectTypeOf, it } from "vitest";
import {
  CheckpointManager,
  type CheckpointStatus,
  type NextTurn,
  type RecordsQuery,
  type Run,
  type SavedStateOf,
  type StateSchema,
  type TaskEvent,
  type TaskRecord,
} from "waymark";
import { MemoryAdapter } from "waymark/adapters/memory";
import { z } from "zod";

const storage = new MemoryAdapter();
const Chat = z.object({
  turns: z.number(),
  at: z.codec(z.string(), z.date(), { decode: (t) => new Date(t), encode: String }),
});
type Chat = { turns: number; at: Date };

it("types a run's state by the manager's schema: undefined unless initialState is given", () => {
  const manager = new CheckpointManager({ storage, schema: Chat });
  void (() => manager.run("t", (run) => void expectTypeOf(run.state).toEqualTypeOf<Chat | undefined>()));
  const initialState = { turns: 0, at: new Date() };
  void (() => manager.run("t", (run) => void expectTypeOf(run.state).toEqualTypeOf<Chat>(), { initialState }));
  // @ts-expect-error The schema has a number there.
  void (() => manager.run("t", (run) => run.next({ turns: "1", at: new Date() })));
  // @ts-expect-error The schema has a number there.
  void (() => manager.run("t", () => 1, { initialState: { turns: "1", at: new Date() } }));
  const typed = new CheckpointManager<Chat>({ storage });
  void (() => typed.run("t", (run) => void expectTypeOf(run.state).toEqualTypeOf<Chat | undefined>()));
});

it("without a schema, takes the state's type from initialState", () => {
  const manager = new CheckpointManager({ storage });
  void (() => manager.run("t", (run) => void expectTypeOf(run.state).toEqualTypeOf<unknown>()));
  const initialState: { n: number } = { n: 0 };
  void (() => manager.run("t", (run) => void expectTypeOf(run.state).toEqualTypeOf<{ n: number }>(), { initialState }));
});

it("returns the function's result, without the type of run.next", () => {
  const manager = new CheckpointManager({ storage });
  const loop = (run: Run) => (run.attempt === 1 ? run.next(1) : { done: true });
  expectTypeOf(loop).returns.toEqualTypeOf<NextTurn | { done: boolean }>();
  const looped = () => manager.run("t", async (run) => loop(run));
  expectTypeOf(looped).returns.resolves.toEqualTypeOf<{ done: boolean }>();
  const nothing = () => manager.run("t", async () => {});
  expectTypeOf(nothing).returns.resolves.toEqualTypeOf<void>();
  const plain = () => manager.run("t", () => "x");
  expectTypeOf(plain).returns.resolves.toEqualTypeOf<string>();
});

it("types a run's input by the option, and a step by its function or its schema", () => {
  const manager = new CheckpointManager({ storage });
  void (() =>
    manager.run("t", (run) => void expectTypeOf(run.input).toEqualTypeOf<{ url: string }>(), { input: { url: "" } }));
  const steps = async (run: Run) =>
    [await run.step("a", async () => 1), await run.step("b", () => "", { schema: z.string() })] as const;
  expectTypeOf(steps).returns.resolves.toEqualTypeOf<readonly [number, string]>();
  // @ts-expect-error The schema has a text.
  void ((run: Run) => run.step("b", () => 1, { schema: z.string() }));
  // @ts-expect-error It is `timeoutMs`.
  void ((run: Run) => run.step("b", () => 1, { timeout: 5 }));
});

interface Report {
  readonly ok: boolean;
  readonly at?: Date;
  readonly parts: readonly Report[];
}
type Part = { type: "text"; text: string } | { type: "bytes"; bytes: Uint8Array } | Error;

it("types a step by its function, sync or async, and by the type that the caller expects", () => {
  const report: Report = { ok: true, parts: [] };
  const steps = async (run: Run, parts: Part[], anything: unknown) =>
    [
      await run.step("a", () => report),
      await run.step("b", async ({ key }) => ({ key, parts })),
      await run.step("c", ({ attempt }) => (attempt === 1 ? undefined : parts[0])),
      await run.step("d", async () => 1, { retry: { times: 2 }, timeoutMs: 5 }),
      await run.step("e", async () => anything),
      await run.step<Report>("f", () => ({ ok: true, parts: [] })),
    ] as const;
  expectTypeOf(steps).returns.resolves.toEqualTypeOf<
    readonly [Report, { key: string; parts: Part[] }, Part | undefined, number, unknown, Report]
  >();
  const expected = (run: Run): Promise<{ answer: "yes" | "no" }> => run.step("a", async () => ({ answer: "yes" }));
  expectTypeOf(expected).toBeFunction();
});

it("takes functions whose result is a type parameter", () => {
  const cached = <T>(run: Run, fn: () => Promise<T>): Promise<T> => run.step("a", fn, { timeoutMs: 5 });
  const wrapped = async <T, K extends keyof T>(run: Run, load: () => Promise<T>, key: K) =>
    run.step("a", async () => ({ value: (await load())[key], list: [await load()] }));
  const checked = <S extends StateSchema>(run: Run, schema: S, fn: () => Promise<SavedStateOf<S>>) =>
    run.step("a", fn, { schema });
  expectTypeOf(cached).toBeFunction();
  expectTypeOf(wrapped).toBeFunction();
  expectTypeOf(checked).toBeFunction();
});

it("results, inputs and values that can't be stored are compile errors", () => {
  class Session {
    readonly id = 1;
    close(): void {}
  }
  const manager = new CheckpointManager({ storage });
  const later = Promise.resolve(1);
  void (async (run: Run) => {
    // @ts-expect-error A function.
    await run.step("a", () => later.then);
    // @ts-expect-error A Promise in the result.
    await run.step("a", async () => ({ later }));
    // @ts-expect-error A symbol.
    await run.step("a", () => [{ key: Symbol("x") }]);
    // @ts-expect-error An instance with methods.
    await run.step("a", async () => new Session());
  });
  // @ts-expect-error The run's result has a method.
  void (() => manager.run("t", async () => new Session()));
  // @ts-expect-error The input has a function.
  void (() => manager.run("t", () => 1, { input: { done: later.then } }));
  // @ts-expect-error The input has a function.
  void (() => manager.enqueue("t", { done: later.then }));
  // @ts-expect-error The value has a Promise.
  void (() => manager.send("t", "go", { later }));
  // @ts-expect-error The state has a method.
  void (() => manager.save("t", { session: new Session() }));
});

it("rich values, interfaces, unions and unknown values can be stored", () => {
  const manager = new CheckpointManager({ storage });
  const rich = { at: new Date(), ids: new Set([1n]), by: new Map<string, Part>(), pattern: /x/, url: new URL("x:y") };
  const store = (parts: Part[], part: Part, anything: unknown, report: Report, maybe: Part | undefined) => [
    manager.save("t", { rich, parts, bytes: new Uint8Array(), error: new TypeError("no"), none: undefined }),
    manager.save("t", anything),
    manager.save("t", part),
    manager.enqueue("t", report, { dueAt: new Date() }),
    manager.enqueue("t", maybe),
    manager.enqueue("t"),
    manager.send("t", "go", part, { id: "1" }),
    manager.send("t", "go"),
    manager.run("t", (run) => void expectTypeOf(run.input).toEqualTypeOf<Part>(), { input: part }),
    manager.run("t", async () => (maybe === undefined ? report : { part, anything })),
  ];
  const storeAny = <T>(value: T) => [
    manager.save("t", value),
    manager.enqueue("t", { value }),
    manager.run("t", () => value),
  ];
  expectTypeOf(store).toBeFunction();
  expectTypeOf(storeAny).toBeFunction();
  const Sessions = z.codec(z.string(), z.instanceof(URLSearchParams), {
    decode: (text) => new URLSearchParams(text),
    encode: String,
  });
  const typed = new CheckpointManager({ storage, schema: Sessions });
  void (() => typed.save("t", new URLSearchParams()));
  void ((run: Run) => run.step("a", () => new URLSearchParams(), { schema: Sessions }));
});

it("types runs by the manager's type parameter, and takes a function that names the same run", () => {
  const manager = new CheckpointManager<Chat>({ storage });
  const step = async (run: Run<Chat | undefined>) => run.next(run.state ?? { turns: 0, at: new Date() });
  void (() => manager.run("t", step));
  const begun = async (run: Run<Chat>) => run.next(run.state);
  void (() => manager.run("t", begun, { initialState: { turns: 0, at: new Date() } }));
  // @ts-expect-error Without initialState there may be no state.
  void (() => manager.run("t", begun));
  // @ts-expect-error The manager has a number there.
  void (() => manager.run("t", (run) => run.next({ turns: "1", at: new Date() })));
  void (() => manager.run("t", (run) => run.save({ turns: 1, at: new Date() }, { metadata: { who: "me" } })));
});

it("types an event by its schema or by hand, and allows for no event if a wait has a limit", () => {
  const schema = z.object({ ok: z.boolean() });
  const waits = async (run: Run) =>
    [
      await run.waitFor("a", { schema }),
      await run.waitFor<number>("b"),
      await run.waitFor("c", { schema, timeoutMs: 5 }),
    ] as const;
  expectTypeOf(waits).returns.resolves.toEqualTypeOf<
    readonly [TaskEvent<{ ok: boolean }>, TaskEvent<number>, TaskEvent<{ ok: boolean }> | undefined]
  >();
  const manager = new CheckpointManager<Chat>({ storage });
  void (() =>
    manager.work<{ to: string }>({ prefix: "q/" }, (run) => {
      expectTypeOf(run.input).toEqualTypeOf<{ to: string }>();
      expectTypeOf(run.state).toEqualTypeOf<Chat | undefined>();
    }));
  // @ts-expect-error `prefix` is required.
  void (() => manager.work({}, () => 1));
});

it("types a result by hand, and records by their kinds", () => {
  const manager = new CheckpointManager({ storage });
  const untyped = () => manager.result("t");
  expectTypeOf(untyped).returns.resolves.toEqualTypeOf<unknown>();
  const typed = () => manager.result<{ ok: boolean }>("t", { signal: AbortSignal.timeout(1) });
  expectTypeOf(typed).returns.resolves.toEqualTypeOf<{ ok: boolean }>();
  void (async () => {
    for await (const step of manager.records("t", { kinds: ["step"] })) {
      expectTypeOf(step.kind).toEqualTypeOf<"step">();
      expectTypeOf(step.value).toEqualTypeOf<unknown>();
    }
    for await (const summary of manager.records("t", { kinds: ["checkpoint"], limit: 1 })) {
      expectTypeOf(summary.status).toEqualTypeOf<CheckpointStatus>();
      // @ts-expect-error A checkpoint has no value.
      void summary.value;
    }
    for await (const record of manager.records("t", { kinds: ["step", "event"] }))
      expectTypeOf(record.kind).toEqualTypeOf<"step" | "event">();
    const query: RecordsQuery = { order: "newest" };
    for await (const record of manager.records("t", query)) {
      expectTypeOf(record).toExtend<TaskRecord>();
      if (record.kind === "checkpoint") expectTypeOf(record.status).toEqualTypeOf<CheckpointStatus>();
      else expectTypeOf(record.value).toEqualTypeOf<unknown>();
    }
  });
  // @ts-expect-error No such kind.
  void manager.records("t", { kinds: ["steps"] });
});
