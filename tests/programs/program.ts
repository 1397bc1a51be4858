// Random programs as data, so that they can be sent as JSON and shrunk by fast-check.
import fc from "fast-check";

/** The function of a step. */
export interface Body {
  /** The number of first calls that throw. */
  readonly fails: number;
  /** The number of retries of the step. */
  readonly retries: number;
  /** The number of turns of the event loop that the function takes. */
  readonly slow: number;
  /** Whether the function takes some milliseconds. */
  readonly isLong: boolean;
  readonly atMostOnce: boolean;
  readonly hasSchema: boolean;
  /** Whether the step has an `input`, which is the input of the life. */
  readonly hasInput: boolean;
  readonly error: ErrorKind;
  /** The number of chunks that each call writes. */
  readonly chunks: number;
  /** The name of an event that the function sends. */
  readonly sends?: string;
}

/** The error of a step: a RangeError, an error with a code and a cause, a DOMException, or an AggregateError. */
export type ErrorKind = "plain" | "detailed" | "timeout" | "several";

export type Part =
  | { readonly is: "step"; readonly name: string; readonly body: Body }
  /** A step with a child run. */
  | { readonly is: "child"; readonly name: string; readonly parts: readonly Part[] }
  /** A save. Skipped within branches, because no step may be running. */
  | { readonly is: "save" }
  | { readonly is: "sleep"; readonly name: string; readonly ms: number }
  | { readonly is: "wait"; readonly name: string; readonly wait: Wait }
  /** Milestones that are saved after pauses of `saveAfterMs` while a wait is open. Skipped within branches. */
  | { readonly is: "beside"; readonly name: string; readonly wait: Wait; readonly saveAfterMs: readonly number[] }
  /**
   * A step that sends the event of a simultaneous wait. After the step, the wait's signal aborts, and a new wait
   * begins.
   */
  | { readonly is: "recall"; readonly name: string }
  | { readonly is: "all"; readonly branches: Branches }
  /** `Promise.allSettled` of branches. If `throws` is true, throws an AggregateError of all errors. */
  | { readonly is: "settled"; readonly branches: Branches; readonly throws: boolean }
  /** A race of branches. `meanwhile` runs while the branches that have lost continue. */
  | { readonly is: "race" | "any"; readonly branches: Branches; readonly meanwhile: readonly Part[] }
  | { readonly is: "loop"; readonly times: number; readonly body: readonly Part[] }
  | { readonly is: "if"; readonly odd: readonly Part[]; readonly even: readonly Part[] }
  | { readonly is: "try"; readonly body: readonly Part[]; readonly then: Catch };
type Branches = readonly (readonly Part[])[];

export interface Wait {
  readonly timeoutMs: number | undefined;
  /** Whether the wait ends when a race around it is won. */
  readonly hasSignal: boolean;
  /** Whether the wait has another signal, which in some lives is aborted from the beginning. */
  readonly hasDeadline: boolean;
  /** Whether the wait has a schema, which refuses bad events. */
  readonly hasSchema: boolean;
}

/**
 * What a `catch` does: ignore the error, throw it again, throw an error with it as the cause, or throw its own error,
 * at once or after another step.
 */
type Catch = "ignore" | "rethrow" | "wrap" | "own" | "step, own";

export interface Turn {
  /** The number of simultaneous first steps. After some quick steps, a run records starts of steps later. */
  readonly quick: number;
  readonly parts: readonly Part[];
  /** How many times the turn runs: `run.next` begins it again with the new state. */
  readonly times: number;
  /** If set, the turn ends when an event comes or after this many milliseconds. The wait stays open. */
  readonly tickMs: number | undefined;
  /** If the turn is the last, it has a step that isn't awaited. This many of the step's first calls throw. */
  readonly left: number | undefined;
}

export type Program = readonly Turn[];

/** A change to the code. `at` chooses a part of the first turn. */
export interface Change {
  readonly is: "rename" | "insert" | "remove" | "move";
  readonly at: number;
}

