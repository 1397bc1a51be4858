/**
 * One step of a path into a state: a property, an array index, or a step into a Map or a Set. `undefined` is a step
 * that the walk hasn't taken yet; paths leave it out.
 */
export type PathStep = string | number | symbol | EntryStep | undefined;

/** A step into a Map or a Set. */
export interface EntryStep {
  readonly into: "get" | "keys" | "values";
  /** For `get`, the key. Otherwise the position, from 0. */
  readonly at: string | number;
}

/**
 * Formats a path for people; `$` is the state itself. Properties are `.name`, `["two words"]` if the name isn't an
 * identifier, or `[Symbol(name)]`. Array items are `[3]`. In a Map, `.get("alice")` is the value of a string key,
 * `.keys()[2]` is the third entry's key, and `.values()[2]` is the third entry's value if its key isn't a string. In a
 * Set, `.values()[2]` is the third item.
 */
export function formatPath(steps: readonly PathStep[]): string {
  return `$${steps.map(formatStep).join("")}`;
}

/** Shortens a path or another stored text for a message. A very long text is cut in the middle. */
export function shortPath(path: string): string {
  return path.length <= 240 ? path : `${path.slice(0, 120)} … ${path.slice(-100)}`;
}

function formatStep(step: PathStep): string {
  switch (typeof step) {
    case "string":
      return /^[A-Za-z_$][\w$]*$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
    case "number":
      return `[${step}]`;
    case "symbol":
      return `[${String(step)}]`;
    case "object":
      return step.into === "get" ? `.get(${JSON.stringify(step.at)})` : `.${step.into}()[${step.at}]`;
    default:
      return "";
  }
}
