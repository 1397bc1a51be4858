import { AsyncLocalStorage } from "node:async_hooks";

/** A call under way, and the call around it. */
interface Call {
  readonly of: object;
  readonly name: string;
  readonly signal: AbortSignal;
  readonly outer: Call | undefined;
}

const CALLS = new AsyncLocalStorage<Call>();

/**
 * Runs `call`, so that the functions below can tell what is called from within it. @param of - The object that made the
 * call, such as a pass for its steps.
 */
export function within<Result>(of: object, name: string, signal: AbortSignal, call: () => Result): Result {
  return CALLS.run({ of, name, signal, outer: CALLS.getStore() }, call);
}

export function isEnclosed(of: object, name: string): boolean {
  let call = CALLS.getStore();
  while (call !== undefined && !(call.of === of && call.name === name)) call = call.outer;
  return call !== undefined;
}

export function enclosingSignal(): AbortSignal | undefined {
  return CALLS.getStore()?.signal;
}

/** The name of the innermost call of `of` around the current code; `undefined` if there is none. */
export function enclosing(of: object): string | undefined {
  let call = CALLS.getStore();
  while (call !== undefined && call.of !== of) call = call.outer;
  return call?.name;
}
