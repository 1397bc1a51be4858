import { types } from "node:util";
import type { EncodedState } from "../codec/json.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError, CheckpointError, LeaseLostError } from "../contract/errors.js";
import type { RecordDraft } from "../contract/log.js";
import { leaveTurn, type ReceivedEvents, type RunNote } from "../contract/run-note.js";
import { formatRunKey, PAUSING, stepTitle } from "../contract/run-record.js";
import type { RunWaits } from "../contract/transient.js";
import { pause } from "../manager/abort-signals.js";
import { type Lease, TaskLease } from "../manager/lease.js";
import { draftEncoded } from "../manager/record-drafts.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { Parent } from "./nesting.js";
import type { RecordedTurn } from "./recorded-turn.js";
import type { NewestCheckpoint, RunState } from "./run-state.js";
import type { RunStore } from "./run-store.js";
import { type EncodedField, joinFields } from "./step-values.js";
import { WriteQueue } from "./write-queue.js";

/** A record of the run to append. */
export interface RunRecordDraft {
  readonly kind: "step" | "run" | "mark" | "chunk";
  /** Given for a step, a chunk, a wait, or a milestone of `run.save`. */
  readonly name?: string;
  readonly occurrence?: number;
  /** The sequence of the event that a wait has received or refused. */
  readonly event?: number | undefined;
  /** The plain fields of the record's value. Default: none. */
  readonly fields?: object | undefined;
  /** One more field of the value, which is already encoded. */
  readonly encoded?: EncodedField | undefined;
}

/** A checkpoint of the run to save. */
export interface RunSave extends Pick<SaveOptions, "stage" | "label" | "metadata" | "status" | "error"> {
  readonly isTransient?: boolean;
  /** Default: the newest state. */
  readonly state?: EncodedState;
  /** Whether a turn starts with this checkpoint. */
  readonly startsTurn?: boolean;
  /** Changes to the run's note. */
  readonly note?: Partial<RunNote>;
  readonly waits?: RunWaits | undefined;
  /** Returns the records to store together with the checkpoint that has this id. */
  readonly records?: (id: string) => readonly RunRecordDraft[];
  readonly noEventAfter?: number | undefined;
}

/** Identifies a step, a wait or a save by its name and its number among those of the same name in the turn. */
interface StepId {
  readonly name: string;
  readonly occurrence: number;
}

/** Records that share a write. */
interface Batch {
  readonly drafts: (RecordDraft | Promise<RecordDraft>)[];
  /** Whether no record needs to survive a power cut yet. */
  isLazy: boolean;
}

/**
 * A step that takes less than `ms` is quick. After `steps` quick steps in a row, the next one is expected to be quick.
 */
const QUICK = { ms: 5, steps: 16 };
/** The first pause before a write is tried again. Each later pause is twice as long. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;

/** Writes the records and checkpoints of one attempt. It makes one write at a time. */
export class RunJournal {
  readonly #store: RunStore;
  readonly #lease: Lease;
  readonly #parent: Parent | undefined;
  readonly #failed: (error: unknown) => void;
  /** The run's current note. */
  head: RunNote;
  /** The steps of the turn that earlier attempts have recorded; `undefined` if no attempt has begun the turn. */
  recorded: RecordedTurn | undefined;
  /** The state at the beginning of the turn. */
  begin: EncodedState;
  #state: EncodedState;
  #newest: NewestCheckpoint;
  #lastStep: string | undefined;
  /** How many steps of the turn are recorded. */
  recordedSteps: number;
  /** How many steps of this attempt in a row were quick. */
  #quickSteps = 0;
  /** Whether this attempt has recorded anything other than starts. */
  #hasProgress = false;
  /** The records that the next write stores. `first` resolves to the first one's sequence once they are stored. */
  #next: (Batch & { readonly first: Promise<number> }) | undefined;
  readonly #writes = new WriteQueue();

  /**
   * @param parent - Given if the run began inside another run.
   * @param failed - Called once a write has failed for good. Nothing is stored after that.
   */
  constructor(
    store: RunStore,
    lease: Lease,
    state: RunState,
    parent: Parent | undefined,
    failed: (error: unknown) => void,
  ) {
    this.#store = store;
    store.requireLog();
    this.#lease = lease;
    this.#parent = parent;
    this.#failed = failed;
    this.head = state.note;
    this.recorded = state.steps;
    this.begin = state.begin;
    this.#state = state.state;
    this.#newest = state.newest;
    this.recordedSteps = state.steps?.size ?? 0;
    const last = state.steps?.all().at(-1);
    this.#lastStep = last && stepTitle(last.name || "a save", last.occurrence);
  }

  /** The last known sequence of the task. */
  get lastSequence(): number {
    return this.#newest.last;
  }

  /**
   * Whether the start of a step must be stored before its function is called. True for the first steps of an attempt,
   * since one of them may have crashed the last attempt. Also true once the lease has expired, since another runner may
   * have the task.
   */
  get marksFirst(): boolean {
    return this.#quickSteps < QUICK.steps || this.#hasExpired;
  }

