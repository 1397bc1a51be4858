// Checks the notes of a program's processes against the promises of runs (docs/runs.md, docs/waiting.md).
import { callViolations } from "./check-calls.js";
import { EventsCheck, idOf } from "./check-events.js";
import { TurnCheck, type TurnRules } from "./check-turn.js";
import type { Seen, SeenWhere } from "./seen.js";
import { groupBy, keyOf, type Life, livesIn, originOf } from "./seen-lives.js";

type Made = Extract<Seen, { readonly is: "made" }>;

/**
 * Returns descriptions of the violations.
 *
 * @param seen - The notes, in their order.
 */
export function violationsIn(seen: readonly Seen[]): readonly string[] {
  const check = new ProgramCheck(seen);
  return [...check.violations, ...callViolations(seen)];
}

class ProgramCheck {
  readonly violations: string[] = [];
  /** The checks by task, generation and turn. */
  readonly #turns = new Map<string, TurnCheck>();
  /** The turn of the last life of each task. */
  readonly #latest = new Map<string, TurnCheck>();
  /** The calls of steps' functions, by the values that they made. */
  readonly #made = new Map<string, Made>();
  readonly #events: EventsCheck;
  /** The generations of each task, and the versions of its code. */
  readonly #versions = new Map<string, Set<string>>();
  readonly #codes = new Map<string, Set<number>>();
  /** The inputs of each task and its forks, as JSON. */
  readonly #inputs = new Map<string, string>();
  /** The generations that branched off an ended run. They may begin with the state of a milestone. */
  readonly #afterEnd = new Set<string>();
  readonly #saved = new Set<string>();
  /** The states with which turns may begin. */
  readonly #states = new Map<string, Set<string>>();

  constructor(seen: readonly Seen[]) {
    this.#events = new EventsCheck(seen, (violation) => void this.violations.push(violation));
    for (const line of seen) {
      if (line.is === "began") {
        const versions = this.#versions.get(line.task) ?? new Set();
        const codes = this.#codes.get(originOf(line.task)) ?? new Set();
        this.#codes.set(originOf(line.task), codes.add(line.code));
        this.#versions.set(line.task, versions.add(`${line.generation} ${line.code}`));
        if (line.input !== undefined) this.#assertInput(line.task, JSON.stringify(line.input));
      }
      if (line.is === "made") this.#made.set(line.value, line);
      if (line.is === "surprised") this.violations.push(`${line.task} ended with ${line.error}`);
      if (line.is === "branched" && line.isOver) this.#afterEnd.add(line.generation);
      if (line.is === "saving") this.#saved.add(JSON.stringify(line.state));
      if (line.is === "next") this.#statesOf(line.at + 1).add(JSON.stringify(line.state));
    }
    for (const item of livesIn(seen)) {
      if ("lines" in item) this.#take(item);
      else if (item.is === "stuck") this.#latest.get(item.task)?.assertStuck();
      else if (item.is === "dropped") this.#turn(item).dropFrom(item.from);
      else {
        this.#events.branch(item);
        this.#turn(item).carry(item.carried);
      }
    }
    const isPlain = (task: string) => this.#versions.get(task)?.size === 1 && task === originOf(task);
    for (const line of seen) if (line.is === "event") this.#events.assertListed(line, isPlain(line.task));
  }

  #take(life: Life): void {
    for (const lines of groupBy(life.lines, keyOf).values()) {
      const [first] = lines;
      if (first === undefined) continue;
      if (
        first.is === "began" &&
        first.at > 0 &&
        !this.#mayBegin(first.generation, first.at, JSON.stringify(first.state))
      )
        this.#report(first, `turn ${first.at} began with a state that no turn has passed on`);
      this.#turn(first).take(lines, life);
    }
  }

  #mayBegin(generation: string, at: number, state: string): boolean {
    return this.#statesOf(at).has(state) || (this.#afterEnd.has(generation) && this.#saved.has(state));
  }

  /** Checks that the input stays the same, even in a fork or after a restart. */
  #assertInput(task: string, input: string): void {
    const before = this.#inputs.get(originOf(task)) ?? input;
    this.#inputs.set(originOf(task), before);
    if (input !== before) this.violations.push(`${task} began with the input ${input}, and with ${before} before`);
  }

  #turn(where: Pick<SeenWhere, "task" | "generation" | "at">): TurnCheck {
    const key = keyOf(where);
    const turn = this.#turns.get(key) ?? new TurnCheck(this.#rules(where));
    this.#turns.set(key, turn);
    this.#latest.set(where.task, turn);
    return turn;
  }

  #rules(where: Pick<SeenWhere, "task" | "generation" | "at">): TurnRules {
    const { task, generation, at } = where;
    return {
      report: (what) => this.#report(where, what),
      findMade: (value) => this.#made.get(value),
      receive: (title, value, code) =>
        this.#events.receive(task, idOf(value), { place: `${at} ${title}`, generation, code }),
      receiveAgain: (title, value, code) =>
        this.#events.receiveAgain(task, idOf(value), { place: `${at} ${title}`, generation, code }),
      isCodeChanged: () => (this.#codes.get(originOf(where.task))?.size ?? 0) > 1,
      isLoose: () => this.#events.isLoose(task),
      leaveOpen: (title) => this.#events.leaveOpen(task, `${generation} ${at} ${title}`, title),
      close: (title) => this.#events.close(task, `${generation} ${at} ${title}`),
      doubt: (value) => this.#events.doubt(task, idOf(value)),
      giveBack: (title, value) => this.#events.giveBack(task, idOf(value), { place: `${at} ${title}`, generation }),
    };
  }

  #statesOf(at: number): Set<string> {
    const key = String(at);
    const states = this.#states.get(key) ?? new Set();
    this.#states.set(key, states);
    return states;
  }

  #report({ task, generation, at }: Pick<SeenWhere, "task" | "generation" | "at">, what: string): void {
    this.violations.push(`${task}, generation ${generation}, turn ${at}: ${what}`);
  }
}
