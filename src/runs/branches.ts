import { payloadFor } from "../codec/payload.js";
import { checkInteger, checkTaskId } from "../contract/arguments.js";
import type { CheckpointDraft, CheckpointSummary, StoredCheckpoint } from "../contract/checkpoint.js";
import { type CorruptRecord, isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointConflictError, CheckpointNotFoundError } from "../contract/errors.js";
import { isRecord, type LogRecord, type RecordDraft, type RecordHeader } from "../contract/log.js";
import {
  findTurnStart,
  isReceived,
  leaveTurn,
  type ReceivedEvents,
  type RunNote,
  readRunNote,
  runMetadata,
} from "../contract/run-note.js";
import { formatRunKey, parseRunKey, type RunKey } from "../contract/run-record.js";
import { isChild, readParent, readWaits, withoutNote } from "../contract/transient.js";
import { checkOptions } from "../manager/check-options.js";
import { checkSaveOptions, readToken, type SaveOptions } from "../manager/save-options.js";
import type { AppendRequest } from "../manager/writer.js";
import { RecordedTurn } from "./recorded-turn.js";
import { readReceived } from "./run-state.js";
import type { RunStore } from "./run-store.js";

type ForkOptions = Pick<SaveOptions, "label" | "metadata" | "lease">;
type RewindOptions = Pick<SaveOptions, "label" | "metadata" | "expectedSequence" | "lease">;

/** The point of a task from which a branch continues. */
interface BranchPoint {
  /** The newest checkpoint up to the point. */
  readonly checkpoint: StoredCheckpoint;
  /** The checkpoint that has the branch's first state. */
  readonly source: StoredCheckpoint;
  /** Given if a run saved the checkpoint. */
  readonly note: RunNote | undefined;
  /** The recorded steps of the turn, if the branch continues in the middle of the turn. */
  readonly turn: RecordedTurn | undefined;
  readonly upTo: number;
}

/** The note and the records that a branch takes over from a run. */
interface CarriedRun {
  readonly note: RunNote;
  readonly records: readonly RecordDraft[];
}

/** Begins a new task (`fork`) or a new generation (`rewind`) with the state of a task at an earlier point. */
export class Branches {
  readonly #store: RunStore;

  constructor(store: RunStore) {
    this.#store = store;
  }

  async fork(
    taskId: string,
    point: string | number,
    newTaskId: string,
    options: ForkOptions,
  ): Promise<CheckpointSummary> {
    checkTaskId(newTaskId);
    checkOptions("ForkOptions", options, { label: true, metadata: true, lease: true });
    const condition = { expectedSequence: 0, ...(this.#store.hasLog && { noEventAfter: 0 }) };
    try {
      return await this.#branch(taskId, point, newTaskId, options, condition);
    } catch (cause) {
      if (!(cause instanceof CheckpointConflictError)) throw cause;
      throw new CheckpointConflictError(
        `Task ${JSON.stringify(newTaskId)} already has checkpoints or events, so it can't begin as a fork. ` +
          "Nothing was stored; choose an unused task id.",
        { cause },
      );
    }
  }

  async rewind(taskId: string, point: string | number, options: RewindOptions): Promise<CheckpointSummary> {
    checkOptions("RewindOptions", options, { label: true, metadata: true, expectedSequence: true, lease: true });
    const { expectedSequence } = options;
    return this.#branch(taskId, point, taskId, options, { expectedSequence });
  }

  async #branch(
    taskId: string,
    point: string | number,
    newTaskId: string,
    { expectedSequence: _, lease, ...options }: RewindOptions,
    condition: Pick<AppendRequest, "expectedSequence" | "noEventAfter">,
  ): Promise<CheckpointSummary> {
    checkSaveOptions(options);
    const fencingToken = readToken(newTaskId, lease);
    const made = this.#findPoint(taskId, point).then(async (from): Promise<[CheckpointDraft, AppendRequest]> => {
      const { checkpoint, source } = from;
      const isFork = newTaskId !== taskId;
      const {
        stage,
        metadata: given = withoutNote(checkpoint.metadata),
        label = checkpoint.label,
      } = {
        ...options,
        stage: checkpoint.stage,
      };
      const forkedFrom = { taskId, id: checkpoint.id, ...(typeof point === "number" && { sequence: point }) };
      const metadata = isFork ? { ...given, forkedFrom } : given;
      const parent = isFork ? {} : { parentId: checkpoint.id };
      const draft = this.#store.draftBranch(newTaskId, { stage, label, metadata, ...parent });
      const events = isFork ? await this.#copyEvents(taskId, newTaskId) : undefined;
      const carried = from.note && (await this.#carryRun(from, from.note, draft.id, newTaskId, events?.renamed));
      const copy = {
        ...draft,
        stateVersion: source.stateVersion,
        ...(carried && {
          metadata: { ...draft.metadata, ...runMetadata(carried.note, readBranchFlags(from, draft.createdAt)) },
        }),
        ...(from.note && !isChild(checkpoint) && { dueAt: draft.createdAt }),
      };
      const { transforms } = this.#store.options;
      // Copying checks the payload's digest. Damage is reported as that of the source checkpoint.
      const { reader } = this.#store;
      const payload = await reader.use(taskId, source.id, (record) =>
        payloadFor(copy, record.payload, { transforms, context: record }),
      );
      const records = [...(events?.records ?? []), ...(carried?.records ?? [])];
      const log = records.length > 0 && { records, ...(isFork && { sequence: records.length + 1 }) };
      const sharesWith = { taskId, id: source.id };
      return [
        { ...copy, ...payload },
        { ...condition, ...log, fencingToken, sharesWith },
      ];
    });
    return this.#store.appendBranch(newTaskId, made, lease);
  }

