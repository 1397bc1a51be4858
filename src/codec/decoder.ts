import {
  type CheckpointCorruptError,
  CheckpointError,
  isStackOverflow,
  UnsupportedFormatError,
} from "../contract/errors.js";
import { type ForeignClasses, isRecord, type JsonRecord, type Reading, TAG, TAGS } from "./tags.js";
import { damagedPayload, nameOwner, type ValueOwner } from "./transforms.js";

/** Replaces tags with their values, in place, in the objects that `JSON.parse` made. */
export class Decoder implements Reading {
  readonly #owner: ValueOwner | undefined;
  readonly #foreign: Pick<ForeignClasses, "key" | "read"> | undefined;

  constructor(owner: ValueOwner | undefined, foreign?: Pick<ForeignClasses, "key" | "read">) {
    this.#owner = owner;
    this.#foreign = foreign;
  }

  /**
   * @param json - A new value from `JSON.parse`. It is changed in place.
   * @throws {CheckpointCorruptError} A tag is malformed.
   * @throws {UnsupportedFormatError} A tag is unknown to this version.
   * @throws {RangeError} The value nests so deep that the stack overflows.
   */
  value(json: unknown): unknown {
    if (Array.isArray(json)) return this.#items(json);
    if (!isRecord(json)) return json;
    if (Object.hasOwn(json, TAG)) return this.#tagged(json);
    const foreign = this.#foreign;
    return foreign !== undefined && Object.hasOwn(json, foreign.key) ? foreign.read(json, this) : this.members(json);
  }

  members(json: JsonRecord): JsonRecord {
    for (const key of Object.keys(json)) {
      const member = json[key];
      // The key is the object's own, so assigning to "__proto__" sets an ordinary property.
      if (typeof member === "object") json[key] = this.value(member);
    }
    return json;
  }

  unsupported(what: string, cause?: unknown): never {
    throw new UnsupportedFormatError(
      `${nameOwner(this.#owner)} can't be loaded: it holds ${what}. ` +
        "It was left untouched; load it with the versions of Waymark and Node that saved it, or newer ones.",
      { cause },
    );
  }

  #items(items: unknown[]): unknown[] {
    for (let index = 0; index < items.length; index++) {
      const item: unknown = items[index];
      if (isRecord(item) && item[TAG] === "hole" && Object.keys(item).length === 1) delete items[index];
      else if (typeof item === "object") items[index] = this.value(item);
    }
    return items;
  }

  #tagged(json: JsonRecord): unknown {
    const { [TAG]: tag, value, ...others } = json;
    if (typeof tag !== "string" || Object.keys(others).length > 0) throw this.#malformed(tag);
    const row = TAGS.get(tag);
    if (row === undefined) return this.unsupported(`a value with the unknown tag ${JSON.stringify(tag)}`);
    try {
      return row.read(value, this);
    } catch (error) {
      throw error instanceof CheckpointError || isStackOverflow(error) ? error : this.#malformed(tag, error);
    }
  }

  #malformed(tag: unknown, cause?: unknown): CheckpointCorruptError {
    return damagedPayload(this.#owner, `its text holds a malformed tag ${JSON.stringify(tag)}`, cause);
  }
}
