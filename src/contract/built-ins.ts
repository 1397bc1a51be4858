// Tests for built-in classes. `instanceof` fails for a value of another realm: Jest, for example, runs programs in a
// `node:vm` context, where Node's own files and databases still make their errors and bytes in the outer realm. For the
// classes that `types` of `node:util` covers (Date, Map, Set, RegExp, Uint8Array, …), use `types`.

/** Whether the value is an abort signal of this realm, of another realm, or of a library such as jsdom. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  if (typeof value !== "object" || value === null) return false;
  return "aborted" in value && "reason" in value && "throwIfAborted" in value && "addEventListener" in value;
}

/** Whether the value is a promise, even one of another realm or library. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/** Returns the errors that an AggregateError, or another error like it, gathers; empty for any other error. */
export function errorsIn(error: Error): readonly unknown[] {
  return "errors" in error && Array.isArray(error.errors) ? error.errors : [];
}