  /**
   * @throws {CheckpointNotFoundError} The checkpoint or record doesn't exist, or its turn's first checkpoint is gone.
   */
  async #findPoint(taskId: string, point: string | number): Promise<BranchPoint> {
    const { reader } = this.#store;
    const id = typeof point === "string" ? point : await this.#findCheckpoint(taskId, point);
    const checkpoint = await reader.use(taskId, id, (record) => record);
    const note = readRunNote(checkpoint);
    const upTo = typeof point === "number" ? point : checkpoint.sequence;
    // If the run has ended, the branch runs every step again.
    if (note === undefined || note.isOver || checkpoint.status === "completed") {
      return { checkpoint, source: checkpoint, note, turn: undefined, upTo };
    }
    const turn = await RecordedTurn.read(this.#store, taskId, note, checkpoint.sequence, { upTo });
    const source = note.turnStart === undefined ? checkpoint : await this.#readStart(taskId, note.turnStart);
    return { checkpoint, source, note, turn, upTo };
  }

  /**
   * Finds the id of the newest checkpoint up to a record, if the checkpoint belongs to the record's turn. Inputs, and
   * records that a fork or a rewind has copied, come before their turn's first checkpoint.
   */
  async #findCheckpoint(taskId: string, sequence: number): Promise<string> {
    checkTaskId(taskId);
    checkInteger("The sequence of a record", sequence, 1);
    const item = await this.#store.itemAt(taskId, sequence);
    const key = item && !isCorrupt(item) && isRecord(item) ? parseRunKey(item) : undefined;
    const upTo = { taskId, order: "newest", beforeSequence: sequence + 1 } as const;
    const after = { taskId, order: "oldest", afterSequence: sequence } as const;
    for (const query of item ? [upTo, after] : []) {
      const checkpoint = await this.#store.firstCheckpoint(query);
      if (checkpoint === undefined || (key && !isOfTurn(checkpoint, key))) continue;
      if (isCorrupt(checkpoint) || (query === after && readRunNote(checkpoint)?.turnStart !== undefined)) break;
      return checkpoint.id;
    }
    throw new CheckpointNotFoundError(
      `Task ${JSON.stringify(taskId)} has no record ${sequence}, or the checkpoint of its turn is gone. Nothing was stored; take ` +
        "another record or a checkpoint.",
      { taskId },
    );
  }

  async #readStart(taskId: string, sequence: number): Promise<StoredCheckpoint> {
    const start = await this.#store.checkpointAt(taskId, sequence);
    if (start !== undefined) return start;
    throw new CheckpointNotFoundError(
      `The checkpoint at which this turn of task ${JSON.stringify(taskId)} started (sequence ${sequence}) is gone, so nothing can branch off ` +
        "within the turn. Nothing was stored; take an older or a newer checkpoint.",
      { taskId },
    );
  }

  /** Makes the note of the branch's run, and copies the records of the turn up to the point for the new generation. */
  async #carryRun(
    { checkpoint, turn, upTo }: BranchPoint,
    note: RunNote,
    generation: string,
    taskId: string,
    renamed: ReadonlyMap<number, number> | undefined,
  ): Promise<CarriedRun> {
    const isNextTurn = turn === undefined;
    const kept = { ...leaveTurn(note), turn: isNextTurn ? note.turn + 1 : note.turn, attempt: 0 };
    const { began, received: _received, ...head } = kept;
    const records: RecordDraft[] = [];
    const receipts = new Set<number>();
    const key = { generation, turn: head.turn, attempt: 0 };
    const from = checkpoint.taskId;
    const range = { afterSequence: findTurnStart(note, checkpoint.sequence), beforeSequence: upTo + 1 };
    const kinds = ["step", "run", "mark"] as const;
    for await (const record of turn ? this.#store.records({ taskId: from, order: "oldest", ...range, kinds }) : []) {
      if (!turn?.isKept(record)) continue;
      const { occurrence, event } = parseRunKey(record) ?? {};
      if (event !== undefined) receipts.add(event);
      const newEvent = event === undefined ? undefined : (renamed?.get(event) ?? event);
      const recordKey = formatRunKey({ ...key, occurrence, event: newEvent });
      records.push(...(await this.#copyRecord(record, taskId, { recordKey })));
    }
    const input = note.hasInput && (await this.#store.recordAt(from, (began ?? checkpoint.sequence) - 1, "run"));
    if (input) records.push(...(await this.#copyRecord(input, taskId, { recordKey: formatRunKey(key) })));
    const received = await this.#readReceived(from, receipts, renamed);
    const carried = records.length > 0 ? { carried: records.length } : {};
    const forkedFrom = taskId === from ? {} : { forkedFrom: { taskId: from, id: checkpoint.id } };
    return { note: { ...head, ...forkedFrom, generation, ...carried, ...(received && { received }) }, records };
  }

  /**
   * Returns the events that the task has received so far, except the events of `receipts`, whose receipts are records
   * of the branch.
   */
  async #readReceived(
    taskId: string,
    receipts: ReadonlySet<number>,
    renamed: ReadonlyMap<number, number> | undefined,
  ): Promise<ReceivedEvents | undefined> {
    const newest = await this.#store.newestOfRun(taskId);
    const note = newest && readRunNote(newest);
    if (newest === undefined || note === undefined) return undefined;
    const received = await readReceived(this.#store, newest, note);
    let range: [number, number] = [0, 0];
    const ranges = [range];
    let isPending = false;
    const query = { taskId, order: "oldest", kinds: ["event"], headersOnly: true } as const;
    for await (const { sequence } of this.#store.records(query)) {
      const newSequence = renamed === undefined ? sequence : renamed.get(sequence);
      if (newSequence === undefined) continue;
      if (!isReceived(received, sequence) || receipts.has(sequence)) {
        isPending = true;
        continue;
      }
      if (isPending) {
        range = [newSequence, newSequence];
        ranges.push(range);
        isPending = false;
      }
      range[1] = newSequence;
    }
    return range[1] === 0 ? undefined : ranges;
  }

  /** Copies the task's events for a fork, whose first records they become. Maps their sequences to the new ones. */
  async #copyEvents(taskId: string, newTaskId: string) {
    const renamed = new Map<number, number>();
    const records: RecordDraft[] = [];
    if (!this.#store.hasLog) return { renamed, records };
    for await (const event of this.#store.records({ taskId, order: "oldest", kinds: ["event"] })) {
      const copied = await this.#copyRecord(event, newTaskId, {});
      records.push(...copied);
      if (copied.length > 0) renamed.set(event.sequence, records.length);
    }
    return { renamed, records };
  }

  /** Copies a record for another task or generation. Returns an empty list if the record's body was removed. */
  async #copyRecord(
    record: LogRecord | RecordHeader,
    taskId: string,
    change: Pick<RecordDraft, "recordKey">,
  ): Promise<readonly RecordDraft[]> {
    const { sequence: _sequence, seal: _seal, taskId: _taskId, payload, ...fields } = record;
    if (!("body" in payload) || "sizeBytes" in fields) return [];
    const draft = { ...fields, ...change };
    const { transforms } = this.#store.options;
    const copied = await payloadFor({ ...draft, taskId }, payload, { transforms, context: record });
    return [{ ...draft, payload: copied.payload }];
  }
}

function isOfTurn(checkpoint: CheckpointSummary | CorruptRecord, { generation, turn }: RunKey): boolean {
  const note = isCorrupt(checkpoint) ? undefined : readRunNote(checkpoint);
  return note?.generation === generation && note.turn === turn;
}

/** A branch lists the events that its run waits for, and is due at once. A fork of a child run is also a child run. */
function readBranchFlags({ checkpoint, turn }: BranchPoint, dueAt: string) {
  const waits = turn && readWaits(checkpoint);
  return { ...(waits?.waitsFor.length && { waits: { ...waits, dueAt } }), parent: readParent(checkpoint) };
}
