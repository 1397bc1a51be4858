import { findKind } from "../codec/kinds.js";
import type { Logger } from "./logger.js";
import { decodeWithSchema, type StateSchema } from "./schema.js";

const SHOWN = 10;

/**
 * Warns once if the schema drops keys: `z.object({ a })` loads a saved `{ a: 1, retries: 7 }` as `{ a: 1 }`. It loads
 * the stored form through the schema and compares only the keys with the state's keys, since codecs may change values.
 *
 * A check costs as much as a load and a walk through the state. So only two kinds of states are checked: states whose
 * top-level keys have changed since the last check, and those of a manager's 1st, 2nd, 4th, 8th … save.
 */
export class DroppedKeys {
  readonly #schema: StateSchema;
  readonly #logger: Logger;
  #saves = 0;
  #lastKeys = "";
  #isDone = false;

  constructor(schema: StateSchema, logger: Logger) {
    this.#schema = schema;
    this.#logger = logger;
  }

  /** Checks a state that the schema has accepted, and its stored form. Never throws. */
  check(taskId: string, state: unknown, stored: unknown): void {
    if (this.#isDone) return;
    this.#saves += 1;
    const keys = isPlain(state) ? Object.keys(state).join("\n") : "";
    const isPowerOfTwo = Number.isInteger(Math.log2(this.#saves));
    if (!isPowerOfTwo && keys === this.#lastKeys) return;
    this.#lastKeys = keys;
    const paths = new Set<string>();
    try {
      collect(state, decodeWithSchema(this.#schema, stored, ""), "$", paths);
    } catch {
      // The schema refuses its own encoding, or the state nests too deep. Loading the checkpoint will also throw, so no
      // warning is needed.
      return;
    }
    if (paths.size === 0) return;
    this.#isDone = true;
    const dropped = [...paths].slice(0, SHOWN);
    const more = paths.size > dropped.length ? ` and ${paths.size - dropped.length} more` : "";
    this.#logger.warn(
      { taskId, keys: dropped },
      `The schema drops keys of a saved state, so they are missing when it is loaded: ${dropped.join(", ")}${more}. ` +
        "Add them to the schema, or make the schema keep or refuse unknown keys",
    );
  }
}

/**
 * Adds the paths of keys that are in plain objects of `state` but not in the same place of `loaded`. In a path, `[]`
 * stands for any item.
 */
function collect(state: unknown, loaded: unknown, path: string, paths: Set<string>): void {
  if (state === loaded) return;
  if (Array.isArray(state) && Array.isArray(loaded)) {
    // If the lengths differ, the schema has changed the list, and items can't be compared.
    if (state.length === loaded.length) {
      for (const [at, item] of state.entries()) collect(item, loaded[at], `${path}[]`, paths);
    }
  } else if (isPlain(state) && isPlain(loaded)) {
    for (const [key, value] of Object.entries(state)) {
      const to = /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
      if (Object.hasOwn(loaded, key)) collect(value, loaded[key], to, paths);
      else if (value !== undefined) paths.add(to);
    }
  }
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: object | null = Object.getPrototypeOf(value);
  return prototype === null || findKind(prototype) === "Object";
}
