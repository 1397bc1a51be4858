// Executes a program. All of its actions go through calls, which a run or the interpreter implements.
import {
  type Body,
  hasStrictEvents,
  MESSAGE,
  type Part,
  PLAIN,
  type Program,
  type Turn,
  type Wait,
} from "./program.js";

/** The calls of a turn. Each call resolves to a text, its answer. */
export interface Calls {
  step(name: string, body: Body): Promise<string>;
  child(name: string, parts: readonly Part[]): Promise<string>;
  sleep(name: string, ms: number): Promise<string>;
  wait(name: string, wait: Wait, signal: AbortSignal | undefined): Promise<string>;
  save(trace: readonly string[]): Promise<string>;
}

/** Makes the titles of a turn's calls, numbered as in a run. */
export class Titles {
  readonly #counts = new Map<string, number>();

  last(kind: "step" | "save", name: string): string {
    const count = this.#counts.get(`${kind} ${name}`) ?? 1;
    return count === 1 ? name : `${name} ${count}`;
  }

  next(kind: "step" | "save", name: string): string {
    const count = (this.#counts.get(`${kind} ${name}`) ?? 0) + 1;
    this.#counts.set(`${kind} ${name}`, count);
    return this.last(kind, name);
  }
}

/** The state of a program: the number of ended turns, and all answers so far. */
export interface ProgramState {
  readonly at: number;
  readonly trace: readonly string[];
}

/** The end of a turn. */
export type TurnEnd = { readonly next: ProgramState } | { readonly result: readonly string[] };

interface Place {
  readonly calls: Calls;
  /** The answers in the branch. */
  readonly trace: string[];
  /** The numbers of the enclosing branches. Names contain the path, so that overlapping steps have different names. */
  readonly path: string;
  /** Aborts once an enclosing race is won. */
  readonly signal: AbortSignal | undefined;
  /** Whether an error at this place is caught. If so, nothing may be left running. */
  readonly isCaught: boolean;
}

const TICK = "tick";
const SUMMARY = "planned summary";
const UNLIMITED: Wait = { timeoutMs: undefined, hasSignal: false, hasDeadline: false, hasSchema: false };

/** Executes the turn that begins with this state. */
export async function walkTurn(program: Program, { at, trace: before }: ProgramState, calls: Calls): Promise<TurnEnd> {
  const turns = turnsOf(program);
  const turn = turns[at];
  const trace = [...before];
  if (turn !== undefined) {
    await Promise.all(Array.from({ length: turn.quick }, (_, number) => calls.step(`quick-${number}`, PLAIN)));
    await walk(turn.parts, { calls, trace, path: "", signal: undefined, isCaught: false });
    if (turn.tickMs !== undefined) {
      const event = calls.wait(MESSAGE, UNLIMITED, undefined);
      trace.push(await Promise.race([event, calls.sleep(TICK, turn.tickMs)]));
    }
  }
  return at + 1 < turns.length ? { next: { at: at + 1, trace } } : { result: trace };
}

/** The turns of a run of the program. */
export function turnsOf(program: Program): readonly Turn[] {
  return program.flatMap((turn) => Array.from({ length: turn.times }, () => turn));
}

/** Executes the parts of a child run. */
export async function walkChild(parts: readonly Part[], calls: Calls): Promise<readonly string[]> {
  const trace: string[] = [];
  await walk(parts, { calls, trace, path: "", signal: undefined, isCaught: false });
  return trace;
}

async function walk(parts: readonly Part[], place: Place): Promise<void> {
  for (const part of parts) await take(part, place);
}

async function take(part: Part, place: Place): Promise<void> {
  const { calls, trace, path } = place;
  switch (part.is) {
    case "step":
      return void trace.push(await calls.step(`${part.name}${path}`, part.body));
    case "child":
      return void trace.push(await calls.child(`child ${part.name}${path}`, part.parts));
    case "sleep":
      return void trace.push(await calls.sleep(`sleep ${part.name}${path}`, part.ms));
    case "wait":
      return void trace.push(await calls.wait(`event ${part.name}${path}`, part.wait, place.signal));
    case "save":
      if (path === "") trace.push(await calls.save(trace));
      return;
    case "beside":
      return besides(part, place);
    case "recall":
      return recall(part.name, place);
    case "loop":
      for (let time = 0; time < part.times; time++) await walk(part.body, place);
      return;
    case "if":
      return walk(isOdd(trace) ? part.odd : part.even, place);
    case "try":
      return attempt(part, place);
    case "all": {
      const branches = begin(part.branches, place);
      // If the error isn't caught, the other branches are still running when the function ends.
      if (place.isCaught) await Promise.allSettled(branches);
      return void trace.push(...(await Promise.all(branches)).flat());
    }
    case "settled":
      return settle(part, place);
    case "race":
    case "any":
      return race(part, place);
  }
}

/** Saves milestones while a wait is open. */
async function besides({ name, wait, saveAfterMs }: Extract<Part, { is: "beside" }>, place: Place): Promise<void> {
  const { calls, trace, path, signal } = place;
  if (path !== "") return;
  const save = async () => {
    for (const ms of saveAfterMs) {
      await calls.sleep(`before save ${name}`, ms);
      trace.push(await calls.save(trace));
    }
  };
  const waiting = calls.wait(`event ${name}`, wait, signal).then((answer) => trace.push(answer));
  const both = [waiting, save()];
  if (place.isCaught) await Promise.allSettled(both);
  await Promise.all(both);
}

/** Aborts a wait when its event may just have come. If it has come, it is pending again, and the next wait gets it. */
async function recall(name: string, { calls, trace, path, signal }: Place): Promise<void> {
  const event = `event ${name}${path}`;
  const wait = { ...UNLIMITED, hasSchema: hasStrictEvents(name) };
  const over = new AbortController();
  const ending = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
  const waiting = Promise.allSettled([calls.wait(event, { ...wait, hasSignal: true }, ending)]);
  try {
    trace.push(await calls.step(`send ${name}${path}`, { ...PLAIN, sends: event }));
  } finally {
    over.abort(new RangeError("planned abort"));
  }
  const [end] = await waiting;
  if (end.status === "rejected" && !isPlanned(end.reason)) throw end.reason;
  trace.push(end.status === "fulfilled" ? end.value : describe(end.reason));
  trace.push(await calls.wait(event, wait, undefined));
}

/** Begins the branches. Each has its own trace, to which its promise resolves. */
function begin(branches: readonly (readonly Part[])[], place: Place): Promise<readonly string[]>[] {
  return branches.map(async (parts, branch) => {
    const trace: string[] = [];
    await walk(parts, { ...place, trace, path: `${place.path}/${branch}` });
    return trace;
  });
}

async function attempt({ body, then }: Extract<Part, { is: "try" }>, place: Place): Promise<void> {
  try {
    await walk(body, { ...place, isCaught: true });
  } catch (error) {
    if (!isPlanned(error)) throw error;
    if (then === "ignore") return void place.trace.push(`caught ${describe(error)}`);
    if (then === "rethrow") throw error;
    if (then === "wrap") throw new Error("planned wrap", { cause: error });
    if (then === "step, own") place.trace.push(await place.calls.step(`after${place.path}`, PLAIN));
    throw new Error("planned own");
  }
}

async function settle({ branches, throws }: Extract<Part, { is: "settled" }>, { ...place }: Place): Promise<void> {
  const settled = await Promise.allSettled(begin(branches, { ...place, isCaught: true }));
  const errors: unknown[] = [];
  for (const end of settled) {
    if (end.status === "fulfilled") place.trace.push(...end.value);
    else if (!isPlanned(end.reason)) throw end.reason;
    else {
      errors.push(end.reason);
      place.trace.push(`failed ${describe(end.reason)}`);
    }
  }
  if (throws && errors.length > 0) throw new AggregateError(errors, SUMMARY);
}

async function race(part: Extract<Part, { is: "race" | "any" }>, place: Place): Promise<void> {
  const over = new AbortController();
  const signal = place.signal === undefined ? over.signal : AbortSignal.any([place.signal, over.signal]);
  const branches = begin(part.branches, { ...place, signal, isCaught: true });
  const named = branches.map(async (branch, at) => `branch ${at} won with ${(await branch).join(", ")}`);
  try {
    place.trace.push(await (part.is === "race" ? Promise.race(named) : Promise.any(named)));
    over.abort(new RangeError("planned abort"));
    await walk(part.meanwhile, { ...place, path: `${place.path}/meanwhile`, isCaught: true });
  } finally {
    over.abort(new RangeError("planned abort"));
    await Promise.allSettled(branches);
  }
}

/** Whether the program or one of its steps has thrown the error. */
export function isPlanned(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(isPlanned);
  return error instanceof Error && error.message.startsWith("planned");
}

function describe(error: unknown): string {
  if (error instanceof AggregateError && error.message === SUMMARY) return error.errors.map(describe).join(" and ");
  return error instanceof Error ? error.message : String(error);
}

function isOdd(trace: readonly string[]): boolean {
  let sum = 0;
  for (const text of trace) for (let at = 0; at < text.length; at++) sum += text.charCodeAt(at);
  return sum % 2 === 1;
}
