import { setImmediate as nextTurn } from "node:timers/promises";
import type { StepHead } from "../codec/run-body.js";
import { RunMismatchError, StorageError } from "../contract/errors.js";
import { type StepRecord, stepTitle } from "../contract/run-record.js";
import type { Signal } from "../contract/signals.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import type { EventHub } from "../manager/events.js";
import type { StateSchema } from "../manager/schema.js";
import type { RunJournal } from "./journal.js";
import type { RunSignals } from "./signals.js";
import type { Entry } from "./step-entries.js";
import type { StepValues } from "./step-values.js";
import type { Wakers } from "./wakers.js";

/** The parts of a run that its waits use. */
export interface WaitsHost {
  readonly taskId: string;
  readonly journal: RunJournal;
  readonly values: StepValues;
  readonly events: EventHub;
  readonly signal: AbortSignal;
  readonly signals: RunSignals;
  readonly wakers: Wakers;
  clock(): number;
  fail(error: unknown): void;
  readonly letGo: ((waits: RunWaits) => void) | undefined;
}

/** The options of `run.waitFor`. */
export interface WaitOptions<Value = unknown> {
  readonly timeoutMs?: number | undefined;
  readonly schema?: StateSchema<unknown, Value> | undefined;
}

export interface NamedStep {
  readonly name: string;
  readonly occurrence: number;
  readonly title: string;
}

/** Another process's signal is found by looking. The pauses between two looks grow from the first to the last. */
const FIRST_LOOK_MS = 250;
const LAST_LOOK_MS = 2000;
/** The longest time limit of a wait: 100 years. */
export const LONGEST_WAIT_MS = 100 * 366 * 24 * 60 * 60 * 1000;
/** A longer sleep is divided, since a machine that sleeps stops the timers of its processes. */
const LONGEST_NAP_MS = 60_000;
/** A run that has only waited for so long lets go of its worker. */
const LETS_GO_AFTER_MS = 250;

/** A wait that is under way. */
interface Wait {
  readonly untilMs: number | undefined;
  /** The signal's name; `undefined` for a sleep. */
  readonly name: string | undefined;
}

/** The sleeps, and the waits for signals, of one turn. */
export class Waits {
  readonly #host: WaitsHost;
  readonly #underWay: () => number;
  readonly #inOrder: (entry: Entry, first?: () => Promise<void>) => Promise<void>;
  readonly #waiting = new Set<Wait>();
  readonly #looks = new Set<Promise<unknown>>();
  readonly #over = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  /** @param underWay - Returns the number of the turn's steps and waits that are under way. */
  constructor(
    host: WaitsHost,
    inOrder: (entry: Entry, first?: () => Promise<void>) => Promise<void>,
    underWay: () => number,
  ) {
    this.#host = host;
    this.#inOrder = inOrder;
    this.#underWay = underWay;
  }

  async sleep(step: NamedStep, untilMs: number): Promise<void> {
    const { clock } = this.#host;
    const recorded = this.#recorded(step, "sleep");
    if (recorded?.head.status === "completed") return;
    const begun = recorded?.head ?? this.#begun(step, "sleep", untilMs);
    const wait = { untilMs: Date.parse(begun.until ?? ""), name: undefined };
    if (wait.untilMs > clock()) {
      const begins = () => this.#began(begun, recorded);
      await this.#waitedFor(wait, begins, async () => (wait.untilMs <= clock() ? true : undefined));
    }
    await this.#othersLooked();
    await this.#ended(begun, undefined, undefined);
  }