const name = fc.constantFrom("a", "b", "c");
const body: fc.Arbitrary<Body> = fc.record({
  fails: fc.constantFrom(0, 0, 0, 0, 0, 1, 2),
  retries: fc.constantFrom(0, 0, 1),
  slow: fc.constantFrom(0, 0, 1, 3),
  isLong: fc.constantFrom(false, false, false, false, false, true),
  atMostOnce: fc.constantFrom(false, false, false, true),
  hasSchema: fc.constantFrom(false, false, true),
  hasInput: fc.constantFrom(false, false, false, true),
  error: fc.constantFrom("plain", "detailed", "timeout", "several"),
  chunks: fc.constantFrom(0, 0, 0, 2),
});
const wait: fc.Arbitrary<Wait> = fc.record({
  timeoutMs: fc.constantFrom(undefined, undefined, 0, 5),
  hasSignal: fc.boolean(),
  hasDeadline: fc.constantFrom(false, false, true),
  hasSchema: fc.constantFrom(false, false, true),
});
const step = fc.record({ is: fc.constant("step" as const), name, body });
const sleep = fc.record({ is: fc.constant("sleep" as const), name, ms: fc.constantFrom(0, 1, 4) });

const beside = fc.record({
  is: fc.constant("beside" as const),
  name,
  wait,
  saveAfterMs: fc.array(fc.constantFrom(0, 1, 3), { minLength: 1, maxLength: 2 }),
});

