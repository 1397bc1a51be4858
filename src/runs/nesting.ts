import { AsyncLocalStorage } from "node:async_hooks";

/** A call under way, with the call from within which it was made. */
interface Call {
  readonly of: object;
  readonly name: string;
  readonly signal: AbortSignal;
  readonly outer: Call | undefined;
}

const CALLS = new AsyncLocalStorage<Call>();

/**
 * Runs `call`. Within it, the functions below find it. @param of - The object that makes the call: for a step, its
 * pass.
 */
export function within<Result>(of: object, name: string, signal: AbortSignal, call: () => Result): Result {
  return CALLS.run({ of, name, signal, outer: CALLS.getStore() }, call);
}

export function isEnclosed(of: object, name: string): boolean {
  let call = CALLS.getStore();
  while (call !== undefined && !(call.of === of && call.name === name)) call = call.outer;
  return call !== undefined;
}

/** Whether the current code is called from within a run. */
export function isWithin(): boolean {
  return CALLS.getStore() !== undefined;
}

export function enclosingSignal(): AbortSignal | undefined {
  return CALLS.getStore()?.signal;
}

/** The name of the innermost call of the object `of` around the current code; `undefined` if there is none. */
export function enclosing(of: object): string | undefined {
  let call = CALLS.getStore();
  while (call !== undefined && call.of !== of) call = call.outer;
  return call?.name;
}
