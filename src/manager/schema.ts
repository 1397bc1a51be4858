import { formatPath } from "../codec/path.js";
import { isPromiseLike } from "../contract/built-ins.js";
import { isError, StateInvalidError } from "../contract/errors.js";
import type { StandardSchemaV1 } from "./standard-schema.js";

/**
 * A manager's `schema`: any synchronous Standard Schema (Zod, Valibot, ArkType, …). The program works with the schema's
 * `Output`, and its `Input` is stored.
 *
 * @see https://standardschema.dev
 */
export type StateSchema<Input = unknown, Output = Input> = StandardSchemaV1<Input, Output>;

/** The type of loaded states: the schema's output. */
export type StateOf<Schema extends StateSchema> = StandardSchemaV1.InferOutput<Schema>;

/**
 * The type of states to save. If the schema can encode (Zod), it is the output. If not, it is the input, which is
 * stored unchanged.
 */
export type SavedStateOf<Schema extends StateSchema> = Schema extends { safeEncode: (...args: never[]) => unknown }
  ? StandardSchemaV1.InferOutput<Schema>
  : StandardSchemaV1.InferInput<Schema>;

/** A schema that can encode its output, so that a program can save a loaded state. */
export type EncodingSchema<State> = StateSchema<unknown, State> & { safeEncode(...args: never[]): unknown };

/** A Zod schema. It is recognised by this method, since the core doesn't import Zod. */
interface ZodLike {
  safeEncode(
    state: unknown,
  ): { success: true; data: unknown } | { success: false; error: { issues: readonly StandardSchemaV1.Issue[] } };
}

/**
 * Returns the stored form of a state: encoded by the schema's codecs, or the state itself if the schema can't encode.
 *
 * @throws {StateInvalidError} The schema refuses the state.
 * @throws {TypeError} The schema works asynchronously, or only in one direction.
 */
export function encodeWithSchema(schema: StateSchema, state: unknown, what: string): unknown {
  if (!canEncode(schema)) {
    decodeWithSchema(schema, state, what);
    return state;
  }
  const result = callSchema(what, () => schema.safeEncode(state));
  if (result.success) return result.data;
  throw invalid(what, result.error.issues);
}

/**
 * Decodes a stored form.
 *
 * @throws {StateInvalidError} The schema refuses the stored form.
 * @throws {TypeError} The schema works asynchronously.
 */
export function decodeWithSchema<Schema extends StateSchema>(
  schema: Schema,
  stored: unknown,
  what: string,
): StateOf<Schema> {
  const result = callSchema(what, () => schema["~standard"].validate(stored));
  if (isPromiseLike(result)) {
    // Prevents an unhandled rejection.
    result.then(undefined, () => undefined);
    throw asynchronous(what);
  }
  if (result.issues !== undefined) throw invalid(what, result.issues);
  return result.value as StateOf<Schema>;
}

function canEncode(schema: StateSchema): schema is StateSchema & ZodLike {
  return "safeEncode" in schema && typeof schema.safeEncode === "function";
}

export function checkSchema(what: string, schema: StateSchema | undefined): void {
  if (schema === undefined || typeof schema?.["~standard"]?.validate === "function") return;
  throw new TypeError(`${what} must be a Standard Schema: Zod 3.24 or newer, Valibot or ArkType.`);
}

/** Explains Zod's errors for asynchronous schemas and one-way transforms. */
function callSchema<Result>(what: string, call: () => Result): Result {
  try {
    return call();
  } catch (cause) {
    const name = isError(cause) ? cause.constructor.name : "";
    if (name === "$ZodAsyncError") {
      throw asynchronous(what, cause);
    }
    if (name === "$ZodEncodeError") {
      throw new TypeError(
        `${what}: it has a one-way transform, so the saved value could not be loaded again. Use a codec (z.codec) there.`,
        { cause },
      );
    }
    throw cause;
  }
}

function asynchronous(what: string, cause?: unknown): TypeError {
  return new TypeError(`${what}: it validates asynchronously, but checkpoints need a synchronous schema.`, { cause });
}

function invalid(what: string, issues: readonly StandardSchemaV1.Issue[]): StateInvalidError {
  const found: StateInvalidError["issues"] = issues.map(({ message, path = [] }) => ({
    message,
    path: formatPath(path.map((segment) => (typeof segment === "object" ? segment.key : segment))),
  }));
  const first = found
    .slice(0, 3)
    .map(({ message, path }) => `${path}: ${message}`)
    .join("; ");
  const more = found.length > 3 ? `; and ${found.length - 3} more` : "";
  return new StateInvalidError(`${what}: ${first}${more}`, found);
}

/** Returns the JSON Schema of a schema that provides one. */
export function describeSchema(schema: StateSchema | undefined): unknown {
  const standard: unknown = schema?.["~standard"];
  if (typeof standard !== "object" || standard === null || !("jsonSchema" in standard)) return undefined;
  const { jsonSchema } = standard;
  if (typeof jsonSchema !== "object" || jsonSchema === null || !("input" in jsonSchema)) return undefined;
  if (typeof jsonSchema.input !== "function") return undefined;
  try {
    return jsonSchema.input({ target: "draft-2020-12" });
  } catch {
    // A schema may have parts that JSON Schema lacks. Then the question is shown without a JSON Schema.
    return undefined;
  }
}
