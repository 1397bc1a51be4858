import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { inspect, isDeepStrictEqual } from "node:util";
import { MemoryAdapter } from "../adapters/memory.js";
import { CheckpointManager } from "../src/checkpoint-manager.js";
import { checkKeys, listKeys, MAX_DELAY_MS } from "../src/contract/arguments.js";
import { isError, StateNotSerializableError, StepInterruptedError } from "../src/contract/errors.js";
import { stepTitle } from "../src/contract/run-record.js";
import { type Runtime, realRuntime } from "../src/contract/runtime.js";
import type { TaskEvent } from "../src/contract/task-events.js";
import { isTransient } from "../src/contract/transient.js";
import type { Logger } from "../src/manager/logger.js";
import type { CheckpointManagerOptions } from "../src/manager/options.js";
import type { SavedStateOf, StateOf, StateSchema } from "../src/manager/schema.js";
import type {
  NextTurn,
  Run,
  RunOptions,
  RunSavedOf,
  RunStateOf,
  StepCall,
  StepOptions,
  WaitOptions,
} from "../src/runs/run.js";
import { Findings, type Rehearsal, type StopPoint } from "./rehearsal.js";
import { type RunWrite, type Stop, stoppingStorage, untilCutOff } from "./stopping-storage.js";

/** Options of `manager.run` and of the manager for the rehearsed runs, and where to stop them. */
export interface RehearseOptions<Schema extends StateSchema = StateSchema, Input = unknown, Initial = unknown>
  extends Pick<RunOptions<Input, Initial>, "input" | "initialState">,
    Pick<CheckpointManagerOptions<Schema>, "schema" | "redact" | "maxPayloadBytes"> {
  /**
   * The places where the run is stopped. `every` (the default): before and after every save. A number: that many of
   * these places, evenly spread.
   */
  readonly kills?: "every" | number | undefined;
  /**
   * The values of the events that the run waits for, by event name, in the order of the waits. Sleeps end at once. A
   * wait with a time limit also ends at once if its event isn't listed here.
   */
  readonly events?: Readonly<Record<string, readonly unknown[]>> | undefined;
  /** Called before each run begins, to reset the outside world, such as to empty a ledger. */
  readonly before?: (() => unknown) | undefined;
}

/**
 * A run's function, as for `manager.run`. If it starts other runs, it must start them with the rehearsal's `manager`,
 * so that they are also stopped and resumed.
 */
export type RehearsedFunction<Result, Schema extends StateSchema, Input, Initial> = (
  run: Run<RunStateOf<StateOf<Schema>, Initial>, RunSavedOf<StateOf<Schema>, SavedStateOf<Schema>, Initial>, Input>,
  manager: CheckpointManager<StateOf<Schema>, SavedStateOf<Schema>>,
) => Result | NextTurn | Promise<Result | NextTurn>;

const TASK = "rehearsal";
/** The longest possible duration, because nothing renews the lease. */
const LEASE_MS = MAX_DELAY_MS;
/** The longest time that a stop waits for the running steps to end. */
const LONGEST_WAIT_MS = 1000;
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Runs a run's function in memory, then again for each place where a process may be killed. Each time, the run is
 * stopped at that place, resumed by another manager, and compared with the undisturbed run. In each resumed run,
 * parallel steps begin and end in a different order. A run of n saves is run 2n times, so give its steps functions that
 * are quick and always return the same: a model that answers from a list, files in a folder used only by the rehearsal.
 * Pauses between a step's retries are skipped.
 *
 * @example
 * ```ts
 * import { rehearse } from "waymark/testing";
 *
 * const { problems, text } = await rehearse(async (run) => {
 *   const files = await run.step("list", () => ["a.ts", "b.ts"]);
 *   return Promise.all(files.map((file) => run.step(`build ${file}`, () => file.length)));
 * });
 * if (problems.length > 0) throw new Error(text);
 * ```
 *
 * @throws The error of the undisturbed run, except a StateNotSerializableError: `problems` reports it.
 * @throws {TypeError | RangeError} An option is misspelled or out of range.
 */
export async function rehearse<
  Result,
  Schema extends StateSchema = StateSchema,
  Input = undefined,
  Initial extends SavedStateOf<Schema> | undefined = undefined,