  async signal(step: NamedStep, { timeoutMs, schema }: WaitOptions): Promise<Signal | undefined> {
    const { clock, signals, values } = this.#host;
    const { name, title } = step;
    const recorded = this.#recorded(step, "signal");
    if (recorded?.head.status === "completed") {
      const { signal } = recorded.head;
      if (signal === undefined) return undefined;
      return { name, value: values.result(title, recorded.value ?? "null", schema), status: "received", ...signal };
    }
    const look = () => this.#orStopped(() => signals.next(name, schema));
    const begun =
      recorded?.head ?? this.#begun(step, "signal", timeoutMs === undefined ? undefined : clock() + timeoutMs);
    const untilMs = begun.until === undefined ? undefined : Date.parse(begun.until);
    let found = await look();
    if (found === undefined && (untilMs === undefined || untilMs > clock())) {
      const begins = () => this.#began(begun, recorded);
      const last = await this.#waitedFor({ untilMs, name }, begins, async () => {
        const next = await look();
        const isOver = next !== undefined || (untilMs !== undefined && untilMs <= clock());
        return isOver ? { next } : undefined;
      });
      found = last.next;
    }
    this.#host.signal.throwIfAborted();
    this.#over.signal.throwIfAborted();
    await this.#ended(begun, found?.signal, found && values.textOfResult(name, title, found.sent, undefined));
    return found?.signal;
  }

  async #mark({ id }: Signal): Promise<void> {
    try {
      await this.#host.signals.received(new Set([id]));
    } catch (error) {
      // The next attempt marks the signal before it goes on, so no other wait receives it.
      this.#host.fail(error);
      throw error;
    }
  }

  /** Stops the run if the storage fails, because then its function hasn't failed. */
  async #orStopped<Found>(look: () => Promise<Found>): Promise<Found> {
    const looking = look();
    this.#looks.add(looking);
    try {
      return await looking;
    } catch (error) {
      if (error instanceof StorageError) this.#host.fail(error);
      throw error;
    } finally {
      this.#looks.delete(looking);
    }
  }

  /** Lets the waits beside a sleep that is over look once more: a signal that came in time ends its wait first. */
  async #othersLooked(): Promise<void> {
    this.#host.wakers.wake(this.#host.taskId);
    await nextTurn();
    await Promise.allSettled(this.#looks);
    await nextTurn();
    this.#host.signal.throwIfAborted();
    this.#over.signal.throwIfAborted();
  }

  /** Ends the waits that are under way, without recording their end. Call it once the run's function has ended. */
  end(): void {
    clearTimeout(this.#timer);
    this.#over.abort();
  }

  /** The reason with which waits reject that {@link end} has ended; `undefined` before. */
  get overReason(): unknown {
    return this.#over.signal.reason;
  }

  /** Call it when a step or a wait of the turn has ended. */
  stepEnded(): void {
    this.#letGoSoon();
  }

  #recorded({ name, occurrence, title }: NamedStep, kind: StepRecord["waitsFor"]): Entry | undefined {
    const { journal, events, taskId } = this.#host;
    const recorded = journal.find({ name, occurrence, status: "completed" });
    if (recorded === undefined) return undefined;
    assertKind(taskId, title, recorded, kind);
    recorded.isUsed = true;
    if (recorded.head.status === "completed") {
      events.emit("stepReused", { taskId, turn: journal.head.turn, step: title });
    }
    return recorded;
  }

  #begun({ name, occurrence }: NamedStep, waitsFor: "sleep" | "signal", untilMs: number | undefined): StepHead {
    const { clock, journal } = this.#host;
    return {
      name,
      occurrence,
      waitsFor,
      status: "started",
      startedAt: new Date(clock()).toISOString(),
      ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }),
      runAttempt: journal.head.attempt,
    };
  }

  /** Records the start of a wait, so that a resume knows its end. */
  async #began(begun: StepHead, recorded: Entry | undefined): Promise<void> {
    const { events, journal, taskId } = this.#host;
    if (recorded === undefined) {
      journal.note(begun, undefined);
      await journal.stored();
    }
    const { waitsFor = "sleep", until } = begun;
    const step = stepTitle(begun.name, begun.occurrence);
    events.emit("waitStarted", {
      taskId,
      turn: journal.head.turn,
      step,
      waitsFor,
      ...(until !== undefined && { until }),
    });
  }

  async #ended(begun: StepHead, signal: Signal | undefined, value: string | undefined): Promise<void> {
    const { clock, events, journal, taskId } = this.#host;
    const durationMs = Math.max(0, clock() - Date.parse(begun.startedAt));
    const origin = signal && originOf(signal);
    const entry = journal.note({ ...begun, status: "completed", durationMs, ...(origin && { signal: origin }) }, value);
    await journal.stored();
    await this.#inOrder(
      entry,
      signal &&
        (async () => {
          // The function has ended without the signal, so the next wait of its name gets it.
          if (this.#over.signal.aborted && !this.#host.signal.aborted) {
            journal.note(begun, undefined);
            this.#over.signal.throwIfAborted();
          }
          await this.#mark(signal);
        }),
    );
    const { waitsFor = "sleep" } = begun;
    const step = stepTitle(begun.name, begun.occurrence);
    const told = { taskId, turn: journal.head.turn, step, waitsFor, durationMs };
    events.emit("waitEnded", { ...told, ...(origin && { signal: origin }) });
  }

  /** Resolves to the first value of `look` that isn't `undefined`. @throws The reason of the run's stop. */
  async #waitedFor<Found>(
    wait: Wait,
    begins: () => Promise<void>,
    look: () => Promise<Found | undefined>,
  ): Promise<Found> {
    const { clock, taskId, wakers } = this.#host;
    const signal = AbortSignal.any([this.#host.signal, this.#over.signal]);
    this.#waiting.add(wait);
    this.#letGoSoon();
    try {
      await begins();
      for (let pauseMs = FIRST_LOOK_MS; ; pauseMs = Math.min(2 * pauseMs, LAST_LOOK_MS)) {
        const leftMs = wait.untilMs === undefined ? LONGEST_NAP_MS : Math.max(0, wait.untilMs - clock());
        await wakers.wait(taskId, Math.min(leftMs, wait.name === undefined ? LONGEST_NAP_MS : pauseMs), signal);
        signal.throwIfAborted();
        const found = await look();
        if (found !== undefined) return found;
      }
    } finally {
      this.#waiting.delete(wait);
    }
  }

  /** If nothing but waits is under way for a while, the run lets go of its worker. */
  #letGoSoon(): void {
    clearTimeout(this.#timer);
    const { letGo, signal } = this.#host;
    if (letGo === undefined || signal.aborted || !this.#hasOnlyWaits()) return;
    this.#timer = setTimeout(() => {
      if (this.#hasOnlyWaits()) letGo(this.#all());
    }, LETS_GO_AFTER_MS).unref();
  }

  #hasOnlyWaits(): boolean {
    return this.#waiting.size > 0 && this.#waiting.size === this.#underWay();
  }

  #all(): RunWaits {
    const waits = [...this.#waiting];
    const firstMs = Math.min(...waits.map(({ untilMs = Number.POSITIVE_INFINITY }) => untilMs));
    return {
      dueAt: firstMs === Number.POSITIVE_INFINITY ? NEVER : new Date(firstMs).toISOString(),
      waitsFor: waits.flatMap(({ name }) => name ?? []),
    };
  }
}

/** @throws {RunMismatchError} The recorded step is of another kind: a step, a sleep, or a wait for a signal. */
export function assertKind(taskId: string, title: string, { head }: Entry, kind: StepRecord["waitsFor"]): void {
  if (head.waitsFor === kind) return;
  const name = (of: StepRecord["waitsFor"]) => (of === undefined ? "a step" : of === "sleep" ? "a sleep" : "a wait");
  throw new RunMismatchError(
    taskId,
    `${JSON.stringify(title)} of the run of task ${JSON.stringify(taskId)} was recorded as ${name(head.waitsFor)}, and is ${name(kind)} ` +
      "now. The record is kept. Give the new one another name, or pass `restart: true` to start over.",
  );
}

function originOf({ id, by, sentAt }: Signal): StepRecord["signal"] {
  return { id, ...(by !== undefined && { by }), sentAt };
}
