import { constants } from "node:buffer";
import { types } from "node:util";
import { PayloadTooLargeError, StateNotSerializableError } from "../contract/errors.js";
import { adviceFor, describeInstance, hasInternals, kindOf, prototypeOf } from "./kinds.js";
import { formatPath, type PathStep, shortPath } from "./path.js";
import { lossOf, PLAIN_ADVICE } from "./plain-json.js";
import type { RedactedPaths } from "./redaction.js";
import { MAX_DECIMAL_DIGITS, MAX_NESTING, TAG } from "./tag-format.js";
import { type PayloadOwner, subjectOf } from "./transforms.js";
import { type TagSink, writeTagged } from "./write-tags.js";

/** From so many characters on, the text being built is settled. */
const SETTLE_AT = 32 * 1024;
const MAX_KNOWN_MEMBERS = 256;

/**
 * What an encoder does with what JSON has no place for: it writes a tag; or (`plain`) it leaves out a property that is
 * undefined, as `JSON.stringify` does, and refuses the rest.
 */
export type TagPolicy = "tags" | "plain";

/** How a state became text: `json` is what `JSON.stringify` gives, `json-tagged` is told in tag-format.ts. */
export type JsonEncoding = "json" | "json-tagged";

/** A state as text. */
export interface EncodedState {
  readonly encoding: JsonEncoding;
  /** Well-formed, and `JSON.stringify(JSON.parse(text)) === text`. */
  readonly text: string;
  /** Something of it was redacted. */
  readonly isRedacted?: true;
}

/**
 * One walk through one value, which finds what JSON would lose and writes the text at once: see `encodeJson`.
 *
 * A value's `level` is the number of arrays and objects around it in the text.
 */
export class Encoder implements TagSink {
  readonly #maxBytes: number;
  readonly #context: PayloadOwner | undefined;
  readonly #isPlain: boolean;
  readonly #redacted: RedactedPaths | undefined;
  /** The containers under way, outermost first, and the step that each of them is at. */
  readonly #ancestors: object[] = [];
  readonly #steps: PathStep[] = [];
  /** Keys as they are written: most states repeat a few of them in every record. */
  readonly #members = new Map<string, string>();
  /** The text so far: what is settled, then what is being built. */
  readonly #settled: string[] = [];
  #settledBytes = 0;
  #text = "";
  #tagged = false;
  #isRedacted = false;
  /** The error that this walk itself threw, as opposed to one that a getter or a Proxy threw. */
  #thrown: Error | undefined;

  constructor(
    maxBytes: number,
    context: PayloadOwner | undefined,
    { policy = "tags", redacted }: { readonly policy?: TagPolicy; readonly redacted?: RedactedPaths | undefined } = {},
  ) {
    this.#maxBytes = Math.min(maxBytes, constants.MAX_STRING_LENGTH);
    this.#context = context;
    this.#isPlain = policy === "plain";
    this.#redacted = redacted;
  }