>(
  fn: RehearsedFunction<Result, Schema, Input, Initial>,
  options: RehearseOptions<Schema, Input, Initial> = {},
): Promise<Rehearsal<Exclude<Result, NextTurn>>> {
  checkOptions(options);
  const rehearser = new Rehearser(fn, options);
  const findings = new Findings();
  await options.before?.();
  const undisturbed = await rehearser.runLife(new MemoryAdapter());
  if (undisturbed.end.kind === "threw") {
    const { error } = undisturbed.end;
    if (!(error instanceof StateNotSerializableError)) throw error;
    findings.add("unstorable", "a value", { text: "nowhere" }, `can't be stored: ${error.message}`);
    return findings.rehearsal<never>({ result: undefined, steps: undisturbed.started.size, stops: 0 }, () => false);
  }
  const stops = planStops(undisturbed.saves.length, options.kills);
  for (const [order, stop] of stops.entries()) {
    await options.before?.();
    const storage = new MemoryAdapter();
    const first = await rehearser.runLife(storage, stop);
    // Parallel steps may share a save, so this run may have fewer saves and end before the stop.
    const last = first.end.kind === "stopped" ? await rehearser.runLife(storage, undefined, order) : first;
    const draft = first.saves[stop.save - 1];
    const stopPoint = { text: `${stop.side} ${draft === undefined ? "its end" : describeSave(draft)}` };
    compare(findings, stopPoint, undisturbed, first, last);
  }
  return findings.rehearsal(
    {
      result: readResult(undisturbed) as Exclude<Result, NextTurn>,
      steps: undisturbed.started.size,
      stops: stops.length,
    },
    (step) => rehearser.stepsWithKey.has(step),
  );
}

/** The way in which a life of a run ended. */
type End =
  | { readonly kind: "stopped" }
  | { readonly kind: "returned"; readonly result: unknown }
  | { readonly kind: "threw"; readonly error: unknown };

/** A run from its start or resume to its end or stop. The names of steps include their turn. */
interface Life {
  readonly end: End;
  readonly saves: readonly RunWrite[];
  readonly started: ReadonlySet<string>;
  /** The recorded steps that the function didn't call. */
  readonly unused: readonly string[];
  readonly results: ReadonlyMap<string, unknown>;
  /** The steps with `atMostOnce` that threw a StepInterruptedError. */
  readonly interrupted: ReadonlySet<string>;
  /** The milestones in the storage. */
  readonly milestones: readonly unknown[];
}

/** A rehearsed function. The types of `rehearse` ensure that the function accepts the run and the manager. */
type AnyRehearsed = (run: never, manager: never) => unknown;

/** Returns a runtime and a function that ends its timers: a stopped life must not renew its leases any more. */
function mortalRuntime(): { readonly runtime: Runtime; endTimers(): void } {
  const cancels = new Set<() => void>();
  const runtime: Runtime = {
    ...realRuntime,
    setTimeout(call, ms, isBackground) {
      const cancel = realRuntime.setTimeout(call, ms, isBackground);
      cancels.add(cancel);
      return cancel;
    },
  };
  const endTimers = () => {
    for (const cancel of cancels) cancel();
  };
  return { runtime, endTimers };
}

/** Runs the function's lives, each with its own manager. */
class Rehearser {
  /** The steps whose functions have read their keys. */
  readonly stepsWithKey = new Set<string>();
  readonly #fn: AnyRehearsed;
  readonly #options: RehearseOptions;

  constructor(fn: AnyRehearsed, options: RehearseOptions) {
    this.#fn = fn;
    this.#options = options;
  }

  /**
   * @param stop - The place where this life stops.
   * @param order - The seed of the order in which parallel steps begin and end. Without a seed, they run in their
   * natural order, so that all lives have the same saves up to their stops.
   */
  async runLife(inner: MemoryAdapter, stop?: Stop, order?: number): Promise<Life> {
    const { kills: _kills, before: _before, events = {}, input, initialState, ...forManager } = this.#options;
    await sendAll(inner, events);
    const { storage, saves, stopped, releaseLeases } = stoppingStorage(inner, stop);
    const { runtime, endTimers } = mortalRuntime();
    const manager = new CheckpointManager({ ...forManager, storage, ownsStorage: false, logger: SILENT, runtime });
    const started = new Set<string>();
    const unused: string[] = [];
    const results = new Map<string, unknown>();
    const interrupted = new Set<string>();
    const bodies = new Set<Promise<void>>();
    let turn = 0;
    manager.on("runStarted", (run) => {
      if (run.taskId === TASK) turn = run.turn - 1;
    });
    manager.on("stepStarted", ({ taskId, turn, step }) => started.add(qualifyTitle(taskId, titleIn(turn, step))));
    manager.on("stepsUnused", ({ taskId, steps }) => {
      unused.push(...steps.map((step) => qualifyTitle(taskId, taskId === TASK ? titleIn(turn, step) : step)));
    });
    const turns = order === undefined ? () => 0 : chance(order);

    const lease = await manager.lease(TASK, { ttlMs: LEASE_MS });
    const running = manager.run(
      TASK,
      (run: Run) => {
        turn += 1;
        const watched = this.#watched(run, { turn, results, interrupted, bodies, turns });
        return this.#fn(watched as never, manager as never);
      },
      { input, initialState, lease },
    );
    const end = await Promise.race([
      stopped.then((): End => ({ kind: "stopped" })),
      running.then(
        (result): End => ({ kind: "returned", result }),
        (error: unknown): End => ({ kind: "threw", error }),
      ),
    ]);
    // A kill would cut off the running steps. Here their functions run to the end, but aren't recorded. The wait has
    // a limit, because a step may wait for another step that the stop cut off.
    const giveUp = new AbortController();
    // The pause rejects when it is aborted.
    const waited = pause(LONGEST_WAIT_MS, undefined, { signal: giveUp.signal }).catch(() => undefined);
    await Promise.race([Promise.allSettled(bodies), waited]);
    giveUp.abort();
    await releaseLeases();
    endTimers();
    return { end, saves, started, unused, results, interrupted, milestones: await milestonesIn(manager) };
  }

