import { constants } from "node:buffer";
import { inspect, types } from "node:util";
import { isError, PayloadTooLargeError, StateNotSerializableError } from "../contract/errors.js";
import { adviceFor, describeInstance, findErrorKind, findKind, isEnumerable } from "./kinds.js";
import { formatPath, type PathStep, shortPath } from "./path.js";
import type { RedactedPaths } from "./redacted-paths.js";
import { type ForeignClasses, type JsonRecord, LEVELS_OF_A_TAG, TAG, TAGS, type Writing } from "./tags.js";
import { nameOwner, type ValueOwner } from "./transforms.js";

/**
 * The deepest nesting of the written JSON. It leaves a margin: `JSON.stringify` and other recursive programs can handle
 * several times this depth.
 */
const MAX_NESTING = 1000;

/** The options of an {@link Encoder}. */
export interface EncoderOptions {
  /** The text's size limit, in UTF-8. */
  readonly maxBytes: number;
  /** The checkpoint, for messages. */
  readonly owner?: ValueOwner | undefined;
  /** Secrets. They are neither stored nor read: the censor is stored instead. */
  readonly redacted?: RedactedPaths | undefined;
  /** Refuses values that need a tag. */
  readonly isPlain?: boolean | undefined;
  /** Leaves out properties that are `undefined`, as `JSON.stringify` does. */
  readonly leavesOutUndefined?: boolean | undefined;
  /** Leaves out properties that aren't enumerable, as `JSON.stringify` does. */
  readonly leavesOutHidden?: boolean | undefined;
  /** Classes of another library, whose instances are stored without a tag. */
  readonly foreign?: ForeignClasses | undefined;
  /** The subject of messages, instead of the owner: `The value of channel "a"`. */
  readonly subject?: string | undefined;
}

/**
 * Encodes one value in one walk. It copies the value to plain data, writes tags for values that JSON can't store, and
 * calls `JSON.stringify`. It reads each property only once, so the value that it checks is the value that it writes,
 * even if a getter or a Proxy would return something else the next time.
 */
export class Encoder implements Writing {
  readonly #maxBytes: number;
  readonly #options: EncoderOptions;
  readonly #redacted: RedactedPaths | undefined;
  #leavesOutUndefined: boolean;
  /** Whether {@link encode} wrote a tag. */
  hasTags = false;
  isRedacted = false;
  /** The objects from the root to the current value, and in `#steps` the step taken from each. */
  readonly #ancestors: object[] = [];
  readonly #steps: PathStep[] = [];
  /** The number of arrays and objects around the current place in the JSON. */
  #levels = 0;
  /** The JSON has at least this many characters. */
  #characters = 0;
  /** The error that this walk itself threw. Any other error comes from a getter, a Proxy or the engine. */
  #thrown: Error | undefined;

  constructor(options: EncoderOptions) {
    this.#options = options;
    this.#maxBytes = Math.min(options.maxBytes, constants.MAX_STRING_LENGTH);
    this.#redacted = options.redacted;
    this.#leavesOutUndefined = options.leavesOutUndefined ?? false;
  }

