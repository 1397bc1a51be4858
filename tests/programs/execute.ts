// Executes a program on a run, and notes its calls and their answers.
import type { CheckpointManager, NextTurn, Run, Runtime, StepCall } from "waymark";
import { z } from "zod";
import { nextTurn } from "../../src/contract/runtime.js";
import { onAbort } from "../../src/manager/abort-signals.js";
import { errorCode } from "./error-code.js";
import { type Body, type ErrorKind, LEFT, type Part, PLAIN, type Program, type Wait } from "./program.js";
import type { Kind, Seen, SeenInTurn, SeenWhere, WaitPlace } from "./seen.js";
import { type Calls, isPlanned, type ProgramState, Titles, turnsOf, walkChild, walkTurn } from "./walk.js";

/** How long a long step lasts. */
export const LONG_STEP_MS = 20;

/** The environment of a run's function. */
export interface World {
  readonly life: string;
  readonly code: number;
  /** The input of the steps that have an input. */
  readonly input: number;
  /** The number of values that steps have made, in child runs and in all turns. It makes each value unique. */
  made: number;
  /** The signal of waits with a deadline. */
  readonly deadline: AbortSignal;
  readonly manager: CheckpointManager;
  readonly runtime: Runtime;
  generationOf(taskId: string): string;
  /** Whether the ends of its runs were stored. */
  isRecorded(): boolean;
  note(seen: Seen): void;
  /** Sends an event to a wait. */
  send(task: string, wait: WaitPlace): Promise<void>;
  /** Resolves at the end of a long step. */
  lasting(task: string, title: string): Promise<void>;
  /** Called when a wait without a time limit begins. */
  asked(task: string, wait: WaitPlace): void;
}

type ProgramRun = Run<ProgramState>;
type CallsOfRun = Pick<Run, "taskId" | "signal" | "step" | "sleepUntil" | "waitFor" | "save">;

/** The value of an event. A schema refuses a bad value. */
export interface EventValue {
  readonly id: string;
  readonly isBad: boolean;
}

/** Executes one turn of the program. */
export async function executeTurn(
  program: Program,
  run: ProgramRun,
  world: World,
): Promise<readonly string[] | NextTurn> {
  const begin = run.state ?? { at: 0, trace: [] };
  const calls = new RunCalls(run, world, begin.at);
  calls.note({ is: "began", attempt: run.attempt, state: begin, input: run.input ?? null });
  const end = await calls.watch(() => walkTurn(program, begin, calls));
  if ("result" in end) {
    calls.note({ is: "returned", result: end.result });
    const { left } = turnsOf(program)[begin.at] ?? {};
    if (left !== undefined) calls.leave(left);
    return end.result;
  }
  calls.note({ is: "next", state: end.next });
  return run.next(end.next, { stage: `turn ${end.next.at}` });
}

/** Makes the calls of one turn on a run. */
class RunCalls implements Calls {
  readonly #run: CallsOfRun;
  readonly #world: World;
  readonly #where: SeenWhere;
  readonly #titles = new Titles();
  readonly #errors = new Map<unknown, string>();

  constructor(run: CallsOfRun, world: World, at: number) {
    const { life, code } = world;
    this.#run = run;
    this.#world = world;
    this.#where = { life, task: run.taskId, generation: world.generationOf(run.taskId), at, code };
  }

  note(seen: SeenInTurn): void {
    this.#world.note({ ...this.#where, ...seen });
  }

  /** Notes when the run stops, and the calls whose errors the thrown error contains. */
  async watch<Result>(work: () => Promise<Result>): Promise<Result> {
    const forget = onAbort(this.#run.signal, (reason) => this.note({ is: "stopped", reason: errorCode(reason) }));
    try {
      return await work();
    } catch (error) {
      if (isPlanned(error))
        this.note({ is: "threw", titles: [...partsOf(error)].flatMap((part) => this.#errors.get(part) ?? []) });
      throw error;
    } finally {
      forget();
    }
  }

  step(name: string, body: Body): Promise<string> {
    const { retries, atMostOnce, hasSchema, hasInput } = body;
    const input = hasInput ? this.#world.input : undefined;
    const options = {
      ...(retries > 0 && !atMostOnce && { retry: { times: retries, backoffMs: 0 } }),
      ...(atMostOnce && { atMostOnce }),
      ...(hasInput && { input }),
    };
    const make = async (title: string) => {
      try {
        const fn = (call: StepCall) => this.#work(title, call, body, input);
        return await (hasSchema
          ? this.#run.step(name, fn, { ...options, schema: TEXT })
          : this.#run.step(name, fn, options));
      } catch (error) {
        if (errorCode(error) === "STEP_INTERRUPTED") return "interrupted";
        throw error;
      }
    };
    return this.#call("step", name, make, input);
  }

  /** Calls a step without awaiting it. */
  leave(fails: number): void {
    this.note({ is: "called", title: LEFT, kind: "step", input: undefined });
    void this.#run.step(LEFT, async (call) => this.#work(LEFT, call, { ...PLAIN, fails }, undefined));
  }

  child(name: string, parts: readonly Part[]): Promise<string> {
    const world = this.#world;
    return this.#call("step", name, (title) =>
      this.#run.step(name, async ({ key, attempt }) => {
        this.note({ is: "body", title, attempt, key, isOnce: false, input: undefined });
        const task = `${this.#run.taskId}/${this.#where.at}/${title}`;
        const running = world.manager.run(task, async (run) => {
          const calls = new RunCalls(run, world, 0);
          calls.note({ is: "began", attempt: run.attempt, state: [] });
          const made = await calls.watch(() => walkChild(parts, calls));
          calls.note({ is: "returned", result: made });
          return [...made];
        });
        const trace = await running.catch((error: unknown) => {
          const how = isPlanned(error) && world.isRecorded() ? "failed" : "stopped";
          world.note({ is: "ended", life: world.life, task, how });
          throw error;
        });
        const value = `child made ${trace.join(", ")}`;
        this.note({ is: "made", title, value, input: undefined, chunks: 0 });
        return value;
      }),
    );
  }

  sleep(name: string, ms: number): Promise<string> {
    return this.#call("wait", name, async () => {
      await this.#run.sleepUntil(name, new Date(this.#world.runtime.now() + ms));
      return "slept";
    });
  }

