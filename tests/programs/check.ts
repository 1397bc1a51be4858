// Compares what the processes of a program have noted with what a run promises (docs/runs.md, docs/waiting.md).
import type { Kind, Seen, SeenInTurn, SeenWhere } from "./seen.js";

type Line = Extract<Seen, SeenWhere>;
type Got = Line & Extract<SeenInTurn, { readonly is: "got" }>;
type Ran = Line & Extract<SeenInTurn, { readonly is: "body" }>;

type Dropped = Extract<Seen, { readonly is: "dropped" }>;
type Stuck = Extract<Seen, { readonly is: "stuck" }>;

type Made = Line & Extract<SeenInTurn, { readonly is: "made" }>;

/** An answer that a run's function got. */
interface Answer {
  readonly value: string;
  /** Of the step's body that made it. */
  readonly input: number | undefined;
}

/**
 * What is wrong, in words.
 *
 * @param seen - In the order in which it was noted.
 */
export function violationsIn(seen: readonly Seen[]): readonly string[] {
  const check = new ProgramCheck(seen);
  return check.violations;
}

class ProgramCheck {
  readonly violations: string[] = [];
  /** By task, generation and turn. */
  readonly #turns = new Map<string, TurnCheck>();
  /** The turn of the last life of each task. */
  readonly #latest = new Map<string, TurnCheck>();
  /** By the values that steps' functions have made. */
  readonly #made = new Map<string, Made>();
  readonly #sent = new Map<string, boolean>();
  /** Where each event was received, by task and event. */
  readonly #received = new Map<string, { readonly place: string; readonly life: string }>();
  /** The task that a fork was made of. */
  readonly #origins = new Map<string, string>();
  /** The generations of each task, and the versions of its code. */
  readonly #versions = new Map<string, Set<string>>();
  readonly #codes = new Map<string, Set<number>>();
  /** The states with which turns may begin. */
  readonly #states = new Map<string, Set<string>>();

  constructor(seen: readonly Seen[]) {
    for (const line of seen) {
      if (line.is === "began") {
        const versions = this.#versions.get(line.task) ?? new Set();
        const codes = this.#codes.get(originOf(line.task)) ?? new Set();
        this.#codes.set(originOf(line.task), codes.add(line.code));
        this.#versions.set(line.task, versions.add(`${line.generation} ${line.code}`));
      }
      if (line.is === "made") this.#made.set(line.value, line);
      if (line.is === "sent") this.#sent.set(line.id, line.isBad);
      if (line.is === "surprised") this.violations.push(`${line.task} ended with ${line.error}`);
      if (line.is === "forked") this.#origins.set(line.task, line.from);
      if (line.is === "next") this.#statesOf(line.at + 1).add(JSON.stringify(line.state));
    }
    for (const item of livesIn(seen)) {
      if ("lines" in item) this.#take(item);
      else if (item.is === "stuck") this.#latest.get(item.task)?.assertStuck();
      else this.#turn(item).dropFrom(item.from);
    }
    for (const line of seen) if (line.is === "event") this.#assertEvent(line);
  }

  #take(life: Life): void {
    for (const lines of groupBy(life.lines, keyOf).values()) {
      const [first] = lines;
      if (first === undefined) continue;
      if (first.is === "began" && first.at > 0 && !this.#statesOf(first.at).has(JSON.stringify(first.state)))
        this.#report(first, `turn ${first.at} began with a state that no turn has given`);
      this.#turn(first).take(lines, life);
    }
  }

  /** What is stored of an event is what the function saw. */
  #assertEvent({ task, id, status }: Extract<Seen, { readonly is: "event" }>): void {
    if (status === "refused") {
      if (!this.#sent.get(id)) this.violations.push(`${task}: event ${id} was refused, and isn't bad`);
      return;
    }
    // After a restart, a fork or a rewind, a recorded receipt counts, even if no function got the event. The receipt of a
    // wait that the code has no longer doesn't count.
    const isReceived = this.#received.has(`${task} event ${id}`);
    const isPlain = this.#versions.get(task)?.size === 1 && !this.#origins.has(task);
    if (isPlain && isReceived !== (status === "received"))
      this.violations.push(`${task}: event ${id} is ${status}, and was ${isReceived ? "" : "not "}received`);
  }

