// Checks the answers of one turn of a run in all lives against the promises of runs (docs/runs.md).
import { isEvent } from "./check-events.js";
import { LEFT } from "./program.js";
import { isStop, type SeenInTurn } from "./seen.js";
import type { Life, Line } from "./seen-lives.js";
import { Titles } from "./walk.js";

type Got = Line & Extract<SeenInTurn, { readonly is: "got" }>;
type Called = Line & Extract<SeenInTurn, { readonly is: "called" }>;
type Ran = Line & Extract<SeenInTurn, { readonly is: "body" }>;
type Made = Line & Extract<SeenInTurn, { readonly is: "made" }>;

/** An answer that a run's function got. */
interface Answer {
  readonly value: string;
  /** The stored part of an error. */
  readonly error: string | undefined;
  /** The input of the call: a result for another input isn't an answer. */
  readonly input: number | undefined;
}

export interface TurnRules {
  report(what: string): void;
  findMade(value: string): Made | undefined;
  receive(title: string, value: string, code: number): void;
  /** Notes that the wait's recorded event was received again, so that it isn't in doubt. */
  receiveAgain(title: string, value: string, code: number): void;
  /** Notes that an event is pending again. */
  giveBack(title: string, value: string): void;
  /** Notes that a wait got no answer and its turn may continue. */
  leaveOpen(title: string): void;
  /** Notes that a wait got an answer. */
  close(title: string): void;
  /** Notes that an event may be pending again. */
  doubt(value: string): void;
  /** Whether lives of the task, or of the task that it was forked from, had different code. */
  isCodeChanged(): boolean;
  /** Whether the task is a fork or was rewound, and nobody has noted what it took along. */
  isLoose(): boolean;
}

/** Checks one turn of one generation in all lives. */
export class TurnCheck {
  readonly #rules: TurnRules;
  /** The answers that are recorded permanently, in the order in which functions got them. */
  readonly #agreed = new Map<string, Answer>();
  /** The order of the answers for each version of the code. */
  readonly #orders = new Map<number, string[]>();
  /** The results that are dropped if a killed life had recorded its failure or a step's other input. */
  #mayBeDropped: ReadonlySet<string>[] = [];
  /** The steps that the next life tries again if the failure of the last life is recorded. */
  #lastDropped: readonly string[] = [];
  /** The steps with `atMostOnce` that have begun but whose result no function got, and the life that began them. */
  readonly #onceBegan = new Map<string, { readonly life: string; readonly input: number | undefined }>();
  /** The steps that earlier lives have called; `undefined` if the turn may have more of another generation. */
  #called: Set<string> | undefined = new Set();
  /** What the last call of the step that isn't awaited has made. */
  #left: string | undefined;

  constructor(rules: TurnRules) {
    this.#rules = rules;
  }

