import { setTimeout as pause } from "node:timers/promises";
import { types } from "node:util";
import type { EncodedState } from "../codec/json.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError, CheckpointError } from "../contract/errors.js";
import type { RecordDraft } from "../contract/log.js";
import { leaveTurn, type ReceivedEvents, type RunNote } from "../contract/run-note.js";
import { formatRunKey, PAUSING, stepTitle } from "../contract/run-record.js";
import type { RunWaits } from "../contract/transient.js";
import type { Lease } from "../manager/lease.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { ParentRun } from "./nesting.js";
import { RecordedTurn } from "./recorded-turn.js";
import type { NewestCheckpoint, RunState } from "./run-state.js";
import type { RunStore } from "./run-store.js";

/** A record of the run that is to be appended. */
export interface RunRecordDraft {
  readonly kind: "step" | "run" | "mark";
  /** Given for a step, a wait, or a milestone of `run.save`. */
  readonly name?: string;
  readonly occurrence?: number;
  /** The sequence of the event that a wait has received or refused. */
  readonly event?: number | undefined;
  readonly value: EncodedState;
}

/** A checkpoint of the run that is to be saved. */
export interface RunSave extends Pick<SaveOptions, "stage" | "label" | "metadata" | "status" | "error"> {
  readonly isTransient?: boolean;
  /** Default: the newest state. */
  readonly state?: EncodedState;
  /** Whether a turn starts with this checkpoint. */
  readonly startsTurn?: boolean;
  /** Changes of what the checkpoint tells about the run. */
  readonly note?: Partial<RunNote>;
  readonly waits?: RunWaits | undefined;
  /** Stored in the same step. */
  readonly records?: readonly RunRecordDraft[];
  readonly noEventAfter?: number | undefined;
}

/** A record that waits for the write before it. */
interface WaitingRecord {
  readonly draft: RecordDraft | Promise<RecordDraft>;
  readonly isLazy: boolean;
  resolve(sequence: number): void;
  reject(error: unknown): void;
}

/** The first pause before a write is tried again. Each further pause is twice as long. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;

/** Writes the records and checkpoints of one attempt. It makes one write at a time. */
export class RunJournal {
  readonly #store: RunStore;
  readonly #lease: Lease;
  readonly #parent: ParentRun | undefined;
  readonly #failed: (error: unknown) => void;
  #note: RunNote;
  /** What earlier attempts have recorded of the turn. */
  recorded: RecordedTurn;
  /** The state at the beginning of the turn. */
  begin: EncodedState;
  #state: EncodedState;
  #newest: NewestCheckpoint;
  #lastStep: string | undefined;
  /** How many steps of the turn are recorded. */
  recordedSteps: number;
  /** Whether this attempt has recorded anything but starts. */
  #hasProgress = false;
  #waiting: WaitingRecord[] = [];
  #isFlushing = false;
  /** Settles with the last write that was asked for. Never rejects. */
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param parent - Given if the run began inside another run.
   * @param failed - Called once a write has failed for good. Then nothing more is stored.
   */
  constructor(
    store: RunStore,
    lease: Lease,
    state: RunState,
    parent: ParentRun | undefined,
    failed: (error: unknown) => void,
  ) {
    this.#store = store;
    this.#lease = lease;
    this.#parent = parent;
    this.#failed = failed;
    this.#note = state.note;
    this.recorded = state.steps;
    this.begin = state.begin;
    this.#state = state.state;
    this.#newest = state.newest;
    this.recordedSteps = state.steps.size;
    const last = state.steps.all().at(-1);
    this.#lastStep = last && stepTitle(last.name || "a save", last.occurrence);
  }

  /** Where the run stands. */
  get head(): RunNote {
    return this.#note;
  }

  /** The last sequence of the task that is known. */
  get lastSequence(): number {
    return this.#newest.last;
  }

  setTraceparent(traceparent: string): void {
    this.#note = { ...this.#note, traceparent };
  }

  /** A label that names the last step: `Run failed after plan`. */
  labelAfterLast(what: string): string {
    return this.#lastStep === undefined ? what : `${what} after ${this.#lastStep}`;
  }

