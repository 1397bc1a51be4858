import type { MadePayload, MakePayloadOptions } from "../../src/codec/payload.js";
import type { AppendOptions } from "../../src/contract/adapter.js";
import { checkTaskId } from "../../src/contract/arguments.js";
import type { CheckpointStatus, CheckpointSummary, JsonObject } from "../../src/contract/checkpoint.js";
import type { AppendCondition } from "../../src/contract/conditions.js";
import { CheckpointConflictError } from "../../src/contract/errors.js";
import type { ThreadEnd } from "./known-checkpoints.js";
import type { WaymarkSaverOptions } from "./options.js";
import { type SerializedState, statePayload } from "./serialized-state.js";
import { checkpointsTask, type Thread } from "./task-ids.js";
import type { ThreadReader } from "./thread-reader.js";

export interface ThreadWriterOptions
  extends Pick<WaymarkSaverOptions, "storage" | "transforms" | "maxPayloadBytes" | "clock"> {
  readonly stateVersion: number;
  readonly exclusive: boolean;
  readonly reader: ThreadReader;
}

/** Stores the records of threads. */
export class ThreadWriter {
  readonly #options: ThreadWriterOptions;
  /** Settles once all earlier payloads are made. */
  #lastMade: Promise<unknown> = Promise.resolve();

  constructor(options: ThreadWriterOptions) {
    this.#options = options;
  }

  /** Appends a record. Returns the thread's new end. */
  async append(
    thread: Thread,
    state: SerializedState,
    { id, parentId, stage, status, metadata, read }: Appended,
  ): Promise<ThreadEnd> {
    const { reader, exclusive } = this.#options;
    const taskId = checkpointsTask(thread);
    // A run continues from the end that it has read. An update or a copy builds on a checkpoint that was just read, so
    // it takes the thread's end as it is now.
    const goesOn = stage === "input" || stage === "loop";
    const mustBeThere = parentId !== "" && thread.namespace === "";
    const isBound = goesOn && exclusive && (read !== undefined || mustBeThere);
    for (let end = (goesOn ? read : undefined) ?? (await reader.end(taskId)); ; ) {
      const isRemoved =
        read === undefined ? isBound : (end.sequence ?? Number.POSITIVE_INFINITY) < (read.sequence ?? 0);
      if (isRemoved) throw overtaken(taskId, parentId);
      const highestId = end.highestId > id ? end.highestId : id;
      const draft = {
        ...{ taskId, id, stage, status },
        ...(parentId === "" ? undefined : { parentId }),
        metadata: highestId === id ? metadata : { ...metadata, highest: highestId },
      };
      try {
        return {
          sequence: await this.store(draft, (options) => statePayload(state, options), {
            expectedSequence: end.sequence,
          }),
          newestId: id,
          highestId,
        };
      } catch (error) {
        if (!(error instanceof CheckpointConflictError)) throw error;
        const now = await reader.end(taskId);
        // The thread hasn't changed, so the conflict is that the id is taken.
        if (now.sequence === end.sequence) throw error;
        if (isBound) throw overtaken(taskId, parentId, error);
        end = now;
      }
    }
  }

  /**
   * Like the manager's `save`, but it neither walks through the values nor reads the record with the given id again.
   */
  async store(
    summary: Pick<CheckpointSummary, "taskId" | "id" | "parentId" | "stage" | "status" | "metadata">,
    make: (options: MakePayloadOptions) => MadePayload | Promise<MadePayload>,
    { expectedSequence, ...options }: AppendCondition & AppendOptions = {},
  ): Promise<number> {
    const { storage, transforms, maxPayloadBytes, clock = Date.now, stateVersion } = this.#options;
    checkTaskId(summary.taskId);
    const draft = { ...summary, createdAt: new Date(clock()).toISOString(), stateVersion };
    const making = make({ context: draft, transforms, maxBytes: maxPayloadBytes });
    // Keeps call order when a later payload is ready first.
    const inOrder = Promise.all([making, this.#lastMade]);
    this.#lastMade = inOrder.catch(() => undefined);
    const [made] = await inOrder;
    return storage.append({ ...draft, ...made }, { expectedSequence }, options);
  }
}

interface Appended {
  readonly id: string;
  /** Empty if the checkpoint has no parent. */
  readonly parentId: string;
  readonly stage: string;
  readonly status: CheckpointStatus;
  readonly metadata: JsonObject;
  /** Where the thread ended when the parent was read. */
  readonly read: ThreadEnd | undefined;
}

function overtaken(taskId: string, parentId: string, cause?: CheckpointConflictError): CheckpointConflictError {
  const since = parentId === "" ? "it was found empty" : `checkpoint ${parentId} was read`;
  return new CheckpointConflictError(
    `Another run, or an updateState, has continued this thread since ${since}, or the thread was deleted ` +
      `(task ${JSON.stringify(taskId)}). The thread's new records are untouched, and this run has stored no ` +
      "checkpoint since. Let one run at a time continue a thread, or set exclusive: false.",
    { cause },
  );
}