  encode(value: unknown): EncodedState {
    try {
      this.#value(value, 0);
    } catch (error) {
      throw error === this.#thrown ? error : this.#failure(error);
    }
    this.#settle();
    const text = this.#settled.join("");
    return { encoding: this.#tagged ? "json-tagged" : "json", text, ...(this.#isRedacted && { isRedacted: true }) };
  }

  write(json: string): void {
    this.#text += json;
  }

  tag(tag: string, json?: string): void {
    this.#beginTag(tag, json);
    const text = json === undefined ? `{"${TAG}":"${tag}"}` : `{"${TAG}":"${tag}","value":${json}}`;
    this.reserve(text.length);
    this.#text += text;
  }

  open(tag: string): void {
    this.#beginTag(tag);
    this.#text += `{"${TAG}":"${tag}","value":`;
  }

  child(value: unknown, step: PathStep, level: number): void {
    this.#steps[this.#steps.length - 1] = step;
    this.#value(value, level);
  }

  record(value: object, keys: readonly string[], level: number): void {
    const last = this.#steps.length - 1;
    // Each key is one of its own properties: not even "__proto__" leads anywhere else.
    const properties = value as Readonly<Record<string, unknown>>;
    this.#text += "{";
    let isFirst = true;
    for (const key of keys) {
      // Before it is read: a getter that throws is named by its path.
      this.#steps[last] = key;
      const property = properties[key];
      if (property === undefined && this.#isPlain) continue;
      if (!isFirst) this.#text += ",";
      isFirst = false;
      this.#text += this.#member(key);
      this.#value(property, level + 1);
    }
    this.#text += "}";
  }

  reserve(units: number): void {
    // A UTF-16 unit takes a byte at least: what is too long in units is too large in bytes.
    if (this.#settledBytes + this.#text.length + units > this.#maxBytes) throw this.#tooLarge();
  }

  censorOf(step: PathStep): string | undefined {
    return this.#redacted?.covers([...this.#steps.slice(0, -1), step]) ? this.#redacted.censor : undefined;
  }

  refuse(what: string, advice: string, step?: PathStep): never {
    throw this.#refusal(what, advice, step === undefined ? this.#steps : [...this.#steps.slice(0, -1), step]);
  }

  #value(value: unknown, level: number): void {
    if (this.#text.length > SETTLE_AT) this.#settle();
    if (this.#redacted?.covers(this.#steps)) {
      this.#censor(this.#redacted);
      return;
    }
    switch (typeof value) {
      case "string":
        this.reserve(value.length);
        this.#text += quote(value);
        return;
      case "number":
        if (Object.is(value, -0)) this.tag("number", '"-0"');
        else if (Number.isFinite(value)) this.#text += value;
        else this.tag("number", `"${value}"`);
        return;
      case "boolean":
        this.#text += value ? "true" : "false";
        return;
      case "undefined":
        this.tag("undefined");
        return;
      case "bigint":
        this.tag("BigInt", `"${digitsOf(value)}"`);
        return;
      case "object":
        if (value === null) this.#text += "null";
        else this.#container(value, level);
        return;
      case "function":
        this.refuse("a function", "Leave it out of the state, or save the name it can be found by.");
        break;
      case "symbol":
        this.refuse("a symbol", "Save a string in its place.");
    }
  }

  #container(value: object, level: number): void {
    if (this.#ancestors.includes(value)) this.#refuseCycle(value);
    if (level >= MAX_NESTING) {
      this.refuse(
        `nested more than ${MAX_NESTING} levels deep (an Error counts for two, a Map for three)`,
        "Save a long chain as an array.",
      );
    }
    this.reserve(0);
    // A revoked Proxy throws here, where the path still ends at the Proxy itself.
    const prototype = prototypeOf(value);
    const isArray = Array.isArray(value);
    // Its items have no places: two of them censored would be one.
    if (types.isSet(value) && this.#redacted?.coversItemsOf(this.#steps)) {
      this.#censor(this.#redacted);
      return;
    }

    this.#ancestors.push(value);
    this.#steps.push(undefined);
    if (isArray) this.#array(value, prototype, level);
    else if (prototype === Object.prototype) this.#object(value, level);
    else this.#rich(value, prototype, level);
    this.#steps.pop();
    this.#ancestors.pop();
  }

  #array(items: readonly unknown[], prototype: object | null, level: number): void {
    if (prototype === null || kindOf(prototype) !== "Array") this.#refuseInstance(items);
    // An array lists its own indices first, then "length", then other names, then symbols.
    if (Object.getOwnPropertyNames(items).at(-1) !== "length" || Object.getOwnPropertySymbols(items).length > 0) {
      const extra = Reflect.ownKeys(items).find((key) => key !== "length" && !isArrayIndex(key));
      if (extra !== undefined) this.refuse("an extra property of an Array", "Save it beside the array.", extra);
    }
    const last = this.#steps.length - 1;
    const { length } = items;
    this.#text += "[";
    for (let index = 0; index < length; index++) {
      if (index > 0) this.#text += ",";
      this.#steps[last] = index;
      const item = items[index];
      if (item === undefined && !Object.hasOwn(items, index)) this.tag("hole");
      else this.#value(item, level + 1);
    }
    this.#text += "]";
  }

  #object(value: object, level: number): void {
    const keys = this.#keysOf(value);
    if (keys.includes(TAG) && !this.#isPlain) this.#wrapped("Object", value, keys, level);
    else this.record(value, keys, level);
  }

  #rich(value: object, prototype: object | null, level: number): void {
    const kind = prototype === null ? "NullObject" : kindOf(prototype);
    if (kind === "NullObject") this.#wrapped(kind, value, this.#keysOf(value), level);
    else if (kind === "Object") this.#object(value, level);
    else if (!writeTagged(value, kind, this, level)) this.#refuseInstance(value);
  }

  #wrapped(tag: string, value: object, keys: readonly string[], level: number): void {
    this.open(tag);
    this.record(value, keys, level + 1);
    this.#text += "}";
  }

