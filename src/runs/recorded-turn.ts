import { types } from "node:util";
import type { OpenedPayload } from "../codec/payload.js";
import { isJsonObject } from "../contract/checkpoint.js";
import { CheckpointCorruptError } from "../contract/errors.js";
import type { LogRecord, RecordHeader } from "../contract/log.js";
import { findTurnStart, type RunNote } from "../contract/run-note.js";
import { parseRunKey, type StepRecord } from "../contract/run-record.js";
import type { SequenceRange } from "../manager/status.js";
import type { RunStore } from "./run-store.js";

/** The value of a step's or wait's record. */
export interface StepValue extends Omit<StepRecord, "name" | "occurrence" | "runAttempt"> {
  /** The digest of the step's `input`. */
  readonly input?: string;
  /** Given for a receipt whose wait has a signal. A later record shows whether the function got the event. */
  readonly hasSignal?: true;
}

/** The value of the mark that shows that a wait has begun. */
export interface WaitMark {
  readonly waitsFor: "sleep" | "event";
  readonly startedAt: string;
  readonly until?: string;
}

/** A step, wait or milestone of the turn that an earlier attempt has recorded. */
export interface RecordedStep {
  readonly sequence: number;
  readonly name: string;
  readonly occurrence: number;
  /** True for a milestone of `run.save`. Its `name` is the milestone's stage. */
  readonly isSave: boolean;
  /** The sequence of the event that the wait has received. */
  readonly event: number | undefined;
  /** True once the function has made the call again. */
  isUsed: boolean;
  /**
   * For a wait with a signal: whether no record shows that the function got the event. Known once the value is loaded.
   */
  isUndecided: boolean;
}

/** How many bytes of results are read ahead, and how many results. */
const PAGE_BYTES = 16 * 1024 * 1024;
const PAGE_RECORDS = 500;

/** The sequences of a turn's marks. */
interface TurnMarks {
  /** The sequences of each step's starts. */
  readonly starts: ReadonlyMap<string, readonly number[]>;
  /** The sequence of the last delivery of each event that the function got. */
  readonly delivered: ReadonlyMap<number, number>;
}

type Named = Pick<RecordedStep, "name" | "occurrence">;

/**
 * The steps, waits and milestones of a turn that earlier attempts have recorded. A resume reads the first results
 * ahead, up to a limit. Later results are read page by page as the function asks for them, which is nearly in the order
 * of the log.
 */
export class RecordedTurn {
  readonly #store: RunStore;
  readonly #taskId: string;
  readonly #note: RunNote;
  readonly #afterSequence: number;
  readonly #steps = new Map<string, RecordedStep>();
  /** The sequence of the last result of each step whose results were all dropped. */
  readonly #droppedEnds = new Map<string, number>();
  /** The sequences of the `run` records that may drop results. */
  readonly #changes: number[] = [];
  readonly #dropped: SequenceRange[] = [];
  /** The events of the turn that a schema has refused. */
  readonly refused: { readonly sequence: number; readonly name: string }[] = [];
  #page = new Map<number, LogRecord | RecordHeader>();
  #pageEnd = 0;
  #marks: Promise<TurnMarks> | undefined;

  private constructor(store: RunStore, taskId: string, note: RunNote, afterSequence: number) {
    this.#store = store;
    this.#taskId = taskId;
    this.#note = note;
    this.#afterSequence = afterSequence;
  }

  /**
   * Reads the turn of a run's checkpoint.
   *
   * @param sequence - The checkpoint's sequence.
   * @param options - `upTo`: reads only records up to this sequence (default: all). `isResumed`: whether the results
   *   will be needed.
   * @throws {CheckpointCorruptError} A record is damaged.
   */
  static async read(
    store: RunStore,
    taskId: string,
    note: RunNote,
    sequence: number,
    { upTo, isResumed = false }: { readonly upTo?: number | undefined; readonly isResumed?: boolean } = {},
  ): Promise<RecordedTurn> {
    const turn = new RecordedTurn(store, taskId, note, findTurnStart(note, sequence));
    const beforeSequence = upTo === undefined ? undefined : upTo + 1;
    const afterSequence = isResumed ? await turn.#readPage(turn.#afterSequence) : turn.#afterSequence;
    if (afterSequence !== undefined) {
      const query = { taskId, order: "oldest", beforeSequence, kinds: ["step", "run"], headersOnly: true } as const;
      for await (const header of store.records({ ...query, afterSequence })) turn.#add(header);
    }
    await turn.#readChanges();
    return turn;
  }

  get size(): number {
    return this.#steps.size;
  }

