import { Buffer } from "node:buffer";
import { hash } from "node:crypto";
import { decodeJson, encodeJson } from "../codec/json.js";
import { BUILT_IN_ERRORS, findErrorKind } from "../codec/kinds.js";
import type { RedactedPaths } from "../codec/redacted-paths.js";
import { errorsIn } from "../contract/built-ins.js";
import { failureOf } from "../contract/checkpoint.js";
import { isError, PayloadTooLargeError, StateNotSerializableError } from "../contract/errors.js";
import type { ResolvedOptions } from "../manager/options.js";
import { decodeWithSchema, encodeWithSchema, type StateSchema } from "../manager/schema.js";

/** The most causes of an error that are searched for storable parts. */
const MOST_CAUSES = 10;

/** Turns the values that steps return and throw into text and back. */
export class StepValues {
  readonly #taskId: string;
  readonly #options: Pick<ResolvedOptions, "maxPayloadBytes" | "redaction">;

  constructor(taskId: string, options: Pick<ResolvedOptions, "maxPayloadBytes" | "redaction">) {
    this.#taskId = taskId;
    this.#options = options;
  }

  textOfResult(name: string, title: string, result: unknown, schema: StateSchema | undefined): string {
    const subject = `The result of ${this.#stepName(title)}`;
    const stored =
      schema === undefined ? result : encodeWithSchema(schema, result, `The schema refuses ${lower(subject)}`);
    return this.#encoded(stored, subject, this.#options.redaction?.result(name));
  }

  result(title: string, text: string, schema: StateSchema | undefined): unknown {
    const subject = `The result of ${this.#stepName(title)}`;
    const stored = decodeJson("json-tagged", text, subject);
    return schema === undefined
      ? stored
      : decodeWithSchema(schema, stored, `The schema refuses the recorded result of ${this.#stepName(title)}`);
  }

  /** The text of a thrown value, without the parts that can't be stored. */
  textOfError(name: string, title: string, thrown: unknown): string {
    const { redaction } = this.#options;
    const encode = (value: unknown) =>
      this.#encoded(value, `The error of ${this.#stepName(title)}`, redaction?.thrown(name));
    const error = redaction === undefined ? thrown : redaction.error(thrown);
    try {
      return encode(error);
    } catch (problem) {
      if (!isUnstorable(problem)) throw problem;
      return encode(storablePart(error, (value) => isStorable(value, encode), MOST_CAUSES));
    }
  }

  error(title: string, text: string): unknown {
    return decodeJson("json-tagged", text, `The error of ${this.#stepName(title)}`);
  }

  /** The digest of a step's input. Equal values have the same digest. */
  digestOfInput(title: string, input: unknown): string {
    return hashOf(canonicalText(this.#encoded(input, `The input of ${this.#stepName(title)}`, undefined)));
  }

  textOf(what: "input" | "result", value: unknown): string {
    return this.#encoded(value, this.#nameOwner(what), this.#options.redaction?.ofRun[what]);
  }

  valueOf(what: "input" | "result", text: string): unknown {
    return decodeJson("json-tagged", text, this.#nameOwner(what));
  }

  #encoded(value: unknown, subject: string, redacted: RedactedPaths | undefined): string {
    return encodeJson(value, this.#options.maxPayloadBytes, subject, redacted, true).text;
  }

  #nameOwner(what: "input" | "result"): string {
    return `The ${what} of the run of task ${JSON.stringify(this.#taskId)}`;
  }

  #stepName(title: string): string {
    return `step ${JSON.stringify(title)} of task ${JSON.stringify(this.#taskId)}`;
  }
}

/** Makes the same text for equal values. It sorts keys and leaves out properties that are `undefined`. */
export function canonicalText(text: string): string {
  return JSON.stringify(JSON.parse(text), (_key, value: unknown) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const kept = Object.entries(value).filter(([, part]) => JSON.stringify(part) !== UNDEFINED);
    return Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

export function hashOf(text: string): string {
  return hash("sha256", text, "hex").slice(0, 32);
}

export const UNDEFINED = '{"$waymark":"undefined"}';

export function bytesOfText(text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(text);
}

/** An error without the properties that can't be stored. */
function storablePart(thrown: unknown, isStored: (value: unknown) => boolean, depth: number): unknown {
  const { message, name, stack, code } = failureOf(thrown);
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

function isStorable(value: unknown, encode: (value: unknown) => string): boolean {
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

function lower(sentence: string): string {
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}
