import { expectTypeOf, it } from "vitest";
import { CheckpointManager, type NextPass, type Run, type Signal } from "waymark";
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
  expectTypeOf(loop).returns.toEqualTypeOf<NextPass | { done: boolean }>();
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

it("types a signal by its schema or by hand, and says that a wait with a limit may get none", () => {
  const schema = z.object({ ok: z.boolean() });
  const waits = async (run: Run) =>
    [
      await run.waitFor("a", { schema }),
      await run.waitFor<number>("b"),
      await run.waitFor("c", { schema, timeoutMs: 5 }),
    ] as const;
  expectTypeOf(waits).returns.resolves.toEqualTypeOf<
    readonly [Signal<{ ok: boolean }>, Signal<number>, Signal<{ ok: boolean }> | undefined]
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
