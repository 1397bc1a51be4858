/** The findings of a rehearsal. */
export interface Rehearsal<Result = unknown> {
  /** The result of the undisturbed run; `undefined` if a value can't be stored. */
  readonly result: Result | undefined;
  /** How many steps the undisturbed run had. */
  readonly steps: number;
  /** At how many places the run was stopped and resumed. */
  readonly stops: number;
  /** Empty if the run comes out the same wherever it is stopped. */
  readonly problems: readonly RehearsalProblem[];
  /**
   * Steps whose functions began again after a stop: a kill between a step's end and its record can't be told from one within
   * the step. Hand the step's `key` to what must not happen twice, or use `atMostOnce`.
   */
  readonly ranTwice: readonly StepThatRanTwice[];
  /** Steps with `atMostOnce` that a stop interrupted. What the function did then is not compared. */
  readonly interrupted: readonly InterruptedStep[];
  /** All that for people. */
  readonly text: string;
}

/** A difference between a run that was stopped and resumed, and the undisturbed one. */
export interface RehearsalProblem {
  /**
   * `different`: a step's result, a milestone or the run's result isn't that of the undisturbed run. `unstable`: a step's name
   * depends on chance, so the resumed run doesn't find its result. `failed`: the resumed run throws. `unstorable`: a value can't be stored.
   */
  readonly kind: "different" | "unstable" | "failed" | "unstorable";
  /** The first stop that shows it. */
  readonly stop: string;
  /** How many stops show it. */
  readonly stops: number;
  readonly message: string;
}

export interface StepThatRanTwice {
  /** `model 2`; from the second pass on with the pass: `model, pass 3`. */
  readonly step: string;
  /** After how many stops. */
  readonly stops: number;
  /** Its function asks for its `key`. */
  readonly usesKey: boolean;
}

export interface InterruptedStep {
  readonly step: string;
  /** After how many stops. */
  readonly stops: number;
  /** The function catches the StepInterruptedError each time; else the run fails with it. */
  readonly isCaught: boolean;
}

/** Where a rehearsed run was stopped. */
export interface StopPlace {
  readonly text: string;
}

interface Problem {
  readonly kind: RehearsalProblem["kind"];
  readonly message: string;
  /** The first one that shows it, and all. */
  readonly stop: StopPlace;
  readonly stops: Set<StopPlace>;
}

/** Gathers what the stops show: the same problem at several stops is one. */
export class Findings {
  readonly #problems = new Map<string, Problem>();
  readonly #unstable = new Set<string>();
  readonly #ranTwice = new Map<string, number>();
  readonly #interrupted = new Map<string, { stops: number; isCaught: boolean }>();

  /** @param what - The subject of the problem: a step, a milestone, the result. */
  add(kind: RehearsalProblem["kind"], what: string, stop: StopPlace, message: string): void {
    const known = this.#problems.get(`${kind} ${what}`);
    if (known) known.stops.add(stop);
    else this.#problems.set(`${kind} ${what}`, { kind, stop, stops: new Set([stop]), message: `${what} ${message}` });
  }

  /** Steps that are not in each run: all names that depend on chance are one problem. */
  addUnstable(steps: Iterable<string>, stop: StopPlace): void {
    for (const step of steps) {
      this.#unstable.add(step);
      this.add("unstable", "", stop, "");
    }
  }

  addInterrupted(step: string, isCaught: boolean): void {
    const known = this.#interrupted.get(step);
    this.#interrupted.set(step, { stops: (known?.stops ?? 0) + 1, isCaught: (known?.isCaught ?? true) && isCaught });
  }

  addRanTwice(steps: Iterable<string>): void {
    for (const step of steps) this.#ranTwice.set(step, (this.#ranTwice.get(step) ?? 0) + 1);
  }

  rehearsal<Result>(
    run: Pick<Rehearsal<Result>, "result" | "steps" | "stops">,
    usesKey: (step: string) => boolean,
  ): Rehearsal<Result> {
    const problems = [...this.#problems.values()].map(({ kind, stop, stops, message }) => ({
      ...{ kind, stop: stop.text, stops: stops.size },
      message: kind === "unstable" ? unstableText([...this.#unstable]) : message,
    }));
    const ranTwice = [...this.#ranTwice].map(([step, stops]) => ({ step, stops, usesKey: usesKey(step) }));
    const interrupted = [...this.#interrupted].map(([step, how]) => ({ step, ...how }));
    const found = { ...run, problems, ranTwice, interrupted };
    return { ...found, text: textOf(found) };
  }
}

function unstableText(steps: readonly string[]): string {
  const names = steps.slice(0, 3).map((step) => JSON.stringify(step));
  const more = steps.length > names.length ? ` and ${steps.length - names.length} more` : "";
  return `not every run has the step ${names.join(", ")}${more}: a name depends on chance, or on the world outside of steps`;
}

function textOf({ steps, stops, problems, ranTwice, interrupted }: Omit<Rehearsal, "text" | "result">): string {
  const verdict = problems.length === 0 ? "it comes out the same everywhere" : counted(problems.length, "problem");
  const lines = [
    `A run of ${counted(steps, "step")} was stopped at ${counted(stops, "place")} and resumed: ${verdict}.`,
  ];
  for (const { kind, stop, stops: shown, message } of problems) {
    lines.push(
      `  ${kind}: ${message} (stopped ${stop}${shown > 1 ? `, and at ${counted(shown - 1, "more place")}` : ""})`,
    );
  }
  if (problems.some(({ kind }) => kind === "different")) {
    lines.push("Results that come from a clock or from chance differ in each run: let the rehearsal give both.");
  }
  if (interrupted.length > 0) {
    lines.push("Steps with `atMostOnce` that a stop interrupted; the rest of such a run isn't compared:");
    const width = Math.max(...interrupted.map(({ step }) => step.length));
    for (const { step, stops: after, isCaught } of interrupted) {
      const then = isCaught ? "the function catches it" : "the run ends with a StepInterruptedError";
      lines.push(`  ${step.padEnd(width)}  after ${counted(after, "stop")}: ${then}`);
    }
  }
  if (ranTwice.length > 0) {
    lines.push("Steps that ran again after a stop. Hand `key` to what must not happen twice, or use `atMostOnce`:");
    const width = Math.max(...ranTwice.map(({ step }) => step.length));
    for (const { step, stops: after, usesKey } of ranTwice) {
      lines.push(`  ${step.padEnd(width)}  after ${counted(after, "stop")}${usesKey ? ", uses its key" : ""}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
