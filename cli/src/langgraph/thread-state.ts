import type { CheckpointStatus, CheckpointSummary, CorruptRecord, JsonObject } from "waymark";
import {
  type CheckpointState,
  countedWrites,
  listHolders,
  type MarkedWritesRecord,
  parseThread,
  readableValue,
  type StoredValue,
  type Thread,
  toText,
  unmarked,
  WRITES_STAGE,
  writesTask,
} from "waymark/langgraph/records";
import { DamagedCheckpointError } from "../damage.js";
import { isKeyMissing } from "../key-advice.js";
import { readableSummaries, readStored } from "../read-stored.js";
import type { QuerySession } from "../store.js";
import { deriveThreadStatus } from "./thread-status.js";

type Reading = Pick<QuerySession, "storage" | "config" | "damage">;

/** A thread's checkpoint as LangGraph gives it. Values are in their stored form: messages are LangChain's JSON. */
interface ThreadState {
  /** The values of all channels, including those that an older checkpoint stores. */
  readonly values: Readonly<Record<string, unknown>>;
  readonly pendingWrites: readonly { readonly taskId: string; readonly channel: string; readonly value: unknown }[];
}

/**
 * Reads the state of a checkpoint: {@link ThreadState} for a thread's, otherwise the saved state.
 *
 * @throws {DamagedCheckpointError} The state can't be read, or one of its values is lost.
 * @throws {CheckpointError} The state is intact, but the configuration can't open it.
 */
export async function readState(session: Reading, checkpoint: CheckpointSummary): Promise<unknown> {
  const state = await readStored(session, checkpoint);
  const thread = parseThread(checkpoint.taskId, checkpoint.metadata);
  return thread !== undefined && isCheckpointState(state) ? threadState(session, thread, checkpoint, state) : state;
}

async function threadState(
  session: Reading,
  thread: Thread,
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
  const records = await readWrites(session, thread, checkpoint.id);
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
 * Adds LangGraph's metadata, step and status to a thread's checkpoint. Other checkpoints stay as they are. Damage is
 * reported.
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
    const { interrupts, ...status } = deriveThreadStatus(await readWrites(session, thread, checkpoint.id));
    const described = isObject(metadata) ? { label: `step ${metadata["step"] ?? "?"}`, metadata } : {};
    return { checkpoint: { ...rest, ...described, ...status }, interrupts };
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

/** Returns the writes of a checkpoint, in their order. Damaged records are reported. */
async function readWrites(session: Reading, thread: Thread, id: string): Promise<MarkedWritesRecord[]> {
  const records: MarkedWritesRecord[] = [];
  const query = { taskId: writesTask(thread, id), order: "oldest", stage: WRITES_STAGE } as const;
  for await (const summary of readableSummaries(session, query)) {
    const record = await readWritesRecord(session, summary);
    if (record !== undefined) records.push(record);
  }
  return records;
}

/** Returns a record of writes. If it is damaged, reports that and returns `undefined`. */
async function readWritesRecord(
  session: Reading,
  record: Parameters<typeof readStored>[1],
): Promise<MarkedWritesRecord | undefined> {
  try {
    // The saver stored this record, and its seal was checked.
    return (await readStored(session, record)) as MarkedWritesRecord;
  } catch (error) {
    if (!(error instanceof DamagedCheckpointError)) throw error;
    await session.damage.add(error.record);
    return undefined;
  }
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

/** The finding for a checkpoint that needs a removed one. */
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
