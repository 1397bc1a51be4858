import fc from "fast-check";
import { expect } from "vitest";
import { type CheckpointManager, type StorageAdapter, StorageError } from "waymark";
import { isTransient } from "waymark/adapter";
import { MemoryAdapter } from "waymark/adapters/memory";
import { withMembers } from "../../support/with-members.js";
import { managerOn } from "./run-support.js";

type Leaf = { readonly kind: "step" | "caught" | "flaky"; readonly name: string };
type Part =
  | Leaf
  | { readonly kind: "save" }
  | { readonly kind: "all"; readonly steps: readonly Leaf[] }
  | { readonly kind: "loop"; readonly times: number; readonly body: readonly Part[] }
  | { readonly kind: "if"; readonly odd: readonly Part[]; readonly even: readonly Part[] };
/** The parts of each turn. */
type Program = readonly (readonly Part[])[];

const leaf: fc.Arbitrary<Leaf> = fc.record({
  kind: fc.constantFrom("step", "step", "step", "caught", "flaky"),
  name: fc.constantFrom("a", "b", "c"),
});
const { parts } = fc.letrec<{ part: Part; parts: readonly Part[] }>((tie) => ({
  part: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc.constant({ kind: "save" as const }),
    fc.record({ kind: fc.constant("all" as const), steps: fc.array(leaf, { minLength: 1, maxLength: 4 }) }),
    fc.record({ kind: fc.constant("loop" as const), times: fc.integer({ min: 0, max: 3 }), body: tie("parts") }),
    fc.record({ kind: fc.constant("if" as const), odd: tie("parts"), even: tie("parts") }),
  ),
  parts: fc.array(tie("part"), { maxLength: 4 }),
}));
export const programs: fc.Arbitrary<Program> = fc.array(parts, { minLength: 1, maxLength: 3 });

/** After how many appends the storage dies in each attempt, and whether the last one was stored. */
export const kills = fc.array(fc.record({ after: fc.nat(8), isStored: fc.boolean() }), { maxLength: 8 });
type Kill = { readonly after: number; readonly isStored: boolean };

/** The calls by which a program makes its steps and saves: of a run, or of the interpreter. */
interface Machine {
  step(kind: Leaf["kind"], name: string): Promise<string>;
  save(trace: readonly string[]): Promise<unknown>;
}

/** Executes one turn. Its trace is everything that it has seen. */
async function walk(partsOfTurn: readonly Part[], machine: Machine, trace: string[]): Promise<void> {
  const take = async ({ kind, name }: Leaf) => {
    if (kind !== "caught") return machine.step(kind, name);
    return machine.step(kind, name).catch((error: unknown) => {
      if (error instanceof RangeError) return `caught ${error.message}`;
      throw error;
    });
  };
  for (const part of partsOfTurn) {
    if (part.kind === "save") await machine.save(trace);
    else if (part.kind === "all") {
      const steps = part.steps.map(({ kind, name }, at) => take({ kind, name: `${name} of ${at}` }));
      trace.push(...(await Promise.all(steps)));
    } else if (part.kind === "loop") {
      for (let time = 0; time < part.times; time++) await walk(part.body, machine, trace);
    } else if (part.kind === "if") await walk(trace.length % 2 === 1 ? part.odd : part.even, machine, trace);
    else trace.push(await take(part));
  }
}

/** The program's result, and the states that it saves, if nothing ever fails. */
async function interpreted(program: Program) {
  const milestones: string[][] = [];
  const trace: string[] = [];
  for (const [turn, partsOfTurn] of program.entries()) {
    const counts = new Map<string, number>();
    const machine: Machine = {
      step: async (kind, name) => {
        const count = (counts.get(name) ?? 0) + 1;
        counts.set(name, count);
        const value = `${turn} ${name} ${count}`;
        if (kind === "caught") throw new RangeError(value);
        return value;
      },
      save: async (saved) => milestones.push([...saved]),
    };
    await walk(partsOfTurn, machine, trace);
    if (turn < program.length - 1) milestones.push([...trace]);
  }
  return { trace, milestones };
}

/** Runs the program on the storage. Throws the run's error. */
async function attempt(program: Program, manager: CheckpointManager, world: World): Promise<string[]> {
  return manager.run(
    "t",
    async (run) => {
      const { turn, trace } = run.state;
      const counts = new Map<string, number>();
      const machine: Machine = {
        step: async (kind, name) => {
          const count = (counts.get(name) ?? 0) + 1;
          counts.set(name, count);
          const value = `${turn} ${name} ${count}`;
          const result = await run.step(name, async () => {
            expect(world.acknowledged, "an acknowledged step ran again").not.toContain(value);
            if (count % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
            if (kind === "caught") throw new RangeError(value);
            if (kind === "flaky" && !world.flaked.has(value)) {
              world.flaked.add(value);
              throw new TypeError(value);
            }
            return value;
          });
          world.acknowledged.add(value);
          return result;
        },
        save: (saved) => run.save({ turn, trace: [...saved] }),
      };
      await walk(program[turn] ?? [], machine, trace);
      return turn === program.length - 1 ? trace : run.next({ turn: turn + 1, trace });
    },
    { initialState: { turn: 0, trace: [] as string[] } },
  );
}

/** The effects of the steps outside the run. */
interface World {
  readonly acknowledged: Set<string>;
  readonly flaked: Set<string>;
}

function dying(storage: StorageAdapter, { after, isStored }: Kill): StorageAdapter {
  let left = after;
  const append: StorageAdapter["append"] = async (...args) => {
    left -= 1;
    if (left === 0 && isStored) await storage.append(...args);
    if (left <= 0) throw new StorageError("killed");
    return storage.append(...args);
  };
  return withMembers(storage, { append });
}

/** Runs the program through all kills until it is done, and compares it with the interpreter. */
export async function checkProgram(
  program: Program,
  killed: readonly Kill[],
  storage: StorageAdapter = new MemoryAdapter(),
) {
  const expected = await interpreted(program);
  const world: World = { acknowledged: new Set(), flaked: new Set() };
  let result: string[] | undefined;
  for (let attempts = 0; result === undefined; attempts++) {
    const kill = killed[attempts];
    const { manager } = managerOn(kill === undefined ? storage : dying(storage, kill));
    result = await attempt(program, manager, world).catch((error: unknown) => {
      if (error instanceof StorageError || (error instanceof TypeError && world.flaked.has(error.message)))
        return undefined;
      throw error;
    });
  }
  expect(result).toEqual(expected.trace);
  const { manager } = managerOn(storage);
  const milestones: unknown[] = [];
  for await (const checkpoint of manager.history("t", { order: "oldest" })) {
    if (isTransient(checkpoint) || checkpoint.status !== "running") continue;
    milestones.push((checkpoint.state as { trace: string[] }).trace);
  }
  expect(milestones).toEqual(expected.milestones);
}
