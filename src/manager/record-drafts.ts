import { types } from "node:util";
import type { EncodedState } from "../codec/json.js";
import { makePayloadFrom } from "../codec/payload.js";
import { readClock } from "../contract/arguments.js";
import type { RecordDraft } from "../contract/log.js";
import type { ResolvedOptions } from "./options.js";

/** A record to append to a task's log, without its value. */
export type NamedRecord = Omit<RecordDraft, "createdAt" | "payload"> & { readonly taskId: string };

/**
 * Makes the draft of a record from its encoded value. Transforms apply; `encrypt` binds the value to the record.
 *
 * @returns The draft; a promise of it if there are transforms or the value is large.
 */
export function draftEncoded(
  { clock, transforms }: Pick<ResolvedOptions, "clock" | "transforms">,
  { taskId, ...record }: NamedRecord,
  encoded: EncodedState,
): RecordDraft | Promise<RecordDraft> {
  const unfinished = { ...record, createdAt: new Date(readClock(clock)).toISOString() };
  const made = makePayloadFrom(encoded, { context: { taskId, ...unfinished }, transforms });
  if (!types.isPromise(made)) return { ...unfinished, payload: made.payload };
  return made.then(({ payload }) => ({ ...unfinished, payload }));
}
