import type { MadePayload, MakePayloadOptions } from "../../src/codec/payload.js";
import { checkTaskId } from "../../src/contract/arguments.js";
import type { CheckpointStatus, CheckpointSummary, JsonObject } from "../../src/contract/checkpoint.js";
import { CheckpointConflictError } from "../../src/contract/errors.js";
import { requireLog } from "../../src/manager/records.js";
import type { ThreadEnd } from "./known-checkpoints.js";
import type { WaymarkSaverOptions } from "./options.js";
import { type SerializedState, type SerializedWrites, statePayload, writesPayload } from "./serialized-state.js";
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
  /**
   * The first writes of checkpoints that aren't stored yet, as far as is known: LangGraph may store the results of a
   * step before the checkpoint that the step began at. By {@link nameCheckpoint}; resolves to the sequence.
   */
  readonly #early = new Map<string, Promise<number>>();

  constructor(options: ThreadWriterOptions) {
    this.#options = options;
  }

  /** Appends a checkpoint. Returns the thread's new end, and the sequence after which the checkpoint's writes come. */
  async append(
    thread: Thread,
    state: SerializedState,
    { id, parentId, stage, status, metadata, read }: Appended,
  ): Promise<{ readonly end: ThreadEnd; readonly writesAfter: number }> {
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
      const name = nameCheckpoint(taskId, id);
      const early = this.#early.get(name);
      // If those writes failed, later ones may have any sequence. Without early writes, don't await: writes that are
      // put from now on must come after the checkpoint.
      const first = early === undefined ? undefined : await early.catch(() => 1);
      const draft = {
        ...{ taskId, id, stage, status },
        ...(parentId === "" ? undefined : { parentId }),
        metadata: {
          ...metadata,
          ...(highestId === id ? undefined : { highest: highestId }),
          ...(first === undefined ? undefined : { writesAfter: first - 1 }),
        },
      };
      try {
        const sequence = await this.#store(draft, state, end.sequence);
        this.#early.delete(name);
        return { end: { sequence, newestId: id, highestId }, writesAfter: (first ?? sequence + 1) - 1 };
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
   * Appends the writes of a node to the thread's log.
   *
   * @param id - The id of the checkpoint that the writes are on top of.
   */
  async appendWrites(thread: Thread, id: string, writes: Omit<SerializedWrites, "stateVersion">): Promise<void> {
    const { storage, reader, stateVersion } = this.#options;
    const taskId = checkpointsTask(thread);
    const draft = { kind: "step", name: id, createdAt: this.#now() } as const;
    const making = writesPayload({ ...writes, stateVersion }, this.#payloadOptions({ ...draft, taskId }));
    const log = requireLog(storage, "WaymarkSaver");
    const stored = this.#inOrder(making).then(({ payload }) => log.append(taskId, [{ ...draft, payload }]));
    const name = nameCheckpoint(taskId, id);
    if (reader.known.get(taskId, id) === undefined && !this.#early.has(name)) {
      this.#early.set(name, stored);
      // A checkpoint that was stored long ago isn't known any more, so its writes would stay here: drop the oldest.
      for (const oldest of [...this.#early.keys()].slice(0, -MAX_EARLY)) this.#early.delete(oldest);
    }
    await stored;
  }

  /**
   * Like the manager's `save`, but it neither walks through the values nor reads the record with the given id again.
   */
  async #store(
    summary: Pick<CheckpointSummary, "taskId" | "id" | "parentId" | "stage" | "status" | "metadata">,
    state: SerializedState,
    expectedSequence: number | undefined,
  ): Promise<number> {
    const { storage, stateVersion } = this.#options;
    checkTaskId(summary.taskId);
    const draft = { ...summary, createdAt: this.#now(), stateVersion };
    const made = await this.#inOrder(statePayload(state, this.#payloadOptions(draft)));
    return storage.append({ ...draft, ...made }, { expectedSequence });
  }

  /** Keeps call order when a later payload is ready first. */
  async #inOrder(making: MadePayload | Promise<MadePayload>): Promise<MadePayload> {
    const inOrder = Promise.all([making, this.#lastMade]);
    // The failure belongs to the caller of this write, not to the next one.
    this.#lastMade = inOrder.catch(() => undefined);
    return (await inOrder)[0];
  }

  #payloadOptions(context: MakePayloadOptions["context"]): MakePayloadOptions {
    const { transforms, maxPayloadBytes } = this.#options;
    return { context, transforms, maxBytes: maxPayloadBytes };
  }

  #now(): string {
    const { clock = Date.now } = this.#options;
    return new Date(clock()).toISOString();
  }
}

/** How many checkpoints' first writes are remembered. A run is at most a few checkpoints ahead of its storage. */
const MAX_EARLY = 1_000;

/** A checkpoint's name among those of all threads. */
function nameCheckpoint(taskId: string, id: string): string {
  return `${id} ${taskId}`;
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
