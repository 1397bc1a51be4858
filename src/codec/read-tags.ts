import { CheckpointCorruptError, UnsupportedFormatError } from "../contract/errors.js";
import { fromBase64 } from "./bytes.js";
import { ERRORS, isErrorKind, TYPED_ARRAYS } from "./kinds.js";
import { ERROR_PROPERTIES, MAX_DECIMAL_DIGITS, MAX_NESTING, TAG } from "./tag-format.js";
import { type PayloadOwner, subjectOf } from "./transforms.js";

type JsonRecord = Record<string, unknown>;

/**
 * Puts the values back that tags stand for (see tag-format.ts), in the very objects that `JSON.parse` made. It takes
 * time and memory in proportion to the text, whoever wrote it.
 *
 * A node's `level` is the number of arrays and objects around it in the text, as when it was written.
 */
export class TagReader {
  readonly #context: PayloadOwner | undefined;

  constructor(context: PayloadOwner | undefined) {
    this.#context = context;
  }

  /**
   * @param node - Fresh from `JSON.parse`: it is changed in place.
   * @throws {CheckpointCorruptError} A tag is malformed, or it nests deeper than any encoder writes.
   * @throws {UnsupportedFormatError} A tag is unknown here.
   */
  read(node: unknown): unknown {
    return this.#value(node, 0);
  }

