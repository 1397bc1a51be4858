import { encodeJson } from "../../src/codec/json.js";
import type { RedactedPaths } from "../../src/codec/redacted-paths.js";
import { describeRecord, type RecordDraft } from "../../src/contract/log.js";
import type { ResolvedOptions } from "../../src/manager/options.js";
import { draftEncoded, type NamedRecord } from "../../src/manager/record-drafts.js";

/** A record to append to a task's log, with its value and the paths of the value's secrets, which aren't stored. */
export type NewRecord = NamedRecord & { readonly value: unknown; readonly redacted?: RedactedPaths | undefined };

/** Makes the draft of a record in the same way as runs. */
export async function draftRecord(
  options: ResolvedOptions,
  { value, redacted, ...record }: NewRecord,
): Promise<RecordDraft> {
  const encoded = encodeJson(value, options.maxPayloadBytes, describeRecord(record), redacted);
  return draftEncoded(options, record, encoded);
}
