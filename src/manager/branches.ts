import { checkKeys, checkTaskId, keysOf } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { signalsOf } from "../contract/signals.js";
import { milestoneMetadata } from "../contract/transient.js";
import type { CheckpointReader } from "./reader.js";
import { checkSaveOptions, type SaveOptions, tokenOf } from "./save-options.js";
import type { CheckpointWriter } from "./writer.js";

type ForkOptions = Pick<SaveOptions, "label" | "metadata" | "lease">;
type RewindOptions = Pick<SaveOptions, "label" | "metadata" | "expectedSequence" | "lease">;

/** Copies an older checkpoint's state to a new checkpoint, in another task (`fork`) or in the same one (`rewind`). */
export class Branches {
  readonly #reader: CheckpointReader;
  readonly #writer: CheckpointWriter;

  constructor(reader: CheckpointReader, writer: CheckpointWriter) {
    this.#reader = reader;
    this.#writer = writer;
  }

  async fork(taskId: string, id: string, newTaskId: string, options: ForkOptions): Promise<CheckpointSummary> {
    checkTaskId(newTaskId);
    checkKeys("ForkOptions", options, keysOf<ForkOptions>({ label: true, metadata: true, lease: true }));
    try {
      await this.#reader.use(taskId, id, (record) => record);
      // The signals come first, since a worker may take the new task as soon as it has a checkpoint.
      if (!(await this.#reader.has(newTaskId))) await this.#writer.copyTask(signalsOf(taskId), signalsOf(newTaskId));
      const condition = { ...options, expectedSequence: 0 };
      const origin = { forkedFrom: { taskId, id } };
      return await this.#continue(taskId, id, newTaskId, condition, (metadata) => ({
        metadata: { ...metadata, ...origin },
      }));
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError)) throw cause;
      throw new CheckpointConflictError(
        `There is a task ${JSON.stringify(newTaskId)} already, or there are signals for it, so it can't begin as a fork. ` +
          "Nothing was stored; choose a task id that has none.",
        { cause },
      );
    }
  }

  async rewind(taskId: string, id: string, options: RewindOptions): Promise<CheckpointSummary> {
    const keys = keysOf<RewindOptions>({ label: true, metadata: true, expectedSequence: true, lease: true });
    checkKeys("RewindOptions", options, keys);
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
    tokenOf(newTaskId, options.lease);
    const draft = this.#reader.use(taskId, id, (source) => {
      const { label = source.label, metadata = source.metadata } = options;
      return this.#writer.draftCopy(source, newTaskId, {
        stage: source.stage,
        label,
        ...link(milestoneMetadata(metadata, source)),
      });
    });
    return this.#writer.appendCopy(newTaskId, draft, options, { taskId, id });
  }
}
