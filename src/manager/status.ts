import { checkId, checkTaskId } from "../contract/arguments.js";
import { type CheckpointStatus, checkStatus, toFailure } from "../contract/checkpoint.js";
import type { AppendCondition } from "../contract/conditions.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { checkOptions } from "./check-options.js";
import { notFoundError } from "./damage.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";
import { readToken, type SaveOptions } from "./save-options.js";

type SetStatusOptions = Pick<SaveOptions, "error" | "lease">;
/** The default of `expectedSequence` is the newest checkpoint's sequence at the time of the call. */
type CompleteOptions = Pick<SaveOptions, "expectedSequence" | "lease">;

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
    const isFound = await this.#change(taskId, id, { status, error }, { fencingToken: readToken(taskId, lease) });
    if (!isFound) throw notFoundError(taskId, id);
  }

  async setNewest(taskId: string, status: CheckpointStatus, error: unknown, options: CompleteOptions): Promise<void> {
    checkTaskId(taskId);
    checkOptions("CompleteOptions", options, { expectedSequence: true, lease: true });
    const fencingToken = readToken(taskId, options.lease);
    const { id, sequence } = await this.#reader.newest(taskId);
    // If a save comes in between, its checkpoint must not be changed, because the caller doesn't know it.
    const { expectedSequence = sequence } = options;
    if (await this.#change(taskId, id, { status, error }, { expectedSequence, fencingToken })) return;
    // The checkpoint is gone. If the whole task is gone too, this call throws.
    const newest = await this.#reader.newest(taskId);
    throw new CheckpointConflictError(
      `Checkpoint ${id} was the newest of task ${JSON.stringify(taskId)}, but it was removed before its status could be changed. ` +
        `Nothing was changed; the newest is ${newest.id} (sequence ${newest.sequence}) now. Look at it, then decide.`,
    );
  }

  #change(
    taskId: string,
    id: string,
    { status, error }: { readonly status: CheckpointStatus; readonly error: unknown },
    condition: AppendCondition,
  ): Promise<boolean> {
    const { storage, redaction } = this.#options;
    const failure = error === undefined ? undefined : toFailure(error);
    const change = { status, ...(failure && { error: redaction?.failure(failure) ?? failure }) };
    return storage.setStatus(taskId, id, change, condition);
  }
}
