import { types } from "node:util";
import type { EncodedState } from "../codec/json.js";
import { type MadePayload, makePayloadFrom } from "../codec/payload.js";
import { readClock } from "../contract/arguments.js";
import { assignNames, type RecordDraft } from "../contract/log.js";
import type { ResolvedOptions } from "./options.js";

/** A record to append to a task's log, without its value. */
export interface NamedRecord extends Pick<RecordDraft, "kind"> {
  readonly taskId: string;
  readonly name?: string | undefined;
  readonly recordKey?: string | undefined;
  readonly id?: string | undefined;
}

/**
 * Makes the draft of a record from its encoded value. Transforms apply; `encrypt` binds the value to the record.
 *
 * @returns The draft; a promise of it if there are transforms or the value is large.
 */
export function draftEncoded(
  { clock, transforms }: Pick<ResolvedOptions, "clock" | "transforms">,
  record: NamedRecord,
  encoded: EncodedState,
): RecordDraft | Promise<RecordDraft> {
  const { taskId, kind } = record;
  const createdAt = new Date(readClock(clock)).toISOString();
  const context: Omit<RecordDraft, "payload"> & { readonly taskId: string } = { taskId, kind, createdAt };
  assignNames(context, record);
  const made = makePayloadFrom(encoded, { context, transforms });
  const finish = ({ payload }: MadePayload): RecordDraft => {
    const draft: RecordDraft = { kind, createdAt, payload };
    assignNames(draft, record);
    return draft;
  };
  return types.isPromise(made) ? made.then(finish) : finish(made);
}
