/**
 * One step of a path into a state: a property, an array index, or a way into a Map or a Set. `undefined` is a step not
 * taken yet, and is left out.
 */
export type PathStep = string | number | symbol | EntryStep | undefined;

/** A step into a Map or a Set, whose items are no properties. */
export interface EntryStep {
  readonly into: "get" | "keys" | "values";
  /** The key for `get`, else the position from 0. */
  readonly at: string | number;
}

/**
 * The path as people read it, `$` for the state itself. Properties are `.name`, or `["two words"]` where the name is no
 * plain identifier, or `[Symbol(name)]`; array items are `[3]`. Into a Map: `.get("alice")` is the value of a string key,
 * `.keys()[2]` and `.values()[2]` are the third entry's key and (under a key that is no string) value. Into a Set:
 * `.values()[2]`.
 */
export function formatPath(steps: readonly PathStep[]): string {
  let path = "$";
  for (const step of steps) path += formatStep(step);
  return path;
}

/** A path or another stored text for a message. A very long one is cut in its middle. */
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