  /** @param lines - The lines of this life in this turn. */
  take(all: readonly Line[], { lines: ownLines, ended, isLate }: Life): void {
    const refused = new Set(all.flatMap((line) => (line.is === "refused" && !line.isStopped ? line.title : [])));
    const lines = withCountedSaves(all, refused);
    const got = new Set<string>();
    const calls = new Map<string, Called>();
    let lastErrors: string[] = [];
    let hasEnded = false;
    let hasStopped = false;
    let isOver = false;
    let linked: readonly string[] | undefined;
    for (const line of lines) {
      if (line.is === "called") {
        if (line.kind !== "save" && !refused.has(line.title)) lastErrors = [];
        calls.set(line.title, line);
        if (this.#hasOtherInput(line)) this.#mayDrop(this.#laterThan(line.title, got));
      } else if (line.is === "made" && line.title === LEFT) this.#left = line.value;
      else if (line.is === "body") this.#ran(line, got, isLate(line));
      else if (line.is === "got") {
        // A wait whose signal aborts after the end of the function isn't recorded.
        if (hasEnded && line.kind === "wait" && line.isError) continue;
        this.#got(line, calls.get(line.title)?.input, got, !hasEnded);
        if (line.isError) lastErrors.push(line.title);
      } else if (line.is === "threw") {
        linked = line.titles;
        hasEnded = true;
      } else if (isStop(line)) {
        hasEnded = true;
        hasStopped ||= line.is === "stopped";
      } else if (line.is === "next" || line.is === "returned") {
        const isStored = ended === "completed" || ownLines.some(({ is, at }) => is === "began" && at > line.at);
        isOver ||= isStored;
        if (!hasEnded) this.#assertWhole(line, got, isStored);
        if (hasStopped && isStored) this.#rules.report("the end of its function is stored, though the run had stopped");
        hasEnded = true;
      }
    }
    for (const { kind, title } of calls.values()) {
      if (kind !== "wait") continue;
      if (got.has(title)) this.#rules.close(title);
      else if (!isOver) this.#rules.leaveOpen(title);
    }
    for (const title of calls.keys()) this.#called?.add(title);
    if (calls.has(LEFT)) this.#assertLeft(ended);
    if (linked === undefined) return;
    const dropped = new Set([...linked, ...lastErrors]);
    this.#lastDropped = [...dropped].filter((title) => calls.get(title)?.kind === "step");
    if (ended === "failed") this.#drop(dropped);
    else this.#mayBeDropped.push(dropped);
  }

  /** Notes the answers that a fork or a rewind copied. */
  carry(carried: readonly (readonly [title: string, value: string])[]): void {
    // It may also have taken starts along.
    this.#called = undefined;
    for (const [title, value] of carried) {
      this.#agreed.set(title, { value, error: undefined, input: this.#rules.findMade(value)?.input });
      if (title === LEFT) this.#left = value;
    }
  }

  /** Checks that the run completes after the unawaited step, and only if that step has succeeded. */
  #assertLeft(ended: Life["ended"]): void {
    if (ended === "failed") this.#lastDropped = [LEFT];
    if (ended !== "completed" || this.#left?.startsWith("planned") === false) return;
    this.#rules.report(`the run completed, though its step "${LEFT}" ${this.#left ? "has failed" : "hasn't ended"}`);
  }

  /** Checks that none of the last failure's steps should have been tried again. */
  assertStuck(): void {
    if (this.#lastDropped.length > 0)
      this.#rules.report(`${this.#lastDropped.join(", ")} wasn't tried again after the failure`);
  }

  /** Drops the results of a step and of all later ones. */
  dropFrom(from: string): void {
    if (this.#agreed.has(from)) this.#dropLater(from, new Set());
    // A rewind or a fork has copied the result, and no function has got it since.
    else this.#mayDrop([...this.#agreed.keys()].map((title) => new Set([title])));
    // The starts of steps are also dropped.
    this.#onceBegan.clear();
  }

  #ran({ title, input, isOnce, life }: Ran, got: ReadonlySet<string>, isLate: boolean) {
    const agreed = this.#agreed.get(title);
    if (agreed !== undefined && !isLate) {
      if (!got.has(title) && agreed.input !== input) {
        this.#dropLater(title, got);
        this.#onceBegan.clear();
      } else if (got.has(title) || !this.#dropWith(title))
        this.#rules.report(`"${title}" ran again, though its result was acknowledged`);
    }
    if (!isOnce || isLate) return;
    const other = this.#onceBegan.get(title);
    // A recorded result that no function got doesn't count for another input.
    if (other !== undefined && other.life !== life && other.input === input)
      this.#rules.report(`"${title}" may run once, and began in ${other.life} and in ${life}`);
    this.#onceBegan.set(title, { life, input });
  }

  #got({ title, kind, value, error, code }: Got, input: number | undefined, got: Set<string>, isInTime: boolean): void {
    const before = this.#agreed.get(title);
    if (before !== undefined && before.value !== value) this.#dropWith(title);
    const agreed = this.#agreed.get(title);
    if (agreed !== undefined && agreed.value !== value)
      this.#rules.report(`"${title}" answered ${JSON.stringify(value)}, and ${JSON.stringify(agreed.value)} before`);
    if (error !== agreed?.error && agreed?.error !== undefined)
      this.#rules.report(`"${title}" threw ${error}, and ${agreed.error} before`);
    // A call that ends after the function or after a stop of the run may or may not be answered in each life.
    if (isInTime) this.#assertOrder(title, code, got);
    if (isEvent(value)) {
      if (agreed === undefined) this.#rules.receive(title, value, code);
      else this.#rules.receiveAgain(title, value, code);
    }
    if (agreed === undefined) {
      const made = this.#rules.findMade(value);
      if (kind === "step" && value !== "interrupted" && made === undefined)
        this.#rules.report(`"${title}" answered ${value}, which nothing has made`);
      if (value === "interrupted" && this.#called?.has(title) === false && !this.#rules.isLoose())
        this.#rules.report(`"${title}" counts as interrupted, and no life before has called it`);
      // A child run's error is one of its own steps'.
      if (made?.title === title && made.input !== input)
        this.#rules.report(`"${title}" answered ${value}, which it made with the input ${made.input}, not ${input}`);
      this.#agreed.set(title, { value, error, input });
      // Only an earlier answer of this call may have been dropped.
      this.#mayBeDropped = this.#mayBeDropped.map((titles) => new Set([...titles].filter((other) => other !== title)));
      this.#onceBegan.delete(title);
    }
    got.add(title);
  }

  /** Checks that the answers come in the same order in each life with the same code. */
  #assertOrder(title: string, code: number, got: ReadonlySet<string>): void {
    const order = this.#orders.get(code) ?? [];
    this.#orders.set(code, order);
    const expected = order.find((other) => !got.has(other));
    if (expected === title) return;
    if (expected === undefined) {
      order.push(title);
      return;
    }
    if (this.#dropWith(expected)) this.#assertOrder(title, code, got);
    else this.#rules.report(`"${title}" answered before "${expected}", and after it in an earlier life`);
  }

  /**
   * Checks that a turn ends only after all calls that the same code had answers for have been answered. Once the end is
   * stored, an event whose wait isn't in this code is pending again.
   */
  #assertWhole({ code }: Line, got: ReadonlySet<string>, isStored: boolean): void {
    const missing = this.#orders.get(code)?.filter((title) => !got.has(title) && !this.#dropWith(title)) ?? [];
    if (missing.length > 0) this.#rules.report(`the turn ended without the recorded answers of ${missing.join(", ")}`);
    for (const [title, { value }] of this.#agreed) {
      if (got.has(title) || !isEvent(value)) continue;
      if (isStored) this.#rules.giveBack(title, value);
      else this.#rules.doubt(value);
    }
  }

  #hasOtherInput({ title, input }: { readonly title: string; readonly input: number | undefined }): boolean {
    const agreed = this.#agreed.get(title);
    return agreed !== undefined && agreed.input !== input;
  }

  /** Drops an answer, and later answers that the function hasn't got. */
  #dropLater(title: string, got: ReadonlySet<string>): void {
    const [first, ...others] = this.#laterThan(title, got);
    if (first !== undefined) this.#drop(first);
    this.#mayDrop(others);
  }

