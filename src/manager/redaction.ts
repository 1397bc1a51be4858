import { decodeJson, encodeJson } from "../codec/json.js";
import {
  ANY_DEPTH,
  ANY_STEP,
  followPattern,
  type PathPattern,
  RedactedPaths,
  withoutMessage,
} from "../codec/redacted-paths.js";
import { checkText } from "../contract/arguments.js";
import { type CheckpointFailure, toFailure } from "../contract/checkpoint.js";
import { isError } from "../contract/errors.js";
import { checkOptions } from "./check-options.js";

/** The option `redact`: secrets that are never stored. */
export interface RedactOptions {
  /**
   * Paths to secrets. A path begins with the value that it leads into:
   *
   * - `**.token`: into all of these values except the label, at any depth;
   * - `state.apiKey`, `state.users[*].token`, `state["two words"]`;
   * - `input.token`, `result.token`: a run's input and its result;
   * - `step.model.token`: the results, chunks and errors of the step `model`, and the values of events with that name;
   * - `metadata.*.password`, `label`, `error`, `error.message`.
   *
   * `.name` and `["name"]` lead to a property, or to the value of a Map's key. `[3]` leads to an item. `*` and `[*]`
   * match any one of these, `**` any number of them, even none. If a path leads to a Set's items, the whole Set is
   * redacted. Keys are never redacted.
   */
  readonly paths: readonly string[];
  /** The text to store instead. Default `[redacted]`. */
  readonly censor?: string | undefined;
}

const DEFAULT_CENSOR = "[redacted]";
const FORMS =
  "**.token, state.apiKey, state.users[*].token, metadata.*.password, step.model.token, input.token, result.token, label, error, error.message";
