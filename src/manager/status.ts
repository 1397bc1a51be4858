import { type AppendCondition, checkKeys } from "../contract/adapter.js";
import { type CheckpointStatus, failureOf } from "../contract/checkpoint.js";
import { checkId, checkStatus, checkTaskId } from "./arguments.js";
import type { ResolvedOptions } from "./options.js";
import { type CheckpointReader, notFound } from "./reader.js";
import { type SaveOptions, tokenOf } from "./save-options.js";
import type { StateSchema } from "./schema.js";

type SetStatusOptions = Pick<SaveOptions, "error" | "lease">;
/** `expectedSequence`: by default the newest checkpoint's sequence at the time of the call. */
type CompleteOptions = Pick<SaveOptions, "expectedSequence" | "lease">;

/** Changes the status of checkpoints. */
export class StatusChanger<Schema extends StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  readonly #reader: CheckpointReader<Schema>;

  constructor(options: ResolvedOptions<Schema>, reader: CheckpointReader<Schema>) {
    this.#options = options;
    this.#reader = reader;
  }

  /** @throws {CheckpointNotFoundError | CheckpointConflictError} */
  async set(taskId: string, id: string, status: CheckpointStatus, options: SetStatusOptions): Promise<void> {
    checkTaskId(taskId);
    checkId("A checkpoint id", id);
    checkStatus(status);
    checkKeys("SetStatusOptions", options, ["error", "lease"] satisfies (keyof SetStatusOptions)[]);
    const { error, lease } = options;
    await this.#change(taskId, id, { status, error }, { fencingToken: tokenOf(taskId, lease) });
  }

  /** @throws {CheckpointNotFoundError | CheckpointConflictError} */
  async setNewest(taskId: string, status: CheckpointStatus, error: unknown, options: CompleteOptions): Promise<void> {
    checkTaskId(taskId);
    checkKeys("CompleteOptions", options, ["expectedSequence", "lease"] satisfies (keyof CompleteOptions)[]);
    const fencingToken = tokenOf(taskId, options.lease);
    const { id, sequence } = await this.#reader.newest(taskId);
    // A save in between makes another checkpoint the newest; the caller knows nothing of that one.
    const { expectedSequence = sequence } = options;
    await this.#change(taskId, id, { status, error }, { expectedSequence, fencingToken });
  }

  async #change(
    taskId: string,
    id: string,
    { status, error }: { readonly status: CheckpointStatus; readonly error: unknown },
    condition: AppendCondition,
  ): Promise<void> {
    const { storage, redaction } = this.#options;
    const failure = error === undefined ? undefined : failureOf(error);
    const change = { status, ...(failure && { error: redaction?.failure(failure) ?? failure }) };
    const found = await storage.setStatus(taskId, id, change, condition);
    if (!found) throw notFound(taskId, id);
  }
}
