import {
  type CheckpointManager,
  type CheckpointSummary,
  type StorageAdapter,
  UnsupportedOperationError,
} from "waymark";
import {
  type CheckpointQuery,
  isCorrupt,
  makePayload,
  type StoredCheckpoint,
  sealDraft,
  type TaskQuery,
} from "waymark/adapter";
import { DamagedCheckpointError } from "./damage.js";
import { readState } from "./langgraph/thread-state.js";
import { wholeIn } from "./langgraph/whole-checkpoints.js";
import { makeManager, type QuerySession } from "./store.js";

/**
 * Returns a manager that sees a task's states as the command shows them: without a schema and migrations. A thread's
 * states have the values of all channels. The manager is read-only.
 */
export async function shownStates(session: QuerySession, taskId: string): Promise<CheckpointManager> {
  const storage = new ShownStates(session, await wholeIn(session, taskId));
  return makeManager(storage, {}, session.damage);
}

class ShownStates implements StorageAdapter {
  readonly name = "shown states";
  readonly capabilities = { durable: false, multiProcess: false } as const;
  readonly #session: QuerySession;
  readonly #isShown: (checkpoint: CheckpointSummary) => boolean;

  constructor(session: QuerySession, isShown: (checkpoint: CheckpointSummary) => boolean) {
    this.#session = session;
    this.#isShown = isShown;
  }

  /** @throws {DamagedCheckpointError} The checkpoint can't be read. */
  async get(taskId: string, id: string) {
    const found = await this.#session.storage.get(taskId, id);
    if (found === undefined) return undefined;
    if (isCorrupt(found)) throw new DamagedCheckpointError(`Checkpoint ${id} of task ${JSON.stringify(taskId)}`, found);
    return this.#shown(found);
  }

  /** Skips damaged checkpoints, and reports them to the session. */
  async *read(query: CheckpointQuery) {
    for await (const found of this.#session.storage.list(query)) {
      if (isCorrupt(found)) await this.#session.damage.add(found);
      else if (this.#isShown(found)) {
        try {
          yield await this.#shown(found);
        } catch (error) {
          if (!(error instanceof DamagedCheckpointError)) throw error;
          await this.#session.damage.add(error.record);
        }
      }
    }
  }

  list = (query: CheckpointQuery) => this.#session.storage.list(query);
  tasks = (query: TaskQuery) => this.#session.storage.tasks(query);
  append = refuse;
  setStatus = refuse;
  remove = refuse;
  close = async () => undefined;

  /** Returns the checkpoint as if it had been saved without transforms, in the first version of its state. */
  async #shown(summary: CheckpointSummary): Promise<StoredCheckpoint> {
    const context = { ...summary, stateVersion: 1 };
    const state = await readState(this.#session, summary);
    const made = await makePayload(state, { context, maxBytes: Number.MAX_SAFE_INTEGER });
    return sealDraft({ ...context, ...made }, summary.sequence);
  }
}

async function refuse(): Promise<never> {
  throw new UnsupportedOperationError("These states can only be read. Nothing was changed.");
}