  /** Call this with the time that a step took, for {@link marksFirst}. */
  notePace(ms: number): void {
    this.#quickSteps = ms < QUICK.ms ? this.#quickSteps + 1 : 0;
  }

  /** Returns a label that names the last step: `Run failed after plan`. */
  labelAfterLast(what: string): string {
    return this.#lastStep === undefined ? what : `${what} after ${this.#lastStep}`;
  }

  /**
   * Appends a record. Records that are appended at the same time share a write.
   *
   * @param isLazy - Whether the record needn't survive a power cut yet.
   * @returns The record's sequence, once the record is stored.
   */
  async append(record: RunRecordDraft, isLazy = false): Promise<number> {
    const draft = this.#draftRecord(record, this.head.generation);
    // The draft may fail while an earlier write is still under way. The flush throws the draft's error.
    if (types.isPromise(draft)) draft.catch(() => undefined);
    // Chunks aren't progress: a step that is killed in each attempt may still write some.
    if (record.kind !== "mark" && record.kind !== "chunk") this.#progress();
    this.#next ??= this.#newBatch();
    const { drafts, first } = this.#next;
    this.#next.isLazy &&= isLazy;
    const index = drafts.push(draft) - 1;
    return (await first) + index;
  }

  /** Appends the record of a finished step or wait. */
  recordStep(
    { name, occurrence }: StepId,
    { event, fields, encoded }: Pick<RunRecordDraft, "event" | "fields" | "encoded">,
    isLazy = false,
  ): Promise<number> {
    this.#lastStep = stepTitle(name, occurrence);
    this.recordedSteps += 1;
    return this.append({ kind: "step", name, occurrence, event, fields, encoded }, isLazy);
  }

  /** Saves a checkpoint after the writes that are under way. */
  save(save: RunSave): Promise<CheckpointSummary> {
    return this.#writes.run(() => this.#save(save));
  }

  /** Ends the turn with a milestone. The next turn begins with its state. */
  async endTurn(state: EncodedState, options: RunSave, received: ReceivedEvents | undefined): Promise<void> {
    const note = { turn: this.head.turn + 1, ...(received && { received }) };
    await this.save({ ...options, state, startsTurn: true, note });
    this.begin = state;
    this.recorded = undefined;
    this.recordedSteps = 0;
    this.#lastStep = undefined;
  }

  /** Saves a milestone in the middle of the turn. Resolves to the milestone's id and the sequence of its record. */
  async saveMilestone(
    state: EncodedState,
    { name, occurrence }: StepId,
    options: RunSave,
  ): Promise<{ readonly id: string; readonly sequence: number }> {
    const records = (id: string) => [{ kind: "run", name, occurrence, fields: { type: "saved", id } } as const];
    const { id, sequence } = await this.save({ ...options, state, note: { hasSaved: true }, records });
    this.#lastStep = stepTitle(name || "a save", occurrence);
    return { id, sequence: sequence - 1 };
  }

