import { hash } from "node:crypto";
import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { BUILT_IN_ERRORS, findErrorKind } from "../codec/kinds.js";
import type { RedactedPaths } from "../codec/redacted-paths.js";
import { errorsIn } from "../contract/built-ins.js";
import { toFailure } from "../contract/checkpoint.js";
import { isError, PayloadTooLargeError, StateNotSerializableError } from "../contract/errors.js";
import type { ResolvedOptions } from "../manager/options.js";
import { decodeWithSchema, encodeWithSchema, type StateSchema } from "../manager/schema.js";

/** How many causes of an error are searched for storable parts. */
const MAX_CAUSES = 10;

/** A step's name, and its title: `model`, `model 2`. */
interface StepName {
  readonly name: string;
  readonly title: string;
}

/** Encodes and decodes the values that steps and runs return and throw. */
export class StepValues {
  readonly #ofRun: string;
  readonly #ofTask: string;
  readonly #options: Pick<ResolvedOptions, "maxPayloadBytes" | "redaction">;

  constructor(taskId: string, options: Pick<ResolvedOptions, "maxPayloadBytes" | "redaction">) {
    this.#ofTask = `of task ${JSON.stringify(taskId)}`;
    this.#ofRun = `of the run ${this.#ofTask}`;
    this.#options = options;
  }

  encodeResult({ name, title }: StepName, result: unknown): EncodedState {
    return this.#encode(result, () => `The result ${this.#ofStep(title)}`, this.#options.redaction?.result(name));
  }

  encodeChunk({ name, title }: StepName, chunk: unknown): EncodedState {
    return this.#encode(chunk, () => `A chunk ${this.#ofStep(title)}`, this.#options.redaction?.result(name));
  }

  /** Encodes a result with the schema. @throws {StateInvalidError} The schema refuses the result. */
  checkResult(title: string, result: unknown, schema: StateSchema): unknown {
    return encodeWithSchema(schema, result, `The schema refuses the result ${this.#ofStep(title)}`);
  }

  /** Decodes a stored result. @throws {StateInvalidError} The schema refuses the result. */
  decodeStored(title: string, stored: unknown, schema: StateSchema | undefined): unknown {
    if (schema === undefined) return stored;
    return decodeWithSchema(schema, stored, `The schema refuses the recorded result ${this.#ofStep(title)}`);
  }

  /** Encodes a thrown value, without the parts that can't be stored. */
  encodeError({ name, title }: StepName, thrown: unknown): EncodedState {
    return this.#encodeThrown(`The error ${this.#ofStep(title)}`, thrown, this.#options.redaction?.thrown(name));
  }

  /** {@link encodeError} for the error that ended the run. */
  encodeRunError(thrown: unknown): EncodedState {
    return this.#encodeThrown(`The error ${this.#ofRun}`, thrown, this.#options.redaction?.thrown(""));
  }

  /** Returns the digest of a step's input. Equal values have the same digest. */
  digestInput(title: string, input: unknown): string {
    return hashText(canonicalText(this.#encode(input, `The input ${this.#ofStep(title)}`, undefined).text));
  }

  encodeRunValue(what: "input" | "result", value: unknown): EncodedState {
    return this.#encode(value, `The ${what} ${this.#ofRun}`, this.#options.redaction?.ofRun[what]);
  }

  /** Encodes a value that was stored before. */
  encodeStored(value: unknown): EncodedState {
    return this.#encode(value, `A value ${this.#ofRun}`, undefined);
  }

  decode({ encoding, text }: EncodedState): unknown {
    return decodeJson(encoding, text, `A value ${this.#ofRun}`);
  }

  #encodeThrown(subject: string, thrown: unknown, redacted: RedactedPaths | undefined): EncodedState {
    const encode = (value: unknown) => this.#encode(value, subject, redacted);
    const error = this.#options.redaction?.error(thrown) ?? thrown;
    try {
      return encode(error);
    } catch (problem) {
      if (!isUnstorable(problem)) throw problem;
      return encode(storablePart(error, (value) => isStorable(value, encode), MAX_CAUSES));
    }
  }

  #encode(value: unknown, subject: string | (() => string), redacted: RedactedPaths | undefined): EncodedState {
    return encodeJson(value, this.#options.maxPayloadBytes, subject, redacted, true);
  }

  #ofStep(title: string): string {
    return `of step ${JSON.stringify(title)} ${this.#ofTask}`;
  }
}

/** A field of a record whose value is already encoded. */
export type EncodedField = readonly [name: string, value: EncodedState];

/**
 * Joins the plain fields of a record with one that is already encoded. The encoded field mustn't be one of `fields`.
 */
export function joinFields(fields: object, encoded?: EncodedField): EncodedState {
  const text = JSON.stringify(fields);
  if (encoded === undefined) return { encoding: "json", text };
  const [name, value] = encoded;
  const before = text === "{}" ? "{" : `${text.slice(0, -1)},`;
  return { encoding: value.encoding, text: `${before}${JSON.stringify(name)}:${value.text}}` };
}

/** Makes the same text for equal values: sorts keys, and leaves out properties that are `undefined`. */
export function canonicalText(text: string): string {
  return JSON.stringify(JSON.parse(text), (_key, value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const kept = Object.entries(value).filter(([, part]) => JSON.stringify(part) !== UNDEFINED);
    return Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

export function hashText(text: string): string {
  return hash("sha256", text, "hex").slice(0, 32);
}

const UNDEFINED = '{"$waymark":"undefined"}';

/** The state of a run that has none. */
export const NO_STATE: EncodedState = { encoding: "json-tagged", text: UNDEFINED };

/** Makes an error that leaves out the properties of `thrown` that can't be stored. */
function storablePart(thrown: unknown, isStored: (value: unknown) => boolean, depth: number): unknown {
  const { message, name, stack, code } = toFailure(thrown);
  const kind = isError(thrown) ? findErrorKind(thrown) : undefined;
  const error = BUILT_IN_ERRORS.get(kind === "DOMException" ? "Error" : (kind ?? "Error"))?.() ?? new Error();
  const define = (key: string, value: unknown, enumerable: boolean) =>
    Object.defineProperty(error, key, { value, enumerable, writable: true, configurable: true });
  define("message", message, false);
  if (name !== undefined && name !== error.name) define("name", name, false);
  define("stack", stack, false);
  if (code !== undefined) define("code", code, true);
  if (!isError(thrown)) return error;
  if (thrown.cause !== undefined && depth > 0) {
    define("cause", isStored(thrown.cause) ? thrown.cause : storablePart(thrown.cause, isStored, depth - 1), false);
  }
  const errors = errorsIn(thrown);
  if (errors.length > 0 || kind === "AggregateError") {
    const kept = errors.map((each) => (isStored(each) || depth === 0 ? each : storablePart(each, isStored, depth - 1)));
    define("errors", kept.filter(isStored), false);
  }
  for (const key of Object.keys(thrown)) {
    const value: unknown = Reflect.get(thrown, key);
    if (isStored(value)) define(key, value, true);
  }
  return error;
}

function isStorable(value: unknown, encode: (value: unknown) => unknown): boolean {
  try {
    encode(value);
    return true;
  } catch (problem) {
    if (isUnstorable(problem)) return false;
    throw problem;
  }
}

function isUnstorable(problem: unknown): boolean {
  return problem instanceof StateNotSerializableError || problem instanceof PayloadTooLargeError;
}
