/** The findings of a rehearsal. */
export interface Rehearsal<Result = unknown> {
  /** The result of the undisturbed run; `undefined` if a value can't be stored. */
  readonly result: Result | undefined;
  /** How many steps the undisturbed run had. */
  readonly steps: number;
  /** The number of places where the run was stopped and resumed. */
  readonly stops: number;
  /** Empty if the run has the same results wherever it is stopped. */
  readonly problems: readonly RehearsalProblem[];
  /**
   * Steps whose functions ran again after a stop. If a kill comes after a step's end but before its record, the step
   * runs again. Pass the step's `key` to an action that must not happen twice, or use `atMostOnce`.
   */
  readonly ranTwice: readonly StepThatRanTwice[];
  /** Steps with `atMostOnce` that a stop interrupted. After such a step, the run isn't compared any further. */
  readonly interrupted: readonly InterruptedStep[];
  /** A report for people to read. */
  readonly text: string;
}

/** A difference between a stopped and resumed run and the undisturbed one. */
export interface RehearsalProblem {
  /**
   * `different`: a step's result, a milestone or the run's result differs from the undisturbed run. `unstable`: a
   * step's name depends on chance, so the resumed run doesn't find the step's result. `failed`: the resumed run throws.
   * `unstorable`: a value can't be stored.
   */
  readonly kind: "different" | "unstable" | "failed" | "unstorable";
  /** The first stop that shows the problem. */
  readonly stop: string;
  /** The number of stops that show the problem. */
  readonly stops: number;
  readonly message: string;
}

export interface StepThatRanTwice {
  /** Such as `model 2`. From the second turn, the turn is added: `model, turn 3`. */
  readonly step: string;
  /** The number of stops after which the step ran again. */
  readonly stops: number;
  /** Whether the step's function reads the step's `key`. */
  readonly usesKey: boolean;
}

export interface InterruptedStep {
  readonly step: string;
  /** The number of stops that interrupted the step. */
  readonly stops: number;
  /** Whether the function caught the StepInterruptedError each time. If false, at least one run failed with it. */
  readonly isCaught: boolean;
}

/** Where a rehearsed run was stopped. */
export interface StopPoint {
  readonly text: string;
}

interface Problem {
  readonly kind: RehearsalProblem["kind"];
  readonly message: string;
  /** The first stop that shows the problem. */
  readonly stop: StopPoint;
  /** All stops that show the problem. */
  readonly stops: Set<StopPoint>;
}

/** Collects the findings of all stops. A problem that several stops show counts once. */
export class Findings {
  readonly #problems = new Map<string, Problem>();
  readonly #unstable = new Set<string>();
  readonly #ranTwice = new Map<string, number>();
  readonly #interrupted = new Map<string, { stops: number; isCaught: boolean }>();

  /** @param what - The subject of the message: a step, a milestone or the result. */
  add(kind: RehearsalProblem["kind"], what: string, stop: StopPoint, message: string): void {
    const known = this.#problems.get(`${kind} ${what}`);
    if (known) known.stops.add(stop);
    else this.#problems.set(`${kind} ${what}`, { kind, stop, stops: new Set([stop]), message: `${what} ${message}` });
  }

  /** Records steps that only some runs have. All of them count as one problem. */
  addUnstable(steps: Iterable<string>, stop: StopPoint): void {
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
    return { ...found, text: formatText(found) };
  }
}

function unstableText(steps: readonly string[]): string {
  const names = steps.slice(0, 3).map((step) => JSON.stringify(step));
  const more = steps.length > names.length ? ` and ${steps.length - names.length} more` : "";
  return `not every run has the step ${names.join(", ")}${more}: a name depends on chance, or on something outside the steps`;
}

function formatText({ steps, stops, problems, ranTwice, interrupted }: Omit<Rehearsal, "text" | "result">): string {
  const verdict = problems.length === 0 ? "the result is always the same" : counted(problems.length, "problem");
  const lines = [
    `A run of ${counted(steps, "step")} was stopped at ${counted(stops, "place")} and resumed: ${verdict}.`,
  ];
  for (const { kind, stop, stops: shown, message } of problems) {
    lines.push(
      `  ${kind}: ${message} (stopped ${stop}${shown > 1 ? `, and at ${counted(shown - 1, "more place")}` : ""})`,
    );
  }
  if (problems.some(({ kind }) => kind === "different")) {
    lines.push(
      "Results that depend on a clock or on chance differ in each run: pass a fixed clock and seed in the rehearsal.",
    );
  }
  if (interrupted.length > 0) {
    lines.push("Steps with `atMostOnce` that a stop interrupted (the rest of such a run isn't compared):");
    const width = Math.max(...interrupted.map(({ step }) => step.length));
    for (const { step, stops: after, isCaught } of interrupted) {
      const then = isCaught
        ? "the function catches the StepInterruptedError"
        : "the run ends with a StepInterruptedError";
      lines.push(`  ${step.padEnd(width)}  after ${counted(after, "stop")}: ${then}`);
    }
  }
  if (ranTwice.length > 0) {
    lines.push("Steps that ran again after a stop. If one must not act twice, pass on its `key`, or use `atMostOnce`:");
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