  /** Returns the steps, waits and milestones in the order of the log. */
  all(): readonly RecordedStep[] {
    return [...this.#steps.values()].sort((a, b) => a.sequence - b.sequence);
  }

  find({ name, occurrence }: Named, isSave = false): RecordedStep | undefined {
    return this.#steps.get(formatStepKey(name, occurrence, isSave));
  }

  /**
   * Reads the value of a step's record. Returns a promise only if the record wasn't read ahead or has transforms, since
   * a resume reads thousands of values.
   *
   * @throws {CheckpointCorruptError} The record is damaged or gone.
   */
  loadStep(step: RecordedStep): StepValue | Promise<StepValue> {
    const record = this.#takeRead(step);
    const opened = record && this.#store.openValue(record);
    if (opened === undefined || types.isPromise(opened)) return this.#loadLater(step, opened);
    return this.#toStepValue(step, opened);
  }

  /** Reads the id of a milestone of `run.save`. */
  async loadSave(step: RecordedStep): Promise<string> {
    const record = this.#takeRead(step) ?? (await this.#readFrom(step));
    const value = await this.#store.readValue(record);
    if (typeof value === "object" && value !== null && "id" in value && typeof value.id === "string") return value.id;
    throw damagedValue(this.#taskId, step.sequence);
  }

  /** Counts the starts of a step in all attempts. */
  async countStarts(step: Named): Promise<number> {
    return (await this.#listStarts(step)).length;
  }

  /** True if the step has a recorded start without a later recorded end. */
  async wasInterrupted(step: Named): Promise<boolean> {
    const last = (await this.#listStarts(step)).at(-1) ?? 0;
    return last > this.#findEnd(formatStepKey(step.name, step.occurrence, false));
  }

  /** Reads the start of a wait that hasn't ended; `undefined` if the wait hasn't begun. */
  async findOpenWait(step: Named): Promise<WaitMark | undefined> {
    const [first] = (await this.wasInterrupted(step)) ? (await this.#listStarts(step)).slice(-1) : [];
    if (first === undefined) return undefined;
    const record = await this.#store.recordAt(this.#taskId, first, "mark");
    const value = record && (await this.#store.readValue(record));
    return isWaitMark(value) ? value : undefined;
  }

  /**
   * Drops this step and all steps recorded after it, except steps that the function has already called. Returns the
   * dropped steps.
   */
  dropFrom(first: RecordedStep): readonly RecordedStep[] {
    const dropped = this.all().filter(({ sequence, isUsed }) => sequence >= first.sequence && !isUsed);
    for (const step of dropped) this.#drop(formatStepKey(step.name, step.occurrence, step.isSave), step);
    return dropped;
  }

  /**
   * Whether a fork or a rewind copies a record of the turn: a result, a refusal, a delivery, or a start without an end.
   */
  isKept(record: LogRecord | RecordHeader): boolean {
    const { kind, name, sequence } = record;
    const { occurrence, event } = this.#owns(record) ?? {};
    if (kind === "mark" && event !== undefined) return !this.#isDropped(sequence);
    if (name === undefined || occurrence === undefined) return false;
    if (kind === "run" && event !== undefined) return true;
    const key = formatStepKey(name, occurrence, kind === "run");
    if (kind !== "mark") return this.#steps.get(key)?.sequence === sequence;
    return sequence > this.#findEnd(key) && !this.#isDropped(sequence);
  }

  async #loadLater(step: RecordedStep, opened: Promise<OpenedPayload> | undefined): Promise<StepValue> {
    return this.#toStepValue(step, await (opened ?? this.#store.openValue(await this.#readFrom(step))));
  }

  #toStepValue(step: RecordedStep, { state: value }: OpenedPayload): StepValue | Promise<StepValue> {
    if (!isStepValue(value)) throw damagedValue(this.#taskId, step.sequence);
    return value.hasSignal && step.event !== undefined ? this.#withDelivery(step, step.event, value) : value;
  }

  /** Finds out whether the function got the event of a wait with a signal. */
  async #withDelivery(step: RecordedStep, event: number, value: StepValue): Promise<StepValue> {
    const { delivered } = await this.#readMarks();
    step.isUndecided = (delivered.get(event) ?? 0) < step.sequence;
    return value;
  }

  /** Takes the step's record from the page, if it was read ahead. */
  #takeRead({ sequence }: RecordedStep): LogRecord | RecordHeader | undefined {
    const record = this.#page.get(sequence);
    this.#page.delete(sequence);
    return record;
  }

  /**
   * Reads the page that begins with this step's record. If the record is older than the end of the last page, reads
   * only the record.
   */
  async #readFrom(step: RecordedStep): Promise<LogRecord | RecordHeader> {
    const isNext = step.sequence > this.#pageEnd;
    if (isNext) this.#page = new Map();
    await this.#readPage(step.sequence - 1, isNext ? PAGE_RECORDS : 1);
    const record = this.#takeRead(step);
    if (record === undefined) throw damagedValue(this.#taskId, step.sequence);
    return record;
  }

  /**
   * Reads records with their values, up to a limit. Returns the last record's sequence; `undefined` if no record is
   * left.
   */
  async #readPage(afterSequence: number, limit?: number): Promise<number | undefined> {
    let bytes = 0;
    let last: number | undefined;
    const query = { taskId: this.#taskId, order: "oldest", kinds: ["step", "run"], limit } as const;
    await this.#store.visitRecords({ ...query, afterSequence }, (record) => {
      if (limit === undefined) this.#add(record);
      this.#page.set(record.sequence, record);
      this.#pageEnd = Math.max(this.#pageEnd, record.sequence);
      bytes += "body" in record.payload ? record.payload.body.length : 0;
      if (bytes >= PAGE_BYTES) last = record.sequence;
      return last === undefined;
    });
    return last;
  }

  /** Returns the sequences of the step's starts. */
  async #listStarts({ name, occurrence }: Named): Promise<readonly number[]> {
    const { starts } = await this.#readMarks();
    return starts.get(formatStepKey(name, occurrence, false)) ?? [];
  }

