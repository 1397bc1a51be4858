import { encodeJson } from "../codec/json.js";
import { checkId, checkTaskId } from "../contract/arguments.js";
import {
  type CheckpointStatus,
  type CheckpointSummary,
  checkStatus,
  type StatusChange,
  toFailure,
} from "../contract/checkpoint.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { describeRecord, type RecordDraft } from "../contract/log.js";
import { readRunNote } from "../contract/run-note.js";
import { formatRunKey, type RunKey } from "../contract/run-record.js";
import { checkOptions } from "./check-options.js";
import { notFoundError } from "./damage.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";
import { draftEncoded } from "./record-drafts.js";
import { readToken, type SaveOptions } from "./save-options.js";

type SetStatusOptions = Pick<SaveOptions, "error" | "lease">;
/** The default of `expectedSequence` is the newest checkpoint's sequence at the time of the call. */
type CompleteOptions = Pick<SaveOptions, "expectedSequence" | "lease">;

/** All sequences from the first to the last, both included. */
export type SequenceRange = readonly [first: number, last: number];

/** Results that no longer count. */
export interface DroppedResults {
  readonly range: SequenceRange;
  /** The keys of the event receipts among these results. */
  readonly receipts: readonly RunKey[];
}

/** Changes the status of checkpoints. */
export class StatusChanger {
  readonly #options: ResolvedOptions;
  readonly #reader: CheckpointReader;

  constructor(options: ResolvedOptions, reader: CheckpointReader) {
    this.#options = options;
    this.#reader = reader;
  }

  async set(taskId: string, id: string, status: CheckpointStatus, options: SetStatusOptions): Promise<void> {
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    checkStatus(status);
    checkOptions("SetStatusOptions", options, { error: true, lease: true });
    const { error, lease } = options;
    const condition = { fencingToken: readToken(taskId, lease) };
    const isFound = await this.#options.storage.setStatus(taskId, id, this.#makeChange(status, error), condition);
    if (!isFound) throw notFoundError(taskId, id);
  }

  async setNewest(taskId: string, status: CheckpointStatus, error: unknown, options: CompleteOptions): Promise<void> {
    checkTaskId(taskId);
    checkOptions("CompleteOptions", options, { expectedSequence: true, lease: true });
    const fencingToken = readToken(taskId, options.lease);
    const checkpoint = await this.#reader.newest(taskId);
    const { id, sequence } = checkpoint;
    // If a save comes in between, its checkpoint must not be changed, because the caller doesn't know it.
    const { expectedSequence = sequence } = options;
    const change = this.#makeChange(status, error);
    const records = await draftStatusChange(this.#options, checkpoint, change);
    const { storage } = this.#options;
    if (await storage.setStatus(taskId, id, change, { expectedSequence, fencingToken }, { records })) return;
    // The checkpoint is gone. If the whole task is gone too, this call throws.
    const newest = await this.#reader.newest(taskId);
    throw new CheckpointConflictError(
      `Checkpoint ${id} was the newest of task ${JSON.stringify(taskId)}, but it was removed before its status could be changed. ` +
        `Nothing was changed; the newest is ${newest.id} (sequence ${newest.sequence}) now. Look at it, then decide.`,
    );
  }

  #makeChange(status: CheckpointStatus, error: unknown): StatusChange {
    const { redaction } = this.#options;
    return { status, ...(error !== undefined && { error: redaction?.failure(error) ?? toFailure(error) }) };
  }
}

/**
 * Makes the records for a change of a run's status, to be stored with the change. Makes none if no run saved the
 * checkpoint.
 *
 * @param dropped - The results that the change drops.
 */
export async function draftStatusChange(
  options: ResolvedOptions,
  checkpoint: CheckpointSummary,
  change: StatusChange,
  dropped?: DroppedResults,
): Promise<readonly RecordDraft[]> {
  const note = readRunNote(checkpoint);
  if (note === undefined || options.storage.log === undefined) return [];
  const draft = (key: RunKey, value: object) => {
    const record = { taskId: checkpoint.taskId, kind: "run", recordKey: formatRunKey(key) } as const;
    return draftEncoded(options, record, encodeJson(value, options.maxPayloadBytes, describeRecord(record)));
  };
  // A list of events reads headers only. So each receipt that no longer counts gets its own record.
  const takenBack = dropped?.receipts.map((key) => draft(key, { type: "dropped" })) ?? [];
  return Promise.all([
    draft(note, { type: "status", ...change, ...(dropped && { dropped: [dropped.range] }) }),
    ...takenBack,
  ]);
}
