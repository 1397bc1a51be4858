import { AsyncLocalStorage } from "node:async_hooks";

/** A call that is under way, and the one that it is made in. */
interface Call {
  readonly of: object;
  readonly name: string;
  /** Aborts when the call must stop. */
  readonly signal: AbortSignal;
  readonly outer: Call | undefined;
}

const CALLS = new AsyncLocalStorage<Call>();

/** Makes a call, so that the functions below know what is called from within it. @param of - A pass for its steps, for example. */
export function within<Result>(of: object, name: string, signal: AbortSignal, call: () => Result): Result {
  return CALLS.run({ of, name, signal, outer: CALLS.getStore() }, call);
}

/** Whether this is called within the call of that object with that name. */
export function isEnclosed(of: object, name: string): boolean {
  let call = CALLS.getStore();
  while (call !== undefined && !(call.of === of && call.name === name)) call = call.outer;
  return call !== undefined;
}

/** The signal of the innermost call in which this is called. */
export function enclosingSignal(): AbortSignal | undefined {
  return CALLS.getStore()?.signal;
}

/** The name of the innermost call of that object in which this is called; `undefined` if there is none. */
export function enclosing(of: object): string | undefined {
  let call = CALLS.getStore();
  while (call !== undefined && call.of !== of) call = call.outer;
  return call?.name;
}
