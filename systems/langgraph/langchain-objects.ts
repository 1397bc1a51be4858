import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import {
  type ForeignClasses,
  isRecord,
  type JsonRecord,
  type Reading,
  TAG,
  type Writing,
} from "../../src/codec/tags.js";
import { makeMessage } from "./messages.js";

/** A part of an object that JSON would lose: its place in the object, and its JSON with tags. */
type Held = readonly [path: readonly (string | number)[], json: unknown];

/** Every serialized object of LangChain has this form: `{ lc: 1, type: "constructor", id, kwargs }`. */
const KEY = "lc";

/**
 * Encodes LangChain's and LangGraph's own objects within a value as LangGraph's serializer does. The parts of a message
 * that JSON would lose are stored beside it, under `held`.
 */
export class LangchainObjects implements ForeignClasses {
  readonly key = KEY;
  readonly advice = "Store plain data in its place, or give the saver a `serde` that knows the class.";
  /** The records that were read and that LangChain must load. */
  readonly found: JsonRecord[] = [];
  readonly #loaded: readonly unknown[];

  /** @param loaded - The loaded objects, in the order of `found`. Without them, records stay as they are. */
  constructor(loaded: readonly unknown[] = []) {
    this.#loaded = loaded;
  }

  write(instance: object, writing: Writing): JsonRecord | undefined {
    if (instance instanceof DeltaSnapshot) {
      return { [KEY]: 2, type: "delta_snapshot", ...writing.members(instance, ["value"]) };
    }
    if (isSerializable(instance)) return toRecord(instance, writing);
    if (isDocument(instance)) return writing.withoutUndefined(() => writing.plainObject(instance));
    if (!isOfLangGraph(instance)) return undefined;
    if (instance.lg_name !== "Send") return writing.plainObject(instance.toJSON());
    return writing.withoutUndefined(() => writing.members(instance, ["node", "args", "timeout"]));
  }

  read(json: JsonRecord, reading: Reading): unknown {
    if (json[KEY] === 2 && json["type"] === "delta_snapshot") return new DeltaSnapshot(reading.value(json["value"]));
    if (json[KEY] !== 1 || json["type"] !== "constructor") return reading.members(json);
    const { held, ...record } = json;
    const message = makeMessage(record);
    const loaded = message ?? this.#loaded[this.found.length];
    if (message === undefined) this.found.push(record);
    for (const [path, part] of Array.isArray(held) ? held : []) {
      const value = reading.value(part);
      if (loaded !== undefined) assignAt(loaded, path, value);
    }
    return loaded ?? record;
  }
}

/** `undefined` if the object's class can't be stored. */
function toRecord(instance: Serializable, writing: Writing): JsonRecord | undefined {
  const passed = instance.lc_kwargs;
  const own = Object.keys(passed).map((key) => [key, Reflect.get(key in instance ? instance : passed, key)]);
  const kwargs: object = Object.fromEntries(own);
  // toJSON turns a Date into {}, and drops functions.
  const written = writing.withoutUndefined(() => writing.members(kwargs, Object.keys(kwargs)));
  const record = instance.toJSON();
  if (!isRecord(record) || record["type"] !== "constructor") return undefined;
  const held = [...heldIn(written)];
  if (held.length === 0) return record;
  return { ...JSON.parse(JSON.stringify(record, (_, part) => (typeof part === "bigint" ? null : part))), held };
}

/** The outermost parts that toJSON would lose. */
function* heldIn(written: unknown, path: Held[0] = []): Generator<Held> {
  if (isLost(written)) yield [path, written];
  else if (Array.isArray(written)) for (const [at, part] of written.entries()) yield* heldIn(part, [...path, at]);
  else if (isRecord(written) && !Object.hasOwn(written, KEY)) {
    for (const [key, part] of Object.entries(written)) yield* heldIn(part, [...path, key]);
  }
}

function isLost(written: unknown): boolean {
  // An array's hole can't be stored alone, so the whole array counts as lost.
  if (Array.isArray(written)) return written.some((item) => isRecord(item) && item[TAG] === "hole");
  if (!isRecord(written)) return false;
  if (Object.hasOwn(written, KEY)) return Object.hasOwn(written, "held");
  return Object.hasOwn(written, TAG) || Object.hasOwn(written, "__proto__");
}

/**
 * An object of LangChain has each part twice: as its own property, and among its constructor's arguments. Both are set.
 */
function assignAt(loaded: unknown, [...path]: Held[0], part: unknown): void {
  const last = path.pop() ?? "";
  for (const root of [loaded, stepInto(loaded, "lc_kwargs")]) {
    const holder = path.reduce(stepInto, root);
    if (typeof holder === "object" && holder !== null && last in holder) Reflect.set(holder, last, part);
  }
}

function stepInto(holder: unknown, key: string | number): unknown {
  return typeof holder === "object" && holder !== null && key !== "__proto__" ? Reflect.get(holder, key) : undefined;
}

interface Serializable {
  readonly lc_kwargs: object;
  toJSON(): unknown;
}

function isSerializable(value: object): value is Serializable {
  return "lc_serializable" in value && "lc_kwargs" in value && typeof value.lc_kwargs === "object" && hasJson(value);
}

function isOfLangGraph(value: object): value is { readonly lg_name: unknown; toJSON(): object } {
  return "lg_name" in value && hasJson(value);
}

/** LangChain's class Document is recognized only by its properties. */
function isDocument(value: object): boolean {
  return (
    "pageContent" in value && "metadata" in value && Object.keys(value).every((key) => DOCUMENT_KEYS.includes(key))
  );
}

const DOCUMENT_KEYS = ["pageContent", "metadata", "id"];

function hasJson(value: object): value is { toJSON(): unknown } {
  return "toJSON" in value && typeof value.toJSON === "function";
}