  /** An object's keys, once it is sure that they are all there is to it. */
  #keysOf(value: object): readonly string[] {
    const keys = Object.keys(value);
    if (Object.getOwnPropertyNames(value).length !== keys.length || Object.getOwnPropertySymbols(value).length > 0) {
      const hidden = Reflect.ownKeys(value).find((key) => typeof key === "symbol" || !keys.includes(key));
      const what = typeof hidden === "symbol" ? "a property under a symbol" : "a non-enumerable property";
      this.refuse(what, "Save it under a plain key, or leave it out.", hidden);
    }
    if (keys.length === 0 && hasInternals(value)) {
      this.refuse("a built-in object whose prototype was replaced", "Save plain data in its place.");
    }
    return inJsonOrder(keys);
  }

  #censor({ censor }: RedactedPaths): void {
    this.#isRedacted = true;
    this.reserve(censor.length);
    this.#text += quote(censor);
  }

  #beginTag(tag: string, json?: string): void {
    if (this.#isPlain) this.refuse(lossOf(tag, json), PLAIN_ADVICE);
    this.#tagged = true;
  }

  #member(key: string): string {
    const known = this.#members.get(key);
    if (known !== undefined) return known;
    const member = `${quote(key)}:`;
    if (this.#members.size < MAX_KNOWN_MEMBERS) this.#members.set(key, member);
    return member;
  }

  #settle(): void {
    // A string built by appending is a chain of its parts, and keeps all of them in memory. Counting its bytes makes V8
    // join them, which halves both the time and the memory that a large state takes.
    this.#settledBytes += Buffer.byteLength(this.#text);
    if (this.#settledBytes > this.#maxBytes) throw this.#tooLarge();
    this.#settled.push(this.#text);
    this.#text = "";
  }

  #refuseInstance(value: object): never {
    return this.refuse(describeInstance(value), adviceFor(value));
  }

  #refuseCycle(value: object): never {
    const to = formatPath(this.#steps.slice(0, this.#ancestors.indexOf(value)));
    return this.refuse(`a cycle: it is ${shortPath(to)} again`, "Save an id in its place.");
  }

  /** What a getter, a Proxy's trap or the engine threw. */
  #failure(cause: unknown): Error {
    if (cause instanceof RangeError && cause.message === "Invalid string length") return this.#tooLarge();
    const reason = cause instanceof Error ? cause.message : "it threw something that is no Error";
    return this.#refusal(`not readable (${reason})`, "The cause says why.", this.#steps, { cause });
  }

  #refusal(what: string, advice: string, steps: readonly PathStep[], options?: { readonly cause: unknown }): Error {
    const path = formatPath(steps);
    this.#thrown = new StateNotSerializableError(
      `${subjectOf(this.#context)} can't be saved: ${shortPath(path)} is ${what}. Nothing was stored. ${advice}`,
      path,
      options,
    );
    return this.#thrown;
  }

  #tooLarge(): Error {
    const path = formatPath(this.#steps);
    const where = path === "$" ? "" : ` (the limit was passed at ${shortPath(path)})`;
    this.#thrown = new PayloadTooLargeError(
      `${subjectOf(this.#context)} can't be saved: encoded, it has more than ${this.#maxBytes} bytes${where}. ` +
        "Nothing was stored. Save less, or raise maxPayloadBytes.",
    );
    return this.#thrown;
  }
}

// Anything but the ranges that JSON takes as they are: control characters, quotes, backslashes, and the halves of all
// surrogate pairs; JSON.stringify then sorts out which of those are lone.
const NEEDS_ESCAPING = /[^ !#-[\]-\ud7ff\ue000-\uffff]/;

/** `JSON.stringify` of a string, which most are written without: it is the hot spot of the walk. */
function quote(text: string): string {
  return NEEDS_ESCAPING.test(text) ? JSON.stringify(text) : `"${text}"`;
}

const DECIMAL_LIMIT = 10n ** BigInt(MAX_DECIMAL_DIGITS);

function digitsOf(value: bigint): string {
  if (value < DECIMAL_LIMIT && value > -DECIMAL_LIMIT) return value.toString();
  return value < 0n ? `-0x${(-value).toString(16)}` : `0x${value.toString(16)}`;
}

/** Keys in the order that `JSON.parse` gives them. Only a Proxy lists them in any other. */
function inJsonOrder(keys: readonly string[]): readonly string[] {
  let previous = -1;
  for (const key of keys) {
    const first = key.charCodeAt(0);
    const index = first >= 48 && first <= 57 && isArrayIndex(key) ? Number(key) : Number.POSITIVE_INFINITY;
    if (index < previous) return Object.keys(Object.fromEntries(keys.map((each) => [each, null])));
    previous = index;
  }
  return keys;
}

function isArrayIndex(key: string | symbol): boolean {
  return typeof key === "string" && /^(?:0|[1-9]\d{0,9})$/.test(key) && Number(key) < 2 ** 32 - 1;
}