  /** Returns the same run, but with steps that report what they do. */
  #watched(run: Run, watch: Watch): Run {
    const { taskId, state, input, attempt, signal } = run;
    const occurrences = new Map<string, number>();
    const step = async (name: string, fn: (call: StepCall) => unknown, options?: StepOptions): Promise<unknown> => {
      const occurrence = (occurrences.get(name) ?? 0) + 1;
      occurrences.set(name, occurrence);
      const title = titleIn(watch.turn, stepTitle(name, occurrence));
      const body = (call: StepCall) =>
        new Promise((resolve) => {
          const runBody = async () => {
            const running = this.#callStep(fn, call, title, watch);
            resolve(running);
            await running;
          };
          watch.bodies.add(untilCutOff(runBody));
        });
      const { schema, retry, ...others } = options ?? {};
      const given = { ...others, ...(retry && { retry: { ...retry, backoffMs: 0 } }) };
      try {
        const result = await (schema === undefined
          ? run.step(name, body, given)
          : run.step(name, body, { ...given, schema }));
        watch.results.set(title, result);
        return result;
      } catch (error) {
        if (error instanceof StepInterruptedError) watch.interrupted.add(title);
        throw error;
      }
    };
    const waitFor = async (
      name: string,
      { timeoutMs, ...options }: WaitOptions = {},
    ): Promise<TaskEvent | undefined> => {
      const received = await run.waitFor(name, { ...options, timeoutMs: 0 });
      if (received !== undefined || timeoutMs !== undefined) return received;
      throw new Error(
        `The run waits for an event ${JSON.stringify(name)} that the rehearsal doesn't have. Give its value in \`events\`: ` +
          "one for each wait.",
      );
    };
    return {
      ...{ taskId, state, input, attempt, signal },
      step: step as typeof run.step,
      sleepUntil: (name) => run.sleepUntil(name, new Date(0)),
      waitFor: waitFor as typeof run.waitFor,
      next: (...args) => run.next(...args),
      save: (...args) => run.save(...args),
    };
  }

  async #callStep(
    fn: (call: StepCall) => unknown,
    { key, attempt, signal, write }: StepCall,
    title: string,
    { turns }: Watch,
  ): Promise<unknown> {
    const keys = this.stepsWithKey;
    const call = {
      ...{ attempt, signal, write },
      get key() {
        keys.add(title);
        return key;
      },
    };
    await pass(turns());
    const result = await fn(call);
    await pass(turns());
    return result;
  }
}

/** Sends each event once. A fixed clock gives them the same time in every life. */
async function sendAll(storage: MemoryAdapter, events: Readonly<Record<string, readonly unknown[]>>): Promise<void> {
  const sender = new CheckpointManager({ storage, ownsStorage: false, logger: SILENT, clock: () => 0 });
  for (const [name, values] of Object.entries(events)) {
    for (const [index, value] of values.entries()) await sender.send(TASK, name, value, { id: `${name} ${index}` });
  }
}

/** Collects what the steps of a turn report. */
interface Watch {
  readonly turn: number;
  readonly results: Map<string, unknown>;
  readonly interrupted: Set<string>;
  /** Each promise resolves once a step's function has ended, or once a cut-off save keeps it from ending. */
  readonly bodies: Set<Promise<void>>;
  /** Returns the number of turns of the event loop that a step waits. */
  readonly turns: () => number;
}