  #mayDrop(answers: readonly ReadonlySet<string>[]): void {
    this.#mayBeDropped.push(...answers);
    for (const title of answers.flatMap((titles) => [...titles])) {
      const value = this.#agreed.get(title)?.value;
      if (value !== undefined && isEvent(value)) this.#rules.doubt(value);
    }
  }

  /** Returns an answer and the later ones. After a change of the code, functions may have got them in another order. */
  #laterThan(title: string, got: ReadonlySet<string>): readonly ReadonlySet<string>[] {
    const titles = [...this.#agreed.keys()];
    const left = titles.filter((other) => !got.has(other) && other !== title);
    if (this.#rules.isCodeChanged()) return [title, ...left].map((other) => new Set([other]));
    return [new Set([title, ...left.filter((other) => titles.indexOf(other) > titles.indexOf(title))])];
  }

  /** Whether an earlier life may have dropped the answer. If so, also drops the answers that were dropped with it. */
  #dropWith(title: string): boolean {
    const dropped = this.#mayBeDropped.filter((titles) => titles.has(title));
    this.#mayBeDropped = this.#mayBeDropped.filter((titles) => !titles.has(title));
    for (const titles of dropped) this.#drop(titles);
    return dropped.length > 0;
  }

  #drop(titles: ReadonlySet<string>): void {
    for (const title of titles) {
      const answer = this.#agreed.get(title);
      if (answer !== undefined && isEvent(answer.value)) this.#rules.giveBack(title, answer.value);
      this.#agreed.delete(title);
    }
    // The function may make the calls after a dropped call later or not at all.
    for (const order of this.#orders.values()) {
      const first = order.findIndex((title) => titles.has(title));
      if (first !== -1) order.splice(first);
    }
  }
}

/**
 * Returns the lines with saves numbered like in a run, which doesn't count refused saves. Refusals may differ by life.
 */
function withCountedSaves(lines: readonly Line[], refused: ReadonlySet<string>): readonly Line[] {
  const titles = new Titles();
  const counted = new Map<string, string>();
  return lines.map((line) => {
    if ((line.is !== "called" && line.is !== "got") || line.kind !== "save") return line;
    const { title } = line;
    if (line.is === "called" && !refused.has(title)) counted.set(title, titles.next("save", "saved"));
    return { ...line, title: counted.get(title) ?? title };
  });
}