  encode(value: unknown): string {
    try {
      const text = JSON.stringify(this.#value(value));
      // A UTF-16 unit takes at most three bytes, so the bytes of most texts needn't be counted.
      if (text.length * 3 > this.#maxBytes && Buffer.byteLength(text) > this.#maxBytes) throw this.#tooLarge();
      return text;
    } catch (error) {
      throw error === this.#thrown ? error : this.#failure(error);
    }
  }

  child(value: unknown, step: PathStep): unknown {
    this.#steps[this.#steps.length - 1] = step;
    return this.#value(value);
  }

  members(value: object, keys: readonly string[]): JsonRecord {
    // Each property takes two quotes, a colon, a value and a comma, unless it is left out.
    this.reserve(this.#leavesOutUndefined ? 2 : keys.length * 5);
    const steps = this.#steps;
    const last = steps.length - 1;
    const properties = value as Readonly<JsonRecord>;
    const copy: JsonRecord = {};
    for (const key of keys) {
      // The step is set before the property is read, so that the error of a getter names its path.
      steps[last] = key;
      const property = properties[key];
      if (property === undefined && this.#leavesOutUndefined) continue;
      const json = this.#value(property);
      // Assigning to `__proto__` would set the prototype.
      if (key === "__proto__") Object.defineProperty(copy, key, { value: json, enumerable: true });
      else copy[key] = json;
    }
    return copy;
  }

  plainObject(value: object): JsonRecord {
    return this.members(value, this.#listKeys(value));
  }

  withoutUndefined<Result>(write: () => Result): Result {
    const before = this.#leavesOutUndefined;
    this.#leavesOutUndefined = true;
    const result = write();
    this.#leavesOutUndefined = before;
    return result;
  }

  reserve(characters: number): void {
    this.#characters += characters;
    // Each character takes at least one byte, so the text is already too long.
    if (this.#characters > this.#maxBytes) throw this.#tooLarge();
  }

  refuse(what: string, advice: string, step?: PathStep): never {
    throw this.#refusal(what, advice, step === undefined ? this.#steps : [...this.#steps.slice(0, -1), step]);
  }

  refuseInstance(value: unknown, isStorable = true): never {
    const instance: object = Object(value);
    return this.refuse(describeInstance(instance, isStorable), adviceFor(instance, this.#options.foreign?.advice));
  }

  #value(value: unknown): unknown {
    if (this.#redacted?.covers(this.#steps)) return this.#censored(this.#redacted);
    switch (typeof value) {
      case "string":
        this.reserve(value.length);
        return value;
      case "number":
        return isPlainNumber(value) ? value : this.#tagged("number", value);
      case "boolean":
        return value;
      case "object":
        return value === null ? null : this.#object(value);
      case "undefined":
        return this.#tagged("undefined", value);
      case "bigint":
        return this.#tagged("BigInt", value);
      case "function":
        return this.refuse("a function", "Leave it out, or save its name.");
      case "symbol":
        return this.refuse("a symbol", "Save a string in its place.");
    }
  }

  #object(value: object): unknown {
    const cycleAt = this.#ancestors.indexOf(value);
    if (cycleAt !== -1) {
      const path = shortPath(formatPath(this.#steps.slice(0, cycleAt)));
      this.refuse(`a cycle: it is the same object as ${path}`, "Save an id in its place.");
    }
    if (this.#levels >= MAX_NESTING) {
      this.refuse(
        `nested more than ${MAX_NESTING} levels deep (a Map, a Set or an Error counts as ${LEVELS_OF_A_TAG} levels)`,
        "Save a long linked list as an array.",
      );
    }
    // A revoked Proxy throws here, before the path is extended, so the error names the Proxy.
    const prototype: object | null = Object.getPrototypeOf(value);
    const isArray = Array.isArray(value);
    // Two redacted items of a Set would become the same item, so the whole Set is redacted.
    if (types.isSet(value) && this.#redacted?.coversItems(this.#steps)) return this.#censored(this.#redacted);

    this.#ancestors.push(value);
    this.#steps.push(undefined);
    this.#levels += 1;
    const json = isArray ? this.#array(value, prototype) : this.#record(value, prototype);
    this.#levels -= 1;
    this.#steps.pop();
    this.#ancestors.pop();
    return json;
  }

  #array(items: readonly unknown[], prototype: object | null): readonly unknown[] {
    if (findClass(prototype) !== "Array") this.refuseInstance(items);
    // Each item takes at least one character and a comma.
    this.reserve(items.length * 2);
    const steps = this.#steps;
    const last = steps.length - 1;
    const copy: unknown[] = items.slice();
    let holes = 0;
    for (let index = 0; index < copy.length; index++) {
      steps[last] = index;
      const item = copy[index];
      if (item === undefined && !Object.hasOwn(copy, index)) {
        holes += 1;
        copy[index] = this.#tagged("hole", item);
      } else if (!isPlainNumber(item) || this.#redacted !== undefined) copy[index] = this.#value(item);
    }
    // Non-enumerable properties aren't checked, because listing all names would take as long as copying the items.
    const isBare = isLongAndBare(items) || Object.keys(items).length === copy.length - holes;
    if (!isBare || Object.getOwnPropertySymbols(items).length > 0) {
      const extra = Reflect.ownKeys(items).find(
        (key) => typeof key === "symbol" || (key !== "length" && String(Number(key) >>> 0) !== key),
      );
      this.refuse("an extra property of an Array", "Save it outside the array.", extra);
    }
    return copy;
  }

  #record(value: object, prototype: object | null): unknown {
    const { isPlain, foreign } = this.#options;
    const kind = findClass(prototype);
    if (kind === "Object") {
      const keys = this.#listKeys(value);
      const isMarked = keys.includes(TAG) || (foreign !== undefined && keys.includes(foreign.key));
      return isMarked && !isPlain ? this.#tagged(kind, value) : this.members(value, keys);
    }
    const isTag = kind !== undefined && TAGS.has(kind);
    const written = isTag ? undefined : foreign?.write(value, this);
    if (written !== undefined) return written;
    this.#levels += LEVELS_OF_A_TAG - 1;
    const json = this.#tagged(isTag ? kind : findErrorKind(value) && "Error", value);
    this.#levels -= LEVELS_OF_A_TAG - 1;
    return json;
  }

  #tagged(tag: string | undefined, value: unknown): JsonRecord {
    const row = tag === undefined ? undefined : TAGS.get(tag);
    if (row === undefined) return this.refuseInstance(value, false);
    if (this.#options.isPlain) this.refuse(describeLoss(row.tag, value), PLAIN_ADVICE);
    this.hasTags = true;
    const stored = row.write(value, this);
    return stored === undefined ? { [TAG]: row.tag } : { [TAG]: row.tag, value: stored };
  }

  /** Returns an object's keys. Refuses the object if it has other properties, since they would be lost. */
  #listKeys(value: object): readonly string[] {
    const keys = Object.keys(value);
    const leavesOut = this.#options.leavesOutHidden;
    const names = leavesOut ? keys : Object.getOwnPropertyNames(value);
    if (names.length !== keys.length || Object.getOwnPropertySymbols(value).length > 0) {
      const hidden = Reflect.ownKeys(value).find((key) =>
        leavesOut
          ? typeof key === "symbol" && isEnumerable(value, key)
          : !keys.includes(String(key)) || typeof key === "symbol",
      );
      const what = typeof hidden === "symbol" ? "a property with a symbol as its key" : "a non-enumerable property";
      if (hidden !== undefined) this.refuse(what, "Save it as an ordinary property, or leave it out.", hidden);
    }
    return keys;
  }

  #censored({ censor }: RedactedPaths): string {
    this.isRedacted = true;
    this.reserve(censor.length);
    return censor;
  }

  /** The error for anything that a getter, a Proxy's trap or the engine threw. */
  #failure(cause: unknown): Error {
    if (isError(cause) && cause.message === "Invalid string length") return this.#tooLarge();
    const reason = isError(cause) ? cause.message : "something other than an Error was thrown";
    return this.#refusal(`not readable (${reason})`, "See the error's cause.", this.#steps, { cause });
  }

  #refusal(what: string, advice: string, steps: readonly PathStep[], options?: { readonly cause: unknown }): Error {
    const path = formatPath(steps);
    this.#thrown = new StateNotSerializableError(
      `${this.#options.subject ?? nameOwner(this.#options.owner)} can't be saved: ${shortPath(path)} is ${what}. Nothing was stored. ${advice}`,
      path,
      options,
    );
    return this.#thrown;
  }

  #tooLarge(): Error {
    const path = formatPath(this.#steps);
    const where = path === "$" ? undefined : `the limit was exceeded at ${shortPath(path)}`;
    this.#thrown = tooLarge(this.#options.owner, this.#maxBytes, where);
    return this.#thrown;
  }
}

/** Makes the error for a state whose JSON is longer than the limit, or than the longest text that V8 allows. */
export function tooLarge(owner: ValueOwner | undefined, maxBytes: number, where?: string): PayloadTooLargeError {
  const what = `${nameOwner(owner)} can't be saved: its encoded form has more than`;
  const note = where === undefined ? "" : ` (${where})`;
  return new PayloadTooLargeError(
    maxBytes < constants.MAX_STRING_LENGTH
      ? `${what} ${maxBytes} bytes${note}. Nothing was stored. Save less, or raise maxPayloadBytes.`
      : `${what} ${constants.MAX_STRING_LENGTH} bytes, the longest text that JavaScript can hold here (V8's limit)${note}. ` +
          "Nothing was stored, and no option raises this limit. Split the state: save its parts as separate tasks, or keep large data in files and save their paths.",
  );
}

const PLAIN_ADVICE =
  "This format is plain JSON, which would lose or change it: leave it out, or save it as a string, a number or an array.";

const LOSSES: Readonly<Record<string, string>> = {
  undefined: "undefined",
  hole: "an empty slot of an array",
  NullObject: "an object without a prototype",
};

function describeLoss(tag: string, value: unknown): string {
  if (tag === "number") return Object.is(value, -0) ? "-0" : String(value);
  return LOSSES[tag] ?? (/^[AEIO]/.test(tag) ? `an ${tag}` : `a ${tag}`);
}

/** {@link findKind}, with a fast path for the most frequent classes. */
function findClass(prototype: object | null): string | undefined {
  if (prototype === Object.prototype) return "Object";
  if (prototype === Array.prototype) return "Array";
  return prototype === null ? "NullObject" : findKind(prototype);
}

/**
 * Whether an array is long and has no properties besides its items. `inspect` finds extra properties quickly, through
 * the engine. Listing the keys of many numbers would take 30 times as long as writing the numbers. If the result is
 * false, the caller must list the keys.
 */
function isLongAndBare(items: readonly unknown[]): boolean {
  const quick = { maxArrayLength: 0, depth: 0, customInspect: false };
  return items.length >= 1000 && inspect(items, quick) === `[ ... ${items.length} more items ]`;
}

function isPlainNumber(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && !Object.is(value, -0);
}
