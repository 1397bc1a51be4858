import { payloadFor } from "../codec/payload.js";
import { checkTaskId } from "../contract/arguments.js";
import { type CheckpointSummary, findDamage } from "../contract/checkpoint.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { eventsTaskId } from "../contract/task-events.js";
import { milestoneMetadata } from "../contract/transient.js";
import { checkOptions } from "./check-options.js";
import type { ResolvedOptions } from "./options.js";
import type { CheckpointReader } from "./reader.js";
import { checkSaveOptions, readToken, type SaveOptions } from "./save-options.js";
import type { CheckpointWriter } from "./writer.js";

type ForkOptions = Pick<SaveOptions, "label" | "metadata" | "lease">;
type RewindOptions = Pick<SaveOptions, "label" | "metadata" | "expectedSequence" | "lease">;

/** Copies an older checkpoint's state to a new checkpoint, in another task (`fork`) or in the same one (`rewind`). */
export class Branches {
  readonly #options: ResolvedOptions;
  readonly #reader: CheckpointReader;
  readonly #writer: CheckpointWriter;

  constructor(options: ResolvedOptions, reader: CheckpointReader, writer: CheckpointWriter) {
    this.#options = options;
    this.#reader = reader;
    this.#writer = writer;
  }

  async fork(taskId: string, id: string, newTaskId: string, options: ForkOptions): Promise<CheckpointSummary> {
    checkTaskId(newTaskId);
    checkOptions("ForkOptions", options, { label: true, metadata: true, lease: true });
    try {
      await this.#reader.use(taskId, id, (record) => record);
      // The events come first, since a worker may take the new task as soon as it has a checkpoint.
      if (!(await this.#reader.has(newTaskId))) await this.#copyTask(eventsTaskId(taskId), eventsTaskId(newTaskId));
      return await this.#continue(taskId, id, newTaskId, { ...options, expectedSequence: 0 }, (metadata) => ({
        metadata: { ...metadata, forkedFrom: { taskId, id } },
      }));
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError)) throw cause;
      throw new CheckpointConflictError(
        `There is a task ${JSON.stringify(newTaskId)} already, or there are events for it, so it can't begin as a fork. ` +
          "Nothing was stored; choose a task id that has none.",
        { cause },
      );
    }
  }

  async rewind(taskId: string, id: string, options: RewindOptions): Promise<CheckpointSummary> {
    checkOptions("RewindOptions", options, { label: true, metadata: true, expectedSequence: true, lease: true });
    return this.#continue(taskId, id, taskId, options, (metadata) => ({ metadata, parentId: id }));
  }

  async #continue(
    taskId: string,
    id: string,
    newTaskId: string,
    options: RewindOptions,
    link: (metadata: object | undefined) => Pick<SaveOptions, "parentId" | "metadata">,
  ): Promise<CheckpointSummary> {
    checkSaveOptions(options);
    const { expectedSequence, lease } = options;
    const fencingToken = readToken(newTaskId, lease);
    const { transforms } = this.#options;
    // The stored state is neither decoded nor migrated.
    const draft = this.#reader.use(taskId, id, async (source) => {
      const { stage, stateVersion, payload } = source;
      const { label = source.label, metadata = source.metadata } = options;
      const linked = { stage, label, ...link(milestoneMetadata(metadata, source)) };
      const draft = this.#writer.draft(newTaskId, linked);
      const copy = { ...draft, stateVersion, ...(source.dueAt !== undefined && { dueAt: draft.createdAt }) };
      return { ...copy, ...(await payloadFor(copy, payload, { transforms, context: source })) };
    });
    return this.#writer.appendCopy(newTaskId, draft, { expectedSequence, fencingToken, sharesWith: { taskId, id } });
  }

  /** Copies the intact checkpoints of a task, each with its id, sequence, time and status. Done again, it changes nothing. */
  async #copyTask(from: string, to: string): Promise<void> {
    const { storage, transforms } = this.#options;
    for await (const record of storage.read({ taskId: from, order: "oldest" })) {
      if (isCorrupt(record) || findDamage(record) !== undefined) continue;
      const { seal: _seal, sequence, payload, ...fields } = record;
      const draft = { ...fields, taskId: to };
      const made = await payloadFor(draft, payload, { transforms, context: record });
      await storage.append({ ...draft, ...made }, {}, { sequence });
    }
  }
}
