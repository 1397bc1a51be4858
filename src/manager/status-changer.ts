import { checkKeys } from "../contract/adapter.js";
import { type CheckpointStatus, failureOf } from "../contract/checkpoint.js";
import { checkTaskId } from "./arguments.js";
import type { CompleteOptions, ResolvedOptions } from "./options.js";
import { type CheckpointReader, notFound } from "./reader.js";
import type { StateSchema } from "./schema.js";

/** Changes the status of checkpoints, of one by its id or of a task's newest. */
export class StatusChanger<Schema extends StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  readonly #reader: CheckpointReader<Schema>;

  constructor(options: ResolvedOptions<Schema>, reader: CheckpointReader<Schema>) {
    this.#options = options;
    this.#reader = reader;
  }

  /** @throws {CheckpointNotFoundError | CheckpointConflictError} */
  async set(
    taskId: string,
    id: string,
    status: CheckpointStatus,
    error: unknown,
    expectedSequence?: number,
  ): Promise<void> {
    const { storage, redaction } = this.#options;
    const failure = error === undefined ? undefined : failureOf(error);
    const change = { status, ...(failure && { error: redaction?.failure(failure) ?? failure }) };
    const found = await storage.setStatus(taskId, id, change, { expectedSequence });
    if (!found) throw notFound(taskId, id);
  }

  /** @throws {CheckpointNotFoundError | CheckpointConflictError} */
  async setNewest(taskId: string, status: CheckpointStatus, error: unknown, options: CompleteOptions): Promise<void> {
    checkTaskId(taskId);
    checkKeys("CompleteOptions", options, ["expectedSequence"]);
    const { id, sequence } = await this.#reader.newest(taskId);
    // Whoever saves in between makes another checkpoint the newest; then it isn't ours to call done.
    const { expectedSequence = sequence } = options;
    await this.set(taskId, id, status, error, expectedSequence);
  }
}