  /** Records that this attempt has made progress, so that it isn't counted as a crash. Never rejects. */
  async noteProgress(why: string): Promise<void> {
    if (!this.#hasProgress) await this.note({ kind: "run", fields: { type: "progress", why } });
  }

  /**
   * Records that the run is pausing, so that the attempt isn't counted as a crash if it is killed before it has ended.
   * Never rejects.
   */
  async notePausing(): Promise<void> {
    if (!this.#hasProgress) await this.note({ kind: "mark", name: PAUSING });
  }

  /**
   * Appends a lazy record. Never rejects: if the write fails, the run has stopped, and the end of the attempt reports
   * the error.
   */
  async note(record: RunRecordDraft): Promise<void> {
    await this.append(record, true).catch(() => undefined);
  }

  /** Whether the lease has expired. A step that blocks the process also blocks the lease's renewal. */
  get #hasExpired(): boolean {
    const lease = this.#lease;
    // The lease of another copy of this package has only the public members.
    if (lease instanceof TaskLease) return lease.hasExpired;
    return Date.parse(lease.expiresAt) <= this.#store.options.clock();
  }

  #progress(): void {
    if (this.#hasProgress) return;
    this.#hasProgress = true;
    void this.#parent?.run.childSaved();
  }

  #newBatch(): Batch & { readonly first: Promise<number> } {
    const batch: Batch = { drafts: [], isLazy: true };
    return Object.assign(batch, { first: this.#writes.run(() => this.#flush(batch)) });
  }

  #draftRecord(
    { kind, name, occurrence, event, fields = {}, encoded }: RunRecordDraft,
    generation: string,
  ): RecordDraft | Promise<RecordDraft> {
    const { turn, attempt } = this.head;
    const recordKey = formatRunKey({ generation, turn, attempt, occurrence, event });
    const { taskId } = this.#lease;
    return draftEncoded(this.#store.options, { taskId, kind, name, recordKey }, joinFields(fields, encoded));
  }

  /** Stores the records. Returns the sequence of the first one. */
  async #flush({ drafts: made, isLazy }: Batch): Promise<number> {
    this.#next = undefined;
    const lease = this.#lease;
    try {
      const drafts = areMade(made) ? made : await finishAll(made);
      const append = () => {
        const condition = { expectedSequence: this.#newest.sequence, fencingToken: lease.token };
        return this.#store.appendRecords(lease.taskId, drafts, condition, { lazy: isLazy });
      };
      const last = await this.#writeUntilStored((isRetry) =>
        isRetry ? this.#findStored(drafts).then((stored) => stored ?? append()) : append(),
      );
      this.#newest = { ...this.#newest, last };
      return last - drafts.length + 1;
    } catch (error) {
      const isLost = error instanceof LeaseLostError && lease instanceof TaskLease;
      const reason = isLost ? await lease.lose(error) : error;
      this.#failed(reason);
      throw reason;
    }
  }

  /**
   * Finds a batch whose append may have succeeded although it threw. Returns the sequence of its last record;
   * `undefined` if it isn't stored.
   */
  async #findStored(drafts: readonly RecordDraft[]): Promise<number | undefined> {
    const [first] = drafts;
    const { taskId } = this.#lease;
    const query = { taskId, order: "oldest", afterSequence: this.#newest.last, headersOnly: true } as const;
    for await (const { recordKey, name, payload, sequence } of this.#store.records({
      ...query,
      kinds: ["step", "run", "mark", "chunk"],
    })) {
      const isSame = recordKey === first?.recordKey && name === first?.name && payload.sha256 === first?.payload.sha256;
      if (isSame) return sequence + drafts.length - 1;
    }
    return undefined;
  }

  async #save({
    isTransient = false,
    startsTurn = false,
    note: change,
    state = this.#state,
    noEventAfter,
    waits,
    records = () => [],
    ...options
  }: RunSave): Promise<CheckpointSummary> {
    const { id: resembles, sequence: expectedSequence, transientId, ...newest } = this.#newest;
    // The checkpoint at which a turn started is kept, so that a resume, a fork or a rewind can begin there.
    const replaces = this.head.turnStart === expectedSequence ? undefined : transientId;
    try {
      const note = { ...(startsTurn ? leaveTurn(this.head) : this.head), ...change };
      const draft = this.#store.draft(this.#lease.taskId, {
        ...options,
        stage: options.stage ?? newest.stage,
        note,
        waits,
        parent: this.#parent?.place,
        transient: isTransient ? { replaces } : undefined,
      });
      const generation = note.generation || draft.id;
      const drafts = await finishAll(records(draft.id).map((record) => this.#draftRecord(record, generation)));
      const how = { lease: this.#lease, expectedSequence, noEventAfter, replaces, resembles, records: drafts };
      const saved = await this.#writeUntilStored((isRetry) => this.#store.append(draft, state, { ...how, isRetry }));
      const { id, sequence, stage } = saved;
      this.head = { ...note, generation, began: note.began ?? sequence, ...(startsTurn && { turnStart: sequence }) };
      this.#state = state;
      this.#newest = { id, sequence, last: sequence, stage, transientId: isTransient ? id : undefined };
      if (!startsTurn || !isTransient) this.#progress();
      return saved;
    } catch (error) {
      // The caller of a save with `noEventAfter` reads the new events and tries again.
      if (noEventAfter === undefined || !(error instanceof CheckpointConflictError)) this.#failed(error);
      throw error;
    }
  }

  /**
   * Repeats a write that failed but may still succeed, as long as the lease lasts. Without the write, a resume would
   * run the step again.
   */
  async #writeUntilStored<Result>(write: (isRetry: boolean) => Promise<Result>): Promise<Result> {
    const { signal } = this.#lease;
    signal.throwIfAborted();
    if (this.#hasExpired) await this.#lease.renew();
    for (let failures = 0; ; failures++) {
      try {
        return await write(failures > 0);
      } catch (error) {
        if (!(error instanceof CheckpointError && error.retryable)) throw error;
        const { taskId } = this.#lease;
        if (failures === 0)
          this.#store.options.logger.warn(
            { taskId, error },
            `A write of task ${JSON.stringify(taskId)} failed, and is tried again while its lease lasts`,
          );
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, MAX_PAUSE_MS);
        await pause(this.#store.options.runtime, ms, signal);
        if (signal.aborted) throw error;
      }
    }
  }
}

function finishAll(made: readonly (RecordDraft | Promise<RecordDraft>)[]): Promise<readonly RecordDraft[]> {
  return Promise.all(made.map(async (draft) => draft));
}

/** Whether none of the drafts is a promise. */
function areMade(drafts: readonly (RecordDraft | Promise<RecordDraft>)[]): drafts is readonly RecordDraft[] {
  return !drafts.some((draft) => types.isPromise(draft));
}
