import { type EncodedState, encodeJson } from "../codec/json.js";
import { makePayloadFrom } from "../codec/payload.js";
import type { RedactedPaths } from "../codec/redacted-paths.js";
import { readClock } from "../contract/arguments.js";
import { describeRecord, type RecordDraft } from "../contract/log.js";
import type { ResolvedOptions } from "./options.js";
import { requireLog } from "./records.js";

/** A record to append to a task's log, without its value. */
export type NamedRecord = Omit<RecordDraft, "createdAt" | "payload"> & { readonly taskId: string };

/** A record to append to a task's log, with its value. */
export type NewRecord = NamedRecord & {
  readonly value: unknown;
  /** Secrets in the value, which aren't stored. */
  readonly redacted?: RedactedPaths | undefined;
};

/**
 * Makes the draft of a record. The value is read during the call, so the caller may change it afterwards. Schemas don't
 * apply; transforms do, and `encrypt` binds the value to the record.
 *
 * @throws {StateNotSerializableError} The value can't be stored without loss. Thrown, not rejected.
 * @throws {PayloadTooLargeError} The value is larger than `maxPayloadBytes`. Thrown, not rejected.
 * @throws {UnsupportedOperationError} The storage keeps no log. Thrown, not rejected.
 */
export function draftRecord(options: ResolvedOptions, { value, redacted, ...record }: NewRecord): Promise<RecordDraft> {
  requireLog(options.storage, "a record");
  return draftEncoded(options, record, encodeJson(value, options.maxPayloadBytes, describeRecord(record), redacted));
}

/** {@link draftRecord} for an encoded value. */
export async function draftEncoded(
  { clock, transforms }: ResolvedOptions,
  { taskId, ...record }: NamedRecord,
  encoded: EncodedState,
): Promise<RecordDraft> {
  const unfinished = { ...record, createdAt: new Date(readClock(clock)).toISOString() };
  const { payload } = await makePayloadFrom(encoded, { context: { taskId, ...unfinished }, transforms });
  return { ...unfinished, payload };
}
