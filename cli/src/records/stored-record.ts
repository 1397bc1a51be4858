import type { CorruptRecord, JsonObject } from "waymark";
import {
  type CheckpointDraft,
  findDamage,
  isCorrupt,
  parseSummary,
  type StoredCheckpoint,
  summaryOf,
} from "waymark/adapter";

/** The longest texts that a record may have, in UTF-16 units: storages don't check what they are given. */
const LONGEST = { taskId: 512, id: 1024 } as const;

/** Whether the record could be read and is intact. */
export function isWhole(record: StoredCheckpoint | CorruptRecord): record is StoredCheckpoint {
  return !isCorrupt(record) && findDamage(record) === undefined;
}

/** The draft that makes the same record in another storage, appended under the same sequence. */
export function draftOf({ sequence: _sequence, seal: _seal, ...draft }: StoredCheckpoint): CheckpointDraft {
  return draft;
}

/** A record as JSON. Bytes become base64. */
export function recordJson(record: StoredCheckpoint): object {
  const { encoding, sha256, body } = record.payload;
  const content = typeof body === "string" ? { body } : { base64: Buffer.from(body).toString("base64") };
  return { ...summaryOf(record), payload: { encoding, sha256, ...content }, seal: record.seal };
}

/**
 * The record that {@link recordJson} made.
 *
 * @throws {Error} The value isn't a record, or isn't intact. The message is the end of a sentence.
 */
export function recordFrom(value: unknown): StoredCheckpoint {
  if (!isObject(value)) throw new Error("its record is not an object");
  const { payload, ...fields }: { readonly payload?: unknown } = value;
  if (!isObject(payload)) throw new Error("its payload is missing or malformed");
  const { encoding, sha256, body, base64 }: Readonly<Partial<Record<string, unknown>>> = payload;
  const summary = parseSummary({ ...fields, encoding, sha256 });
  if (typeof summary === "string") throw new Error(summary);
  for (const key of ["taskId", "id"] as const) {
    if (summary[key] === "" || summary[key].length > LONGEST[key]) throw new Error(`its ${key} is empty or too long`);
  }
  const content = typeof body === "string" ? body : bytesIn(base64);
  const record = { ...summary, payload: { ...summary.payload, body: content } };
  const damage = findDamage(record) ?? damageInBody(record);
  if (damage !== undefined) throw new Error(damage);
  return record;
}

function bytesIn(base64: unknown): Uint8Array {
  if (typeof base64 !== "string") throw new Error("its body is missing or malformed");
  return new Uint8Array(Buffer.from(base64, "base64"));
}

/** Checks what the seal doesn't cover: that a body is one that Waymark writes. */
function damageInBody({ sizeBytes, payload: { body } }: StoredCheckpoint): string | undefined {
  const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
  if (bytes !== sizeBytes) return `its payload has ${bytes} bytes, not ${sizeBytes}`;
  // A storage may embed the text as JSON.
  return typeof body === "string" && JSON.stringify(JSON.parse(body)) !== body
    ? "its state is not JSON as Waymark writes it"
    : undefined;
}

/** An object that JSON.parse made. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