const VALUES: readonly string[] = ["state", "metadata", "step", "input", "result"];
/** A path that begins with this leads into every value. */
const ALL_VALUES = "**";
const ERROR_FIELDS = ["message", "name", "code", "stack"] as const;
/** A path may lead to the `cause` of a step's error, though a checkpoint's error has none. */
const ERROR_STEPS: readonly string[] = [...ERROR_FIELDS, "cause"];
const STEP = /\.(\*\*?|[^\s.[\]"'*]+)|\[(\*|\d+|"(?:[^"\\]|\\.)*")\]/gy;

/** The parsed option `redact`: the paths into each kind of stored value. */
export class Redaction {
  readonly state: RedactedPaths | undefined;
  readonly metadata: RedactedPaths | undefined;
  readonly ofRun: { readonly input: RedactedPaths | undefined; readonly result: RedactedPaths | undefined };
  /** Paths that begin with the name of a step or an event. */
  readonly #steps: readonly PathPattern[];
  readonly #error: readonly PathPattern[];
  readonly #errorFields: RedactedPaths | undefined;
  readonly #isWholeError: boolean;
  readonly #isLabel: boolean;
  readonly #censor: string;

  constructor(options: RedactOptions) {
    checkOptions("RedactOptions", options, { paths: true, censor: checkText });
    const { paths, censor = DEFAULT_CENSOR } = options;
    if (!Array.isArray(paths)) throw new TypeError(`RedactOptions.paths must be an array of paths, such as ${FORMS}.`);
    const parsed = paths.map(parsePath);
    const patternsUnder = (root: string) =>
      parsed.filter((path) => path.root === root || path.root === ALL_VALUES).map(({ steps }) => steps);
    const under = (root: string) => redactedPaths(patternsUnder(root), censor);
    this.#censor = censor;
    this.state = under("state");
    this.metadata = under("metadata");
    this.ofRun = { input: under("input"), result: under("result") };
    this.#steps = patternsUnder("step");
    this.#error = patternsUnder("error").filter((steps) => steps.length > 0);
    this.#errorFields = redactedPaths(this.#error, censor);
    this.#isWholeError = parsed.some(({ root, steps }) => root === "error" && steps.length === 0);
    this.#isLabel = parsed.some(({ root }) => root === "label");
  }

  /**
   * Returns the paths for the results and chunks of a step, and for the values of events.
   *
   * @param step - The name of the step or the event.
   */
  result(step: string): RedactedPaths | undefined {
    return redactedPaths(this.#findPatterns(step), this.#censor);
  }

  /** Returns the paths for what a step throws. */
  thrown(step: string): RedactedPaths | undefined {
    return redactedPaths([...this.#error, ...this.#findPatterns(step)], this.#censor);
  }

  /** Returns the error. If whole errors are redacted, returns an error without details instead. */
  error(thrown: unknown): unknown {
    return this.#isWholeError ? Object.assign(new Error(this.#censor), { stack: this.#censor }) : thrown;
  }

  #findPatterns(step: string): readonly PathPattern[] {
    return this.#steps.flatMap((pattern) => followPattern(pattern, step));
  }

  label(label: string): string {
    return this.#isLabel ? this.#censor : label;
  }

  /** Returns a thrown value as plain data, without its secrets. */
  failure(thrown: unknown): CheckpointFailure {
    const failure = toFailure(this.#withoutSecrets(thrown));
    if (this.#isWholeError) return { message: this.#censor };
    const covered = ERROR_FIELDS.filter((field) => failure[field] !== undefined && this.#errorFields?.covers([field]));
    if (covered.length === 0) return failure;
    const censored = Object.fromEntries(covered.map((field) => [field, this.#censor]));
    // A stack begins with the name and the message. If these are redacted, they must not stay in the stack.
    const told = [failure.message, failure.name].filter((_, at) => covered.includes(at === 0 ? "message" : "name"));
    const stack = told.reduce((text, part) => withoutMessage(text, part ?? "", this.#censor), failure.stack);
    return { ...failure, ...(stack === undefined ? undefined : { stack }), ...censored };
  }

  /** If a thrown object isn't an error, its JSON becomes the message. So its secrets are replaced first. */
  #withoutSecrets(thrown: unknown): unknown {
    if (typeof thrown !== "object" || isError(thrown) || this.#errorFields === undefined) return thrown;
    try {
      const { encoding, text } = encodeJson(thrown, Number.POSITIVE_INFINITY, "An error", this.#errorFields, true);
      return decodeJson(encoding, text, "An error");
    } catch {
      return this.#censor;
    }
  }
}

function redactedPaths(patterns: readonly PathPattern[], censor: string): RedactedPaths | undefined {
  return patterns.length === 0 ? undefined : new RedactedPaths(patterns, censor);
}

function parsePath(path: unknown): { readonly root: string; readonly steps: PathPattern } {
  if (typeof path !== "string") throw new TypeError(`A path to redact must be text, such as ${FORMS}.`);
  const [root = ""] = /^(\w+|\*\*)/.exec(path) ?? [];
  const steps: PathPattern[number][] = root === ALL_VALUES ? [ANY_DEPTH] : [];
  let at = root.length;
  for (const [text, name, bracketed = ""] of path.slice(at).matchAll(STEP)) {
    steps.push(parseStep(name ?? bracketed, path));
    at += text.length;
  }
  if (at < path.length) throw misspelled(path, `it is misspelled at ${JSON.stringify(path.slice(at))}`);
  if (steps.at(-1) === ANY_DEPTH) throw misspelled(path, "a name must follow `**`");
  const isValue = (VALUES.includes(root) || root === ALL_VALUES) && steps.length > 0;
  const isLabel = root === "label" && steps.length === 0;
  const isErrorPart =
    steps.length <= 1 &&
    steps.every((step) => step === ANY_STEP || (typeof step === "string" && ERROR_STEPS.includes(step)));
  if (isValue || isLabel || (root === "error" && isErrorPart)) return { root, steps };
  throw misspelled(path, "nothing is stored at this path that can be redacted");
}

function parseStep(text: string, path: string): PathPattern[number] {
  if (text === "**") return ANY_DEPTH;
  if (!text.startsWith('"')) return text === "*" ? ANY_STEP : text;
  try {
    return String(JSON.parse(text));
  } catch {
    throw misspelled(path, `it is misspelled at ${text}`);
  }
}

function misspelled(path: string, where: string): TypeError {
  return new TypeError(
    `${JSON.stringify(path)} isn't a path to redact: ${where}. Write paths like ${FORMS}. The fields of an error are ${ERROR_FIELDS.join(", ")}.`,
  );
}
