import type { CheckpointStatus, CheckpointSummary, CorruptRecord, JsonObject, TaskSummary } from "waymark";
import {
  type CheckpointState,
  countedWrites,
  findWritesStart,
  listHolders,
  type MarkedWritesRecord,
  parseThread,
  readableValue,
  readWrites,
  type StoredValue,
  toText,
  unmarked,
} from "waymark/langgraph/records";
import { DamagedCheckpointError } from "../damage.js";
import { isKeyMissing } from "../key-advice.js";
import { readStored } from "../read-stored.js";
import type { QuerySession } from "../store.js";
import { nodesText } from "./graph-nodes.js";
import { deriveThreadStatus } from "./thread-status.js";

type Reading = Pick<QuerySession, "storage" | "config" | "configured" | "damage">;

/** A thread's checkpoint as LangGraph returns it. Values are in their stored form: messages are LangChain's JSON. */
interface ThreadState {
  /** The values of all channels, including those that an older checkpoint stores. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly pendingWrites: readonly { readonly taskId: string; readonly channel: string; readonly value: unknown }[];
}

/**
 * Reads the state of a checkpoint: a {@link ThreadState} if it belongs to a thread, else the saved state.
 *
 * @throws {DamagedCheckpointError} The state can't be read, or one of its values is lost.
 * @throws {CheckpointError} The state is intact, but the configuration can't open it.
 */
export async function readState(session: Reading, checkpoint: CheckpointSummary): Promise<unknown> {
  const state = await readStored(session, checkpoint);
  const thread = parseThread(checkpoint.taskId, checkpoint.metadata);
  return thread !== undefined && isCheckpointState(state) ? threadState(session, checkpoint, state) : state;
}

async function threadState(
  session: Reading,
  checkpoint: CheckpointSummary,
  state: CheckpointState,
): Promise<ThreadState> {
  const holders = listHolders(checkpoint, state);
  const values = new Map<string, ReadonlyMap<string, StoredValue>>();
  values.set(checkpoint.id, new Map(Object.entries(state.values)));
  for (const id of new Set(holders.values())) {
    if (!values.has(id)) values.set(id, await valuesIn(session, checkpoint, id));
  }
  const entries = new Map(
    Array.from(holders, ([channel, id]) => {
      const value = values.get(id)?.get(channel);
      if (value === undefined) throw lostValue(checkpoint, channel, id);
      return [channel, value] as const;
    }),
  );
  const jsonOf = (channel: string) => {
    const value = entries.get(channel);
    return value && toText(value);
  };
  const records = await readWritesOn(session, checkpoint);
  const writes = countedWrites(records.map((record) => unmarked(record, jsonOf)));
  return {
    values: Object.fromEntries(Array.from(entries, ([channel, value]) => [channel, readableValue(value)])),
    pendingWrites: writes.map(({ record: { taskId }, write: { channel, value } }) => ({
      taskId,
      channel,
      value: readableValue(value),
    })),
  };
}

/** A thread's checkpoint with LangGraph's metadata in place of the record's own. */
export interface DescribedCheckpoint {
  readonly checkpoint: CheckpointSummary;
  /** The questions that the thread waits for at this checkpoint; `undefined` if they can't be read. */
  readonly interrupts: readonly unknown[] | undefined;
}

/** Returns the status that people see. A thread's status is in its writes, which may be unreadable. */
export function shownStatus(
  { status }: CheckpointSummary,
  interrupts: DescribedCheckpoint["interrupts"],
): CheckpointStatus | "unknown" {
  return interrupts === undefined && status === "running" ? "unknown" : status;
}

/**
 * Returns a thread's status as the status of a task. Without a lease, its runner isn't known: a running thread is
 * `interrupted`.
 */
export function threadStatus(
  newest: CheckpointSummary,
  interrupts: DescribedCheckpoint["interrupts"],
): TaskSummary["status"] | "unknown" {
  const status = shownStatus(newest, interrupts);
  if (status === "running") return "interrupted";
  return status === "paused" ? "waiting" : status;
}

/**
 * Adds LangGraph's metadata, step and status to a thread's checkpoint. Other checkpoints are returned unchanged. Damage
 * is reported.
 */
export async function describeCheckpoint(
  session: Reading,
  checkpoint: CheckpointSummary,
): Promise<DescribedCheckpoint> {
  const { metadata: own, ...rest } = checkpoint;
  const thread = parseThread(checkpoint.taskId, own);
  if (thread === undefined) return { checkpoint, interrupts: [] };
  try {
    const state = await readStored(session, checkpoint);
    if (!isCheckpointState(state)) return { checkpoint, interrupts: [] };
    const metadata = readableValue(state.metadata);
    const { interrupts, ...status } = deriveThreadStatus(await readWritesOn(session, checkpoint));
    if (!isObject(metadata)) return { checkpoint: { ...rest, ...status }, interrupts };
    const label = `step ${metadata["step"] ?? "?"}${nodesText(checkpoint, state)}`;
    return { checkpoint: { ...rest, label, metadata, ...status }, interrupts };
  } catch (error) {
    if (error instanceof DamagedCheckpointError) await session.damage.add(error.record);
    // If the key is missing, only the summary is known.
    else if (!isKeyMissing(error)) throw error;
    return { checkpoint: rest, interrupts: undefined };
  }
}

/** Returns the values that the checkpoint itself stores. If it is gone, there are none. */
async function valuesIn(
  session: Reading,
  { taskId, stateVersion }: CheckpointSummary,
  id: string,
): Promise<ReadonlyMap<string, StoredValue>> {
  if ((await session.storage.get(taskId, id)) === undefined) return new Map();
  // A reference always points to a checkpoint of the same version.
  const state = await readStored(session, { taskId, id, stateVersion });
  return new Map(isCheckpointState(state) ? Object.entries(state.values) : []);
}

/** Returns the writes on top of a checkpoint, in their order. Damaged ones are reported. */
async function readWritesOn({ configured }: Reading, checkpoint: CheckpointSummary): Promise<MarkedWritesRecord[]> {
  const { taskId, id } = checkpoint;
  return readWrites(await configured(), taskId, id, { afterSequence: findWritesStart(checkpoint) });
}

function lostValue(
  { taskId, id, sequence }: Pick<CheckpointSummary, "taskId" | "id" | "sequence">,
  channel: string,
  holder: string,
): DamagedCheckpointError {
  const found: CorruptRecord = {
    corrupt: true,
    taskId,
    id,
    sequence,
    ...lostValueFinding(taskId, id, channel, holder),
  };
  return new DamagedCheckpointError(`Checkpoint @${sequence} of task ${JSON.stringify(taskId)}`, found);
}

/** Returns the finding for a checkpoint that needs a removed one. */
export function lostValueFinding(taskId: string, id: string, channel: string, holder: string) {
  return {
    location: `checkpoint ${id} of task ${JSON.stringify(taskId)}`,
    reason: `the value of its channel ${JSON.stringify(channel)} was in checkpoint ${holder}, which is gone`,
  };
}

/** Another program may use a task of that name, so the state is checked. */
function isCheckpointState(state: unknown): state is CheckpointState {
  return isObject(state) && isObject(state["values"]) && isObject(state["metadata"]);
}

/** Whether a value parsed from JSON is an object. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
