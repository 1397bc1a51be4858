import { AssertionError } from "node:assert";
import { inspect, isDeepStrictEqual } from "node:util";
import {
  type CheckpointSummary,
  findDamage,
  type StoredCheckpoint,
  seal,
  toSummary,
} from "../src/contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../src/contract/corrupt-record.js";
import { type CheckpointErrorCode, readCode } from "../src/contract/errors.js";
import type { Appended } from "./drafts.js";

/** Throws an AssertionError with the obligation unless the condition holds. */
export function holds(met: boolean, obligation: string): asserts met {
  if (!met) throw new AssertionError({ message: obligation, actual: met, expected: true, operator: "holds" });
}

/** Throws unless the two values are equal as data. */
export function same(actual: unknown, expected: unknown, obligation: string): void {
  const [left, right] = [plain(actual), plain(expected)];
  if (isDeepStrictEqual(left, right)) return;
  const message = `${obligation}\n  expected: ${show(right)}\n  but got:  ${show(left)}`;
  throw new AssertionError({ message, actual: left, expected: right, operator: "deepStrictEqual" });
}

/** Throws unless the record has every field and byte of the appended checkpoint, and a seal that holds. */
export function sameAsAppended(
  found: StoredCheckpoint | CorruptRecord | undefined,
  expected: Appended,
  how: string,
): void {
  const name = `${how} MUST return the checkpoint that was appended`;
  const record = intact(found, name);
  const { payload, seal: sealed, ...summary } = record;
  same(summary, toSummary(expected), `${name}, with every field unchanged and none added`);
  same(payload.encoding, expected.payload.encoding, `${name}: its encoding`);
  same(payload.sha256, expected.payload.sha256, `${name}: its digest`);
  holds(
    sameBody(payload.body, expected.payload.body),
    `${name}, with a body that is equal in each byte and in its type`,
  );
  same(
    sealed,
    seal(record),
    `${how} MUST return a record whose seal holds, so seal the record on append and on setStatus`,
  );
}

/** Throws unless the record equals one of two checkpoints. Header and payload must belong to the same checkpoint. */
export function sameAsEither(
  found: StoredCheckpoint | CorruptRecord,
  [former, later]: readonly [former: Appended, later: Appended],
  how: string,
): void {
  const what = `${how}, while another write replaced it,`;
  const { payload } = intact(found, `${what} MUST return header and payload from one moment`);
  sameAsAppended(found, payload.sha256 === former.payload.sha256 ? former : later, what);
}

/** Returns the item if it is a record. Throws if it is missing or corrupt. */
export function intact<Found extends object>(found: Found | CorruptRecord | undefined, obligation: string): Found {
  if (found === undefined) return failed(`${obligation}, but it returned nothing`);
  return isCorrupt(found) ? failed(`${obligation}, but it returned ${show(found)}`) : found;
}

/**
 * Whether an item reports damage: as a CorruptRecord, or as a record that fails the manager's checks of seal and
 * digest.
 */
export function isReported(found: StoredCheckpoint | CorruptRecord | undefined): boolean {
  return found !== undefined && explainDamage(found) !== undefined;
}

/** Returns the reason and place of an item's damage; `undefined` if the item seems intact. */
export function explainDamage(item: StoredCheckpoint | CheckpointSummary | CorruptRecord): string | undefined {
  if (isCorrupt(item)) return `${item.reason} (${item.location})`;
  return "payload" in item ? findDamage(item) : undefined;
}

/** Throws unless the items have these ids, in this order. `corrupt` stands for a damaged item. */
export function sameIds(
  items: readonly (StoredCheckpoint | CheckpointSummary | CorruptRecord)[],
  expected: readonly string[],
  obligation: string,
): void {
  const damages = items.map(explainDamage);
  const ids = items.map((item, at) => (damages[at] !== undefined || isCorrupt(item) ? "corrupt" : item.id));
  if (isDeepStrictEqual(ids, expected)) return;
  const reasons = damages.filter((damage) => damage !== undefined).map((damage) => `\n  corrupt: ${damage}`);
  same(ids, expected, `${obligation}${reasons.join("")}`);
}

/** Throws unless the call fails with this error code. */
export async function refused(code: CheckpointErrorCode, call: Promise<unknown>, obligation: string): Promise<void> {
  let answer: unknown;
  try {
    answer = await call;
  } catch (error) {
    // Compares codes instead of classes, because two copies of the package have different classes.
    const found = readCode(error);
    if (found === code) return;
    const message = `${obligation}: expected an error with the code ${code}, but it threw ${show(error)}`;
    throw new AssertionError({ message, actual: found, expected: code, operator: "refused" });
  }
  throw new AssertionError({
    message: `${obligation}: expected an error with the code ${code}, but it resolved to ${show(answer)}`,
    actual: undefined,
    expected: code,
    operator: "refused",
  });
}

/** Throws unless each sequence is higher than the previous one. */
export function ascending(sequences: readonly number[], obligation: string): void {
  const sorted = [...new Set(sequences)].sort((a, b) => a - b);
  same(sequences, sorted, `${obligation}, each higher than the previous one`);
}

/** Renders a value for a message, shortened to a few lines. */
export function show(value: unknown): string {
  return inspect(value, { depth: 6, breakLength: 120, compact: 10, maxStringLength: 200, maxArrayLength: 40 });
}

function failed(message: string): never {
  throw new AssertionError({ message });
}

function sameBody(actual: unknown, expected: string | Uint8Array): boolean {
  if (typeof expected === "string") return actual === expected;
  return ArrayBuffer.isView(actual) && Buffer.from(expected).equals(bytesOfView(actual));
}

function bytesOfView(view: ArrayBufferView): Buffer {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength);
}

/**
 * Rebuilds the value from plain objects, so that a comparison ignores prototypes and the classes of byte arrays. Keeps
 * keys whose value is `undefined`, and the key `__proto__`.
 */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  if (ArrayBuffer.isView(value)) return `bytes ${bytesOfView(value).toString("hex")}`;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}