/** Reports the differences between the undisturbed run and a stopped and resumed one. */
function compare(findings: Findings, stop: StopPoint, undisturbed: Life, first: Life, last: Life): void {
  findings.addRanTwice([...last.started].filter((step) => last !== first && first.started.has(step)));
  if (last.interrupted.size > 0) {
    // The function may have caught the StepInterruptedError and taken another path, so the rest isn't compared.
    for (const step of last.interrupted) findings.addInterrupted(step, last.end.kind === "returned");
    return;
  }
  const unknown = [...last.started, ...first.started].filter((step) => !undisturbed.started.has(step));
  findings.addUnstable(new Set([...unknown, ...last.unused]), stop);
  if (last.end.kind === "threw") {
    findings.add("failed", "the resumed run", stop, `throws ${shown(last.end.error)}`);
    return;
  }
  const differs = (what: string, found: unknown, expected: unknown) => {
    const difference = firstDifference(found, expected);
    if (difference === undefined) return;
    const where = difference.path === "" ? "" : `differs at ${difference.path}: it `;
    findings.add(
      "different",
      what,
      stop,
      `${where}is ${shown(difference.found)} instead of ${shown(difference.expected)}`,
    );
  };
  for (const [step, result] of [...first.results, ...last.results]) {
    const isKnown = undisturbed.results.has(step);
    if (isKnown) differs(`the result of step ${JSON.stringify(step)}`, result, undisturbed.results.get(step));
  }
  for (let at = 0; at < Math.max(last.milestones.length, undisturbed.milestones.length); at++) {
    differs(`milestone ${at + 1}`, last.milestones[at], undisturbed.milestones[at]);
  }
  differs("the run's result", readResult(last), readResult(undisturbed));
}

/** Returns the first difference between two values, in the deepest plain object or array that contains it. */
function firstDifference(found: unknown, expected: unknown, path = ""): Difference | undefined {
  if (isDeepStrictEqual(found, expected)) return undefined;
  if (isTree(found) && isTree(expected) && Array.isArray(found) === Array.isArray(expected)) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(found)])) {
      const step = Array.isArray(found) ? `[${key}]` : `.${key}`;
      const inside = firstDifference(found[key], expected[key], path + step);
      if (inside !== undefined) return inside;
    }
  }
  return { path, found, expected };
}

interface Difference {
  readonly path: string;
  readonly found: unknown;
  readonly expected: unknown;
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
}

function readResult({ end }: Life): unknown {
  return end.kind === "returned" ? end.result : undefined;
}

async function milestonesIn(manager: Pick<CheckpointManager, "history">): Promise<readonly unknown[]> {
  const milestones: unknown[] = [];
  for await (const checkpoint of manager.history(TASK, { order: "oldest" })) {
    const { stage, status, state } = checkpoint;
    if (!isTransient(checkpoint)) milestones.push({ stage, status, state });
  }
  return milestones;
}

function planStops(saves: number, kills: "every" | number = "every"): readonly Stop[] {
  const all = Array.from({ length: saves }, (_, index) => index + 1).flatMap((save): Stop[] => [
    { save, side: "before" },
    { save, side: "after" },
  ]);
  if (kills === "every" || kills >= all.length) return all;
  return Array.from({ length: kills }, (_, index) => all[Math.floor((index * all.length) / kills)]).filter(
    (stop) => stop !== undefined,
  );
}

function describeSave(draft: RunWrite): string {
  if (!("status" in draft)) {
    const names = draft.flatMap(({ kind, name }) => (kind === "mark" || name === undefined ? [] : name));
    return `${names.slice(0, 3).join(", ") || "the start of a step"} is recorded`;
  }
  if (isTransient(draft)) return `${draft.label ?? "the beginning"} is saved`;
  if (draft.status === "completed") return "the result is saved";
  return draft.stage === undefined ? "a milestone is saved" : `milestone ${draft.stage} is saved`;
}

/** Returns a step's title. If the step belongs to a run within the rehearsed run, the title names that run's task. */
function qualifyTitle(taskId: string, title: string): string {
  return taskId === TASK ? title : `${title} of ${taskId}`;
}

function titleIn(turn: number, title: string): string {
  return turn === 1 ? title : `${title}, turn ${turn}`;
}

/** Waits for this many turns of the event loop. */
async function pass(turns: number): Promise<void> {
  for (let left = turns; left > 0; left--) await nextTurn();
}

/** Returns a generator of numbers from 0 to 3 that depend only on the seed. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 30;
  };
}

function shown(value: unknown): string {
  if (isError(value)) return `${value.name}: ${value.message}`;
  return inspect(value, { depth: 3, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 200 });
}

const OPTION_KEYS = listKeys<RehearseOptions>({
  kills: true,
  events: true,
  before: true,
  input: true,
  initialState: true,
  schema: true,
  redact: true,
  maxPayloadBytes: true,
});

function checkOptions(options: object): void {
  checkKeys("RehearseOptions", options, OPTION_KEYS);
  const { kills, before } = options as { kills?: unknown; before?: unknown };
  if (before !== undefined && typeof before !== "function")
    throw new TypeError("RehearseOptions.before must be a function.");
  if (kills === undefined || kills === "every") return;
  if (typeof kills !== "number" || !Number.isSafeInteger(kills) || kills < 1) {
    throw new RangeError('RehearseOptions.kills must be "every" or a whole number from 1.');
  }
}
