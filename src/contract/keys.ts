/**
 * The keys of a type, in the given order: `keysOf<SaveOptions>({ id: true, … })`. If a key is missing, the call doesn't
 * compile.
 */
export function keysOf<Type extends object>(keys: Readonly<Record<keyof Type, true>>): readonly (keyof Type)[] {
  // Object.keys returns plain strings.
  return Object.keys(keys) as (keyof Type)[];
}

/**
 * Refuses options that aren't an object or have an unknown key, so that a misspelled option isn't ignored.
 *
 * @param what - The name of the options, for the message: `SqliteAdapterOptions`.
 * @param form - The options that the caller probably means, for the message: `{ path: "x.db" }`.
 * @throws {TypeError} The options aren't an object, or have an unknown key, which the message names.
 */
export function checkKeys(what: string, options: unknown, known: readonly PropertyKey[], form?: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`${what} must be an object${form === undefined ? "" : `: ${form}`}.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new TypeError(`${what} has no "${unknown}". Known keys: ${known.join(", ")}.`);
}

/** The form of options with this key: `{ path: "x.db" }`. A value that was given instead of the options stands in it. */
export function formWith(key: string, given: unknown): string {
  const isValue = typeof given === "string" || typeof given === "number";
  return `{ ${key}: ${isValue ? JSON.stringify(given) : "…"} }`;
}
