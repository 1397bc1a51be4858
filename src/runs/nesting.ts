import { AsyncLocalStorage } from "node:async_hooks";

/** A step whose function is running, and the one that it runs in: of a parent's run. */
interface RunningStep {
  readonly pass: object;
  readonly title: string;
  readonly outer: RunningStep | undefined;
}

const RUNNING = new AsyncLocalStorage<RunningStep>();

/** Calls a step's function, so that {@link assertOutside} knows what is called from within it. */
export function within<Result>(pass: object, title: string, call: () => Result): Result {
  return RUNNING.run({ pass, title, outer: RUNNING.getStore() }, call);
}

/** @throws {TypeError} The call comes from within a step of this pass. */
export function assertOutside(pass: object, what: string): void {
  for (let step = RUNNING.getStore(); step !== undefined; step = step.outer) {
    if (step.pass !== pass) continue;
    throw new TypeError(
      `${what} was called within the step ${JSON.stringify(step.title)}: call it after the step, or begin a run of its own there ` +
        "with manager.run.",
    );
  }
}