  wait(name: string, wait: Wait, given: AbortSignal | undefined): Promise<string> {
    const { timeoutMs, hasSignal, hasDeadline, hasSchema } = wait;
    const signals = [...(hasSignal && given ? [given] : []), ...(hasDeadline ? [this.#world.deadline] : [])];
    const signal = signals.length > 0 ? AbortSignal.any(signals) : undefined;
    const options = { timeoutMs, signal, ...(hasSchema && { schema: GOOD }) };
    return this.#call("wait", name, async (title) => {
      if (timeoutMs === undefined) this.#world.asked(this.#run.taskId, { name, title, at: this.#where.at });
      const event = await this.#run.waitFor<EventValue>(name, options);
      return event === undefined ? "nobody" : `event ${event.id}`;
    });
  }

  save(trace: readonly string[]): Promise<string> {
    return this.#call("save", "saved", async () => {
      const state: ProgramState = { at: this.#where.at, trace: [...trace] };
      this.note({ is: "saving", state });
      const { id } = await this.#run.save(state, { stage: "saved" });
      return id;
    }).then(() => "saved");
  }

  /** Runs the function of a step. */
  async #work(title: string, call: StepCall, body: Body, input: number | undefined): Promise<string> {
    const { key, attempt } = call;
    const { fails, slow, isLong, atMostOnce, sends, error, chunks } = body;
    this.note({ is: "body", title, attempt, key, isOnce: atMostOnce, input });
    for (let turn = 0; turn < slow; turn++) await nextTurn(this.#world.runtime);
    if (isLong) await this.#world.lasting(this.#run.taskId, title);
    if (sends !== undefined) {
      const wait = { name: sends, title: this.#titles.last("step", sends), at: this.#where.at };
      await this.#world.send(this.#run.taskId, wait);
    }
    this.#world.made += 1;
    // Each call makes a unique value, so that an answer shows which call made it.
    const value = `${attempt <= fails ? "planned " : ""}${title} of ${this.#where.life}.${this.#world.made}`;
    for (let number = 0; number < chunks; number++) void call.write({ of: value, number });
    this.note({ is: "made", title, value, input, chunks });
    if (attempt <= fails) throw plannedError(error, value);
    return value;
  }

  /** Notes the call, and its answer at the moment when the function gets it. */
  #call(kind: Kind, name: string, make: (title: string) => Promise<string>, input?: number): Promise<string> {
    const title = this.#titles.next(kind === "save" ? "save" : "step", name);
    this.note({ is: "called", title, kind, input });
    return make(title).then(
      (value) => {
        const time = kind === "wait" && { nowMs: this.#world.runtime.now() };
        this.note({ is: "got", title, kind, value, isError: false, ...time });
        return value;
      },
      (error: unknown) => {
        if (isPlanned(error) && error instanceof Error) {
          this.#errors.set(error, title);
          const shape = shapeOf(error);
          this.note({ is: "got", title, kind, value: error.message, isError: true, error: shape });
          if (!ERROR_KINDS.some((thrown) => shapeOf(plannedError(thrown, error.message)) === shape))
            this.#world.note({ is: "surprised", task: this.#where.task, error: `${shape}, which no step threw` });
        } else this.note({ is: "refused", title, isStopped: !(error instanceof TypeError) });
        throw error;
      },
    );
  }
}

const ERROR_KINDS: readonly ErrorKind[] = ["plain", "detailed", "timeout", "several"];

/** Returns an error like those of libraries, with a property that can't be stored. */
function plannedError(kind: ErrorKind, message: string): Error {
  const socket = { close: () => undefined };
  if (kind === "timeout") return Object.assign(new DOMException(message, "TimeoutError"), { socket });
  if (kind === "several")
    return Object.assign(new AggregateError([new TypeError("planned part"), new Error("planned part 2")], message), {
      socket,
    });
  if (kind === "plain") return new RangeError(message);
  const cause = Object.assign(new SyntaxError("planned cause"), { code: "E_CAUSE", socket });
  return Object.assign(new RangeError(message, { cause }), { code: "E_PLANNED", details: { tries: 2 }, socket });
}

/** Returns the part of an error that is the same in all lives, as text. */
function shapeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const { name, message, cause } = error;
  const errors = error instanceof AggregateError ? error.errors.map(shapeOf) : [];
  const own = (key: string) => Object.getOwnPropertyDescriptor(error, key)?.value;
  const properties = { code: own("code"), details: own("details") };
  return JSON.stringify([name, message, properties, cause === undefined ? "" : shapeOf(cause), ...errors]);
}

/** Returns a thrown error, its causes, and the errors of an AggregateError. */
function partsOf(error: unknown, parts: Set<unknown> = new Set()): Set<unknown> {
  if (parts.has(error)) return parts;
  parts.add(error);
  if (error instanceof AggregateError) for (const part of error.errors) partsOf(part, parts);
  if (error instanceof Error && error.cause !== undefined) partsOf(error.cause, parts);
  return parts;
}

const TEXT = z.string();
const GOOD = z.object({ id: z.string(), isBad: z.literal(false) });