const { parts } = fc.letrec<{ part: Part; parts: readonly Part[]; branches: Branches }>((tie) => ({
  part: fc.oneof(
    { depthSize: "small" },
    { weight: 6, arbitrary: step },
    { weight: 1, arbitrary: sleep },
    { weight: 2, arbitrary: fc.record({ is: fc.constant("wait" as const), name, wait }) },
    { weight: 1, arbitrary: fc.record({ is: fc.constant("save" as const) }) },
    { weight: 1, arbitrary: beside },
    { weight: 1, arbitrary: fc.record({ is: fc.constant("recall" as const), name }) },
    {
      weight: 1,
      arbitrary: fc.record({
        is: fc.constant("child" as const),
        name,
        parts: fc.array(fc.oneof(step, sleep), { maxLength: 2 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ is: fc.constant("all" as const), branches: tie("branches") }) },
    {
      weight: 1,
      arbitrary: fc.record({ is: fc.constant("settled" as const), branches: tie("branches"), throws: fc.boolean() }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        is: fc.constantFrom("race" as const, "race" as const, "any" as const),
        branches: tie("branches"),
        meanwhile: fc.array(step, { maxLength: 1 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        is: fc.constant("loop" as const),
        times: fc.integer({ min: 0, max: 3 }),
        body: tie("parts"),
      }),
    },
    { weight: 1, arbitrary: fc.record({ is: fc.constant("if" as const), odd: tie("parts"), even: tie("parts") }) },
    {
      weight: 2,
      arbitrary: fc.record({
        is: fc.constant("try" as const),
        body: tie("parts"),
        // biome-ignore lint/suspicious/noThenProperty: data, never awaited.
        then: fc.constantFrom<Catch>("ignore", "ignore", "ignore", "rethrow", "wrap", "own", "step, own"),
      }),
    },
  ),
  parts: fc.array(tie("part"), { maxLength: 4 }),
  branches: fc.array(tie("parts"), { minLength: 1, maxLength: 3 }),
}));

const turn: fc.Arbitrary<Turn> = fc.record({
  quick: fc.constantFrom(0, 0, 0, 16),
  parts,
  times: fc.constantFrom(1, 1, 1, 2),
  tickMs: fc.constantFrom(undefined, undefined, 1, 2),
  left: fc.constantFrom(undefined, undefined, 0, 1),
});
/** The limit for a program's effort. Longer programs, and programs whose runs fail more often, need too many lives. */
const MAX_EFFORT = 400;
export const programs: fc.Arbitrary<Program> = fc
  .array(turn, { minLength: 1, maxLength: 3 })
  .filter((program) => effortOf(program) <= MAX_EFFORT);

export const changes: fc.Arbitrary<Change> = fc.record({
  is: fc.constantFrom("rename", "insert", "remove", "move"),
  at: fc.nat(3),
});

/** Returns the program with a changed first turn. */
export function changed([first, ...rest]: Program, { is, at }: Change): Program {
  if (first === undefined) return [];
  const parts = [...first.parts];
  const index = at % (parts.length + 1);
  const [part] = parts.slice(index);
  if (is === "insert") parts.splice(index, 0, { is: "step", name: "inserted", body: PLAIN });
  else if (is === "remove") parts.splice(index, 1);
  else if (is === "move") parts.push(...parts.splice(index, 1));
  else if (part?.is === "step") parts[index] = { ...part, name: `${part.name} renamed` };
  return [{ ...first, parts }, ...rest];
}

export const PLAIN: Body = {
  fails: 0,
  retries: 0,
  slow: 0,
  isLong: false,
  atMostOnce: false,
  hasSchema: false,
  hasInput: false,
  error: "plain",
  chunks: 0,
};

/** Returns the names of the events for which the program waits. */
export function eventNames(program: Program): readonly string[] {
  const names = new Set<string>(program.some(({ tickMs }) => tickMs !== undefined) ? [MESSAGE] : []);
  const collect = (parts: readonly Part[], path: string): void => {
    for (const part of parts) {
      if (part.is === "wait" || part.is === "beside" || part.is === "recall") names.add(`event ${part.name}${path}`);
      if (part.is === "loop" || part.is === "try") collect(part.body, path);
      if (part.is === "if") for (const branch of [part.odd, part.even]) collect(branch, path);
      if ("branches" in part) for (const [at, branch] of part.branches.entries()) collect(branch, `${path}/${at}`);
    }
  };
  for (const { parts } of program) collect(parts, "");
  return [...names];
}

/** The name of the step that isn't awaited. */
export const LEFT = "left";
/** The name of the event that ends a turn with a tick. */
export const MESSAGE = "message";

/** Returns the maximum number of calls of a program. A failed run counts as ten, because it is executed again. */
export function effortOf(program: Program): number {
  return sum(program.map(({ quick, parts, times, left = 0 }) => quick + times * effortOfAll(parts) + 10 * left));
}

function effortOfAll(parts: readonly Part[]): number {
  return sum(parts.map(effortOfPart));
}

function effortOfPart(part: Part): number {
  if (part.is === "step") {
    const { fails, retries, atMostOnce } = part.body;
    return 1 + 10 * Math.max(0, fails - (atMostOnce ? 0 : retries));
  }
  if (part.is === "child") return 1 + effortOfAll(part.parts);
  if (part.is === "loop") return part.times * effortOfAll(part.body);
  if (part.is === "try") return effortOfAll(part.body);
  if (part.is === "if") return Math.max(effortOfAll(part.odd), effortOfAll(part.even));
  if (part.is === "recall") return 3;
  if (part.is === "beside") return 1 + 2 * part.saveAfterMs.length;
  return "branches" in part ? sum(part.branches.map(effortOfAll)) : 1;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/**
 * Returns the program in a form whose code may change. Steps have no inputs: another input drops results, even those
 * that no function has got, without a note. All waits with the same name have a schema or none: after a change, a wait
 * may take another wait's place, and its schema would refuse the recorded event forever.
 */
export function changeable(program: Program): Program {
  return JSON.parse(JSON.stringify(program), (key, value: unknown) => {
    if (key === "hasInput") return false;
    return isWait(value) ? { ...value, wait: { ...value.wait, hasSchema: hasStrictEvents(value.name) } } : value;
  });
}

/** Whether the waits with a name have a schema in a program that may change. */
export function hasStrictEvents(of: string): boolean {
  return of === "c";
}

function isWait(value: unknown): value is Extract<Part, { readonly wait: Wait }> {
  return typeof value === "object" && value !== null && "wait" in value;
}