  /**
   * Appends a record. Records that are appended at the same time share a write.
   *
   * @param isLazy - Whether the record needn't survive a power cut yet.
   * @returns Its sequence, once it is stored.
   */
  append(record: RunRecordDraft, isLazy = false): Promise<number> {
    return new Promise((resolve, reject) => {
      const draft = this.#draftRecord(record);
      // The write before it may take longer than the draft. Its failure is thrown by the flush.
      if (types.isPromise(draft)) draft.catch(() => undefined);
      this.#waiting.push({ draft, isLazy, resolve, reject });
      if (record.kind !== "mark") this.#progress();
      if (this.#isFlushing) return;
      this.#isFlushing = true;
      // A failure has stopped the run, and each record's own promise rejects.
      this.#inTurn(() => this.#flush()).catch(() => undefined);
    });
  }

  /** Appends the record of a finished step or wait. */
  recordStep(
    { name, occurrence }: { readonly name: string; readonly occurrence: number },
    value: EncodedState,
    event?: number,
  ): Promise<number> {
    this.#lastStep = stepTitle(name, occurrence);
    this.recordedSteps += 1;
    return this.append({ kind: "step", name, occurrence, event, value });
  }

  /** Saves a checkpoint, after the writes under way. */
  save(save: RunSave): Promise<CheckpointSummary> {
    return this.#inTurn(() => this.#save(save));
  }

  /** Ends the turn with a milestone, with which the next turn begins. */
  async endTurn(state: EncodedState, options: RunSave, received: ReceivedEvents | undefined): Promise<void> {
    const note = { turn: this.#note.turn + 1, ...(received && { received }) };
    await this.save({ ...options, state, startsTurn: true, note });
    this.begin = state;
    this.recorded = RecordedTurn.begin(this.#store, this.#lease.taskId, this.#note);
    this.recordedSteps = 0;
    this.#lastStep = undefined;
  }

  /** Saves a milestone in the middle of the turn. Resolves to the sequence of its record, and to its id. */
  async saveMilestone(
    state: EncodedState,
    { name, occurrence }: { readonly name: string; readonly occurrence: number },
    options: RunSave,
  ): Promise<{ readonly id: string; readonly sequence: number }> {
    let id = "";
    const records = (checkpointId: string): readonly RunRecordDraft[] => {
      id = checkpointId;
      const text = JSON.stringify({ type: "saved", id });
      return [{ kind: "run", name, occurrence, value: { encoding: "json", text } }];
    };
    const { sequence } = await this.#inTurn(() => this.#save({ ...options, state, note: { hasSaved: true } }, records));
    this.#lastStep = stepTitle(name || "a save", occurrence);
    return { id, sequence: sequence - 1 };
  }

  /** See {@link ParentRun}. The attempt isn't one that recorded nothing. */
  async childSaved(): Promise<void> {
    if (this.#hasProgress) return;
    const text = JSON.stringify({ type: "progress", why: "A child run has recorded something" });
    await this.#appendSafely({ kind: "run", value: { encoding: "json", text } });
  }

  /** Records that the run pauses, so that the attempt isn't counted if it is killed before it has ended. Never rejects. */
  async notePausing(): Promise<void> {
    if (this.#hasProgress) return;
    await this.#appendSafely({ kind: "mark", name: PAUSING, value: { encoding: "json", text: "{}" } });
  }

  /** Appends a lazy record. If that fails, the run has stopped, and the end of the attempt reports the error. */
  async #appendSafely(record: RunRecordDraft): Promise<void> {
    await this.append(record, true).catch(() => undefined);
  }

  #progress(): void {
    if (this.#hasProgress) return;
    this.#hasProgress = true;
    void this.#parent?.childSaved();
  }

  /** Runs `work` after the work before it, whose failure belongs to its own caller. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    // The tick lets other records that come at the same moment join the write.
    const turn = this.#last.then(() => new Promise<void>((resolve) => process.nextTick(resolve))).then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  #draftRecord({ kind, name, value, ...place }: RunRecordDraft, generation = this.#note.generation) {
    const recordKey = formatRunKey({ ...this.#note, generation, ...place });
    const { taskId } = this.#lease;
    return this.#store.draftRecord({ taskId, kind, ...(name !== undefined && { name }), recordKey }, value);
  }

  async #flush(): Promise<void> {
    this.#isFlushing = false;
    const batch = this.#waiting.splice(0);
    try {
      await this.#renewIfExpired();
      const drafts = await resolveAll(batch.map(({ draft }) => draft));
      const isLazy = batch.every((record) => record.isLazy);
      const { sequence: newest } = this.#newest;
      const last = await this.#writeUntilStored(async (isRetry) => {
        const stored = isRetry ? await this.#findStored(drafts) : undefined;
        return stored ?? this.#store.appendRecords(this.#lease, drafts, newest, isLazy);
      });
      this.#newest = { ...this.#newest, last };
      for (const [index, record] of batch.entries()) record.resolve(last - batch.length + 1 + index);
    } catch (error) {
      this.#failed(error);
      for (const { reject } of batch) reject(error);
    }
  }

  /** The last sequence of a batch whose append may have succeeded though it threw. */
  async #findStored(drafts: readonly RecordDraft[]): Promise<number | undefined> {
    const [first] = drafts;
    const { taskId } = this.#lease;
    const query = { taskId, order: "oldest", afterSequence: this.#newest.last, headersOnly: true } as const;
    for await (const { recordKey, name, payload, sequence } of this.#store.records({
      ...query,
      kinds: ["step", "run", "mark"],
    })) {
      const isSame = recordKey === first?.recordKey && name === first?.name && payload.sha256 === first?.payload.sha256;
      if (isSame) return sequence + drafts.length - 1;
    }
    return undefined;
  }

  async #save(
    { isTransient = false, startsTurn = false, note: change, state = this.#state, noEventAfter, ...save }: RunSave,
    recordsFor?: (id: string) => readonly RunRecordDraft[],
  ): Promise<CheckpointSummary> {
    const { records = [], waits, ...options } = save;
    const [lease, newest] = [this.#lease, this.#newest];
    try {
      await this.#renewIfExpired();
      const { startId } = this.#note;
      const oldStart = startsTurn ? startId : undefined;
      const replaces = newest.transientId ?? oldStart;
      const note = { ...(startsTurn ? leaveTurn(this.#note) : this.#note), token: lease.token, ...change };
      const draft = this.#store.draft(lease.taskId, {
        ...options,
        stage: options.stage ?? newest.stage,
        ...{ note, waits, isChild: this.#parent !== undefined },
        transient: isTransient ? { replaces } : undefined,
      });
      const generation = note.generation || draft.id;
      const drafts = await resolveAll(
        [...records, ...(recordsFor?.(draft.id) ?? [])].map((record) => this.#draftRecord(record, generation)),
      );
      const condition = { expectedSequence: newest.sequence, noEventAfter };
      const how = { lease, ...condition, replaces, resembles: newest.id, records: drafts };
      const saved = await this.#writeUntilStored((isRetry) => this.#store.append(draft, state, { ...how, isRetry }));
      const { id, sequence, stage } = saved;
      const turnStart = startsTurn ? { turnStart: sequence, ...(isTransient && { startId: id }) } : {};
      this.#note = { ...note, generation, began: note.began ?? sequence, ...turnStart };
      this.#state = state;
      const transientId = isTransient && !startsTurn ? id : undefined;
      this.#newest = { id, sequence, last: sequence, stage, transientId };
      if (oldStart !== undefined && replaces !== oldStart) await this.#store.removeCheckpoint(lease, oldStart);
      if (!startsTurn || !isTransient) this.#progress();
      return saved;
    } catch (error) {
      // The caller of a save with `noEventAfter` reads the new events and tries again.
      if (noEventAfter === undefined || !(error instanceof CheckpointConflictError)) this.#failed(error);
      throw error;
    }
  }

  /** A step may have blocked the process for longer than the lease's time. */
  async #renewIfExpired(): Promise<void> {
    const lease = this.#lease;
    lease.signal.throwIfAborted();
    if (Date.parse(lease.expiresAt) <= Date.now()) await lease.renew();
  }

  /**
   * If a write fails but may still succeed, repeats it as long as the lease lasts. Without the write, a resume would run
   * the step again.
   */
  async #writeUntilStored<Result>(write: (isRetry: boolean) => Promise<Result>): Promise<Result> {
    const { signal } = this.#lease;
    for (let failures = 0; ; failures++) {
      try {
        return await write(failures > 0);
      } catch (error) {
        if (!(error instanceof CheckpointError && error.retryable)) throw error;
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, MAX_PAUSE_MS);
        await pause(ms, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) throw error;
      }
    }
  }
}

/** The drafts, without a turn of the event loop if none of them is a promise. */
function resolveAll<Value>(values: readonly (Value | Promise<Value>)[]): readonly Value[] | Promise<readonly Value[]> {
  const known = values.filter((value): value is Value => !types.isPromise(value));
  return known.length === values.length ? known : Promise.all(values);
}