  /** Reads the marks of the turn, once. */
  #readMarks(): Promise<TurnMarks> {
    this.#marks ??= this.#listMarks();
    return this.#marks;
  }

  async #listMarks(): Promise<TurnMarks> {
    const starts = new Map<string, number[]>();
    const delivered = new Map<number, number>();
    const range = { afterSequence: this.#afterSequence, kinds: ["mark"] } as const;
    const query = { taskId: this.#taskId, order: "oldest", ...range, headersOnly: true } as const;
    for await (const header of this.#store.records(query)) {
      const { name, sequence } = header;
      const { occurrence, event } = this.#owns(header) ?? {};
      if (occurrence === undefined || this.#isDropped(sequence)) continue;
      if (event !== undefined) delivered.set(event, sequence);
      if (name === undefined) continue;
      const of = formatStepKey(name, occurrence, false);
      starts.set(of, [...(starts.get(of) ?? []), sequence]);
    }
    return { starts, delivered };
  }

  /** Returns the key of a record; `undefined` if the record isn't of this turn. */
  #owns(record: LogRecord | RecordHeader) {
    const key = parseRunKey(record);
    const { generation, turn } = this.#note;
    return key?.generation === generation && key.turn === turn ? key : undefined;
  }

  #add(header: LogRecord | RecordHeader): void {
    const { kind, name, sequence } = header;
    const owned = this.#owns(header);
    if (owned === undefined) return;
    const { occurrence, event } = owned;
    // Refusals and milestones have names.
    if (kind === "run" && name === undefined) this.#changes.push(sequence);
    if (name === undefined || occurrence === undefined) return;
    if (kind === "run" && event !== undefined) {
      this.refused.push({ sequence: event, name });
      return;
    }
    const isSave = kind === "run";
    const key = formatStepKey(name, occurrence, isSave);
    this.#steps.set(key, { sequence, name, occurrence, isSave, event, isUsed: false, isUndecided: false });
  }

  /** Drops the results that `run` records of the turn list as dropped. */
  async #readChanges(): Promise<void> {
    for (const sequence of this.#changes) {
      const record = this.#page.get(sequence) ?? (await this.#store.recordAt(this.#taskId, sequence, "run"));
      if (record) this.#dropped.push(...readDropped(await this.#store.readValue(record)));
    }
    if (this.#dropped.length === 0) return;
    for (const [key, step] of this.#steps) if (this.#isDropped(step.sequence)) this.#drop(key, step);
  }

  #drop(key: string, { sequence }: RecordedStep): void {
    this.#steps.delete(key);
    this.#droppedEnds.set(key, sequence);
  }

  /** Returns the sequence of the step's last result, dropped or not; 0 if it has none. */
  #findEnd(key: string): number {
    return this.#steps.get(key)?.sequence ?? this.#droppedEnds.get(key) ?? 0;
  }

  #isDropped(sequence: number): boolean {
    return this.#dropped.some(([first, last]) => sequence >= first && sequence <= last);
  }
}

/** Reads the sequences of the results that a `run` record drops. */
export function readDropped(value: unknown): readonly SequenceRange[] {
  if (!isJsonObject(value) || !Array.isArray(value["dropped"])) return [];
  return value["dropped"].flatMap((range) => {
    const [first, last] = Array.isArray(range) ? range : [];
    return typeof first === "number" && typeof last === "number" ? [[first, last] as const] : [];
  });
}

/**
 * For the first step of a name, the key is the name after a colon. Most steps are the first of their name. Other keys
 * don't begin with a colon.
 */
function formatStepKey(name: string, occurrence: number, isSave: boolean): string {
  return occurrence === 1 && !isSave ? `:${name}` : `${isSave ? "save" : "step"} ${occurrence} ${name}`;
}

export function isStepValue(value: unknown): value is StepValue {
  return typeof value === "object" && value !== null && "status" in value && "startedAt" in value;
}

function isWaitMark(value: unknown): value is WaitMark {
  return typeof value === "object" && value !== null && "waitsFor" in value && "startedAt" in value;
}

function damagedValue(taskId: string, sequence: number): CheckpointCorruptError {
  return new CheckpointCorruptError(
    `Record ${sequence} of the run of task ${JSON.stringify(taskId)} is gone, or doesn't hold a result. Nothing was changed. Restore it ` +
      "from a backup, or begin with `restart: true`.",
  );
}