  #turn(where: Pick<SeenWhere, "task" | "generation" | "at">): TurnCheck {
    const key = keyOf(where);
    const turn = this.#turns.get(key) ?? new TurnCheck(this.#rules(where));
    this.#turns.set(key, turn);
    this.#latest.set(where.task, turn);
    return turn;
  }

  #rules(where: Pick<SeenWhere, "task" | "generation" | "at">): TurnRules {
    const event = (value: string) => `${where.task} ${value}`;
    return {
      report: (what) => this.#report(where, what),
      findMade: (value) => this.#made.get(value),
      receive: (title, value, code) => {
        const id = value.slice("event ".length);
        if (!this.#sent.has(id)) this.#report(where, `"${title}" received ${value}, which was never sent`);
        const received = { place: `${where.at} ${title}`, life: `${where.generation} ${code}` };
        const other = this.#received.get(event(value));
        // After a restart, a rewind, or a change of the code, the event may be pending again.
        if (other !== undefined && other.life === received.life && other.place !== received.place)
          this.#report(where, `${value} was received by "${other.place}" and by "${received.place}"`);
        this.#received.set(event(value), received);
      },
      isCodeChanged: () => (this.#codes.get(originOf(where.task))?.size ?? 0) > 1,
      giveBack: (value) => void this.#received.delete(event(value)),
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

interface TurnRules {
  report(what: string): void;
  findMade(value: string): Made | undefined;
  receive(title: string, value: string, code: number): void;
  giveBack(value: string): void;
  /** Whether lives of the task, or of the one that it is a fork of, had different code. */
  isCodeChanged(): boolean;
}

/** One turn of one generation, in all lives. */
class TurnCheck {
  readonly #rules: TurnRules;
  /** The answers that are recorded for good, in the order in which functions got them. */
  readonly #agreed = new Map<string, Answer>();
  /** The order of the answers for each version of the code. */
  readonly #orders = new Map<number, string[]>();
  /** What is dropped if a life has recorded that before it was killed: its failure, or the other input of a step. */
  #mayBeDropped: ReadonlySet<string>[] = [];
  /** The steps that the next life tries again if the failure of the last one is recorded. */
  #lastDropped: readonly string[] = [];
  /** The steps with `atMostOnce` that have begun, and whose end no function got; the life that began them. */
  readonly #onceBegan = new Map<string, { readonly life: string; readonly input: number | undefined }>();

  constructor(rules: TurnRules) {
    this.#rules = rules;
  }

  /** @param lines - Of this life, in this turn. */
  take(lines: readonly Line[], { ended, isLate }: Life): void {
    const refused = new Set(lines.flatMap((line) => (line.is === "refused" && !line.isStopped ? line.title : [])));
    const got = new Set<string>();
    const kinds = new Map<string, Kind>();
    let lastErrors: string[] = [];
    let hasEnded = false;
    let linked: readonly string[] | undefined;
    for (const line of lines) {
      if (line.is === "called") {
        if (line.kind !== "save" && !refused.has(line.title)) lastErrors = [];
        kinds.set(line.title, line.kind);
        if (this.#hasOtherInput(line)) this.#mayBeDropped.push(...this.#laterThan(line.title, got));
      } else if (line.is === "body") this.#ran(line, got, isLate(line));
      else if (line.is === "got") {
        this.#got(line, got, !hasEnded);
        if (line.isError) lastErrors.push(line.title);
      } else if (line.is === "threw") {
        linked = line.titles;
        hasEnded = true;
      } else if (line.is === "refused") hasEnded ||= line.isStopped;
      else if (line.is === "next" || line.is === "returned") {
        if (!hasEnded) this.#assertWhole(line, got);
        hasEnded = true;
      }
    }
    if (linked === undefined) return;
    const dropped = new Set([...linked, ...lastErrors]);
    this.#lastDropped = [...dropped].filter((title) => kinds.get(title) === "step");
    if (ended === "failed") this.#drop(dropped);
    else this.#mayBeDropped.push(dropped);
  }

  /** No error of the last failure was to be tried again. */
  assertStuck(): void {
    if (this.#lastDropped.length > 0)
      this.#rules.report(`${this.#lastDropped.join(", ")} wasn't tried again after the failure`);
  }

  /** Drops the results from a step on. */
  dropFrom(from: string): void {
    if (this.#agreed.has(from)) this.#dropLater(from, new Set());
    // A rewind or a fork has taken it along, and no function has got it since.
    else this.#mayBeDropped.push(...[...this.#agreed.keys()].map((title) => new Set([title])));
    // Their starts are dropped too.
    this.#onceBegan.clear();
  }

  #ran({ title, input, isOnce, life }: Ran, got: ReadonlySet<string>, isLate: boolean): void {
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
    // With another input, a result that is recorded, and that no function got, doesn't count.
    if (other !== undefined && other.life !== life && other.input === input)
      this.#rules.report(`"${title}" may run once, and began in ${other.life} and in ${life}`);
    this.#onceBegan.set(title, { life, input });
  }

  #got({ title, kind, value, code }: Got, got: Set<string>, isInTime: boolean): void {
    const before = this.#agreed.get(title);
    if (before !== undefined && before.value !== value) this.#dropWith(title);
    const agreed = this.#agreed.get(title);
    if (agreed !== undefined && agreed.value !== value)
      this.#rules.report(`"${title}" answered ${JSON.stringify(value)}, and ${JSON.stringify(agreed.value)} before`);
    // What ends once the function has ended, or the run has stopped, may be answered or not, in each life.
    if (isInTime) this.#assertOrder(title, code, got);
    if (agreed === undefined) {
      if (value.startsWith("event ")) this.#rules.receive(title, value, code);
      const made = this.#rules.findMade(value);
      if (kind === "step" && value !== "interrupted" && made === undefined)
        this.#rules.report(`"${title}" answered ${value}, which nothing has made`);
      this.#agreed.set(title, { value, input: made?.input });
      // What may have been dropped before was an earlier answer.
      this.#mayBeDropped = this.#mayBeDropped.map((titles) => new Set([...titles].filter((other) => other !== title)));
      this.#onceBegan.delete(title);
    }
    got.add(title);
  }

  /** In each life with the same code, the answers come in the same order. */
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
   * When a turn ends, all has been answered that was answered before, by the same code. An event whose wait isn't in this
   * code is pending again.
   */
  #assertWhole({ code }: Line, got: ReadonlySet<string>): void {
    const missing = this.#orders.get(code)?.filter((title) => !got.has(title) && !this.#dropWith(title)) ?? [];
    if (missing.length > 0) this.#rules.report(`the turn ended without the recorded answers of ${missing.join(", ")}`);
    for (const [title, { value }] of this.#agreed)
      if (!got.has(title) && value.startsWith("event ")) this.#rules.giveBack(value);
  }

  #hasOtherInput({ title, input }: { readonly title: string; readonly input: number | undefined }): boolean {
    const agreed = this.#agreed.get(title);
    return agreed !== undefined && agreed.input !== input;
  }

  /** Drops an answer, and those recorded later that the function hasn't got. */
  #dropLater(title: string, got: ReadonlySet<string>): void {
    const [first, ...others] = this.#laterThan(title, got);
    if (first !== undefined) this.#drop(first);
    this.#mayBeDropped.push(...others);
  }

  /** This answer with those recorded later. Once the code has changed, functions may have got them in another order. */
  #laterThan(title: string, got: ReadonlySet<string>): readonly ReadonlySet<string>[] {
    const titles = [...this.#agreed.keys()];
    const left = titles.filter((other) => !got.has(other) && other !== title);
    if (this.#rules.isCodeChanged()) return [title, ...left].map((other) => new Set([other]));
    return [new Set([title, ...left.filter((other) => titles.indexOf(other) > titles.indexOf(title))])];
  }

  /** Whether an earlier life may have dropped the answer. If so, it has dropped others with it. */
  #dropWith(title: string): boolean {
    const dropped = this.#mayBeDropped.filter((titles) => titles.has(title));
    this.#mayBeDropped = this.#mayBeDropped.filter((titles) => !titles.has(title));
    for (const titles of dropped) this.#drop(titles);
    return dropped.length > 0;
  }

  #drop(titles: ReadonlySet<string>): void {
    for (const title of titles) {
      const answer = this.#agreed.get(title);
      if (answer?.value.startsWith("event ")) this.#rules.giveBack(answer.value);
      this.#agreed.delete(title);
    }
    // The function may make the calls after a dropped one later, or not at all.
    for (const order of this.#orders.values()) {
      const first = order.findIndex((title) => titles.has(title));
      if (first !== -1) order.splice(first);
    }
  }
}

/** What one life has noted of one task. */
interface Life {
  readonly lines: readonly Line[];
  readonly ended: "completed" | "failed" | "stopped" | undefined;
  /** Whether the next life had begun already, so that this one may not know what is recorded. */
  isLate(line: Line): boolean;
}

/** The lives of each task, and the results that were dropped between them, in their order. */
function livesIn(seen: readonly Seen[]): readonly (Life | Dropped | Stuck)[] {
  const numbers = new Map(seen.map((line, number) => [line, number]));
  const number = (line: Seen | undefined) => (line && numbers.get(line)) ?? Number.POSITIVE_INFINITY;
  const ends = new Map(seen.flatMap((line) => (line.is === "ended" ? [[lifeOf(line), line.how] as const] : [])));
  const lines = seen.filter((line) => "generation" in line && line.is !== "dropped");
  const lives = [...groupBy(lines, lifeOf).values()];
  const items = lives.map((own) => {
    const [first] = own;
    const next = lives.find(([other]) => other?.task === first?.task && number(other) > number(first))?.[0];
    const life = first && ends.get(lifeOf(first));
    return { first, item: { lines: own, ended: life, isLate: (line: Line) => number(line) > number(next) } };
  });
  const others = seen.flatMap((line) =>
    line.is === "dropped" || line.is === "stuck" ? [{ first: line, item: line }] : [],
  );
  return [...items, ...others].sort((a, b) => number(a.first) - number(b.first)).map(({ item }) => item);
}

function originOf(task: string): string {
  return task.replace(/(-fork-\d+)+/, "");
}

function lifeOf({ task, life }: Pick<SeenWhere, "task" | "life">): string {
  return `${task} ${life}`;
}

function keyOf({ task, generation, at }: Pick<SeenWhere, "task" | "generation" | "at">): string {
  return `${task} ${generation} ${at}`;
}

function groupBy<Item>(items: readonly Item[], key: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(key(item)) ?? [];
    groups.set(key(item), group);
    group.push(item);
  }
  return groups;
}