  #value(node: unknown, level: number): unknown {
    if (typeof node !== "object" || node === null) return node;
    // A tag for a primitive, in a Map on the last level there may be, comes to stand this much deeper.
    if (level > MAX_NESTING + 2) throw this.#corrupt(`nests more than ${MAX_NESTING} levels deep`);
    if (Array.isArray(node)) return this.#items(node, level);
    return isRecord(node) && Object.hasOwn(node, TAG) ? this.#tagged(node, level) : this.#members(node, level);
  }

  #items(items: unknown[], level: number): unknown[] {
    for (let index = 0; index < items.length; index++) {
      const item = items[index];
      if (isHole(item)) delete items[index];
      else if (typeof item === "object") items[index] = this.#value(item, level + 1);
    }
    return items;
  }

  /** The members of an object that is no tag. */
  #members(record: unknown, level: number): JsonRecord {
    if (!isRecord(record)) throw this.#malformed("Object");
    for (const key of Object.keys(record)) {
      const member = record[key];
      // Each key is the record's own, so assigning to "__proto__" assigns to a property like any other.
      if (typeof member === "object") record[key] = this.#value(member, level + 1);
    }
    return record;
  }

  #tagged(node: JsonRecord, level: number): unknown {
    const { [TAG]: tag, value, ...others } = node;
    if (typeof tag !== "string" || Object.keys(others).length > 0) throw this.#malformed(String(tag));
    switch (tag) {
      case "undefined":
        if ("value" in node) throw this.#malformed(tag);
        return undefined;
      case "hole":
        throw this.#malformed(tag); // Those in arrays don't get here.
      case "number":
        return this.#number(value);
      case "BigInt":
        return this.#bigInt(value);
      case "Date":
        return this.#date(value);
      case "RegExp":
        return this.#regExp(value, level);
      case "URL":
        return this.#url(value);
      case "Map":
        return this.#map(value, level);
      case "Set":
        return this.#set(value, level);
      case "ArrayBuffer":
        return this.#bytes(tag, value, 1).buffer;
      case "DataView":
        return new DataView(this.#bytes(tag, value, 1).buffer);
      case "Buffer":
        return this.#bytes(tag, value, 1);
      case "Error":
        return this.#error(value, level);
      case "Object":
        return this.#members(value, level + 1);
      case "NullObject":
        return Object.setPrototypeOf(this.#members(value, level + 1), null);
      default:
        return this.#typedArray(tag, value);
    }
  }

  #number(value: unknown): number {
    if (value === "NaN") return Number.NaN;
    if (value === "Infinity") return Number.POSITIVE_INFINITY;
    if (value === "-Infinity") return Number.NEGATIVE_INFINITY;
    if (value === "-0") return -0;
    throw this.#malformed("number");
  }

  #bigInt(value: unknown): bigint {
    const [, sign, digits] = (typeof value === "string" && BIG_INT.exec(value)) || [];
    if (digits === undefined) throw this.#malformed("BigInt");
    const magnitude = this.#attempt("BigInt", () => BigInt(digits));
    return sign === "-" ? -magnitude : magnitude;
  }

  #date(value: unknown): Date {
    if (value === null) return new Date(Number.NaN);
    const date = new Date(typeof value === "string" ? value : Number.NaN);
    if (Number.isNaN(date.getTime()) || date.toISOString() !== value) throw this.#malformed("Date");
    return date;
  }

  #regExp(body: unknown, level: number): RegExp {
    if (!isRecord(body)) throw this.#malformed("RegExp");
    const { source, flags, lastIndex = 0, ...others } = body;
    if (typeof source !== "string" || typeof flags !== "string" || Object.keys(others).length > 0) {
      throw this.#malformed("RegExp");
    }
    let expression: RegExp;
    try {
      expression = new RegExp(source, flags);
    } catch (cause) {
      // The payload is intact, or its digest would not have held: another version of Node knew what this one doesn't.
      throw this.#unsupported("a regular expression that this version of Node can't compile", { cause });
    }
    // Not every one that was written was a number: anything can be assigned to it.
    Reflect.set(expression, "lastIndex", this.#value(lastIndex, level + 2));
    return expression;
  }

  #url(value: unknown): URL {
    if (typeof value !== "string") throw this.#malformed("URL");
    return this.#attempt("URL", () => new URL(value));
  }

  #map(pairs: unknown, level: number): Map<unknown, unknown> {
    if (!Array.isArray(pairs)) throw this.#malformed("Map");
    const map = new Map<unknown, unknown>();
    for (const pair of pairs) {
      if (!Array.isArray(pair) || pair.length !== 2) throw this.#malformed("Map");
      map.set(this.#value(pair[0], level + 3), this.#value(pair[1], level + 3));
    }
    if (map.size !== pairs.length) throw this.#malformed("Map");
    return map;
  }

  #set(items: unknown, level: number): Set<unknown> {
    if (!Array.isArray(items)) throw this.#malformed("Set");
    const set = new Set<unknown>();
    for (const item of items) set.add(this.#value(item, level + 2));
    if (set.size !== items.length) throw this.#malformed("Set");
    return set;
  }

  #typedArray(tag: string, value: unknown): ArrayBufferView {
    const type = TYPED_ARRAYS.get(tag);
    if (type === undefined)
      throw this.#unsupported(`a value tagged ${JSON.stringify(tag)}, which this version doesn't know`);
    return new type(this.#bytes(tag, value, type.BYTES_PER_ELEMENT).buffer);
  }

  #bytes(tag: string, value: unknown, elementSize: number): Buffer<ArrayBuffer> {
    const bytes = typeof value === "string" ? fromBase64(value, elementSize) : undefined;
    if (bytes === undefined) throw this.#malformed(tag);
    return bytes;
  }

  #error(value: unknown, level: number): Error {
    if (!isRecord(value)) throw this.#malformed("Error");
    const { class: kind, hidden = {}, props = {}, ...named } = value;
    if (Object.keys(named).some((key) => !ERROR_PROPERTIES.includes(key))) throw this.#malformed("Error");
    const error = this.#bareError(kind, named);
    this.#members(named, level + 1);
    for (const [key, property] of Object.entries(named)) define(error, key, property, false);
    for (const [key, property] of Object.entries(this.#members(hidden, level + 2))) define(error, key, property, false);
    for (const [key, property] of Object.entries(this.#members(props, level + 2))) define(error, key, property, true);
    return error;
  }

  /** An error of that class with no properties of its own. Takes what it uses up from `named`. */
  #bareError(kind: unknown, named: JsonRecord): Error {
    if (typeof kind !== "string") throw this.#malformed("Error");
    if (!isErrorKind(kind))
      throw this.#unsupported(`an error of class ${JSON.stringify(kind)}, which this version doesn't know`);
    const error = kind === "DOMException" ? this.#domException(named) : newError(kind);
    for (const key of Reflect.ownKeys(error)) Reflect.deleteProperty(error, key);
    return error;
  }

  #domException(named: JsonRecord): DOMException {
    const { name, message } = named;
    if (typeof name !== "string" || typeof message !== "string") throw this.#malformed("Error");
    delete named["name"];
    delete named["message"];
    return new DOMException(message, name);
  }

  #attempt<Value>(tag: string, make: () => Value): Value {
    try {
      return make();
    } catch (cause) {
      throw this.#malformed(tag, { cause });
    }
  }

  #malformed(tag: string, options?: { readonly cause: unknown }): CheckpointCorruptError {
    return this.#corrupt(`holds a malformed tag of kind ${JSON.stringify(tag)}`, options);
  }

  #corrupt(what: string, options?: { readonly cause: unknown }): CheckpointCorruptError {
    return new CheckpointCorruptError(
      `${subjectOf(this.#context)} can't be loaded: its text ${what}. It was left untouched.`,
      options,
    );
  }

  #unsupported(what: string, options?: { readonly cause: unknown }): UnsupportedFormatError {
    return new UnsupportedFormatError(
      `${subjectOf(this.#context)} can't be loaded: it holds ${what}. ` +
        "It was left untouched; load it with the versions of Waymark and Node that saved it, or newer ones.",
      options,
    );
  }
}

const BIG_INT = new RegExp(`^(-?)(0x[1-9a-f][0-9a-f]*|[1-9]\\d{0,${MAX_DECIMAL_DIGITS - 1}}|(?<!-)0)$`);

function newError(kind: string): Error {
  if (kind === "AggregateError") return new AggregateError([]);
  const type = ERRORS.get(kind) ?? Error;
  return new type();
}

/** As an engine defines it: writable, configurable. */
function define(error: Error, key: string, value: unknown, enumerable: boolean): void {
  Object.defineProperty(error, key, { value, enumerable, writable: true, configurable: true });
}

function isRecord(node: unknown): node is JsonRecord {
  return typeof node === "object" && node !== null && !Array.isArray(node);
}

function isHole(node: unknown): boolean {
  return isRecord(node) && node[TAG] === "hole" && Object.keys(node).length === 1;
}
