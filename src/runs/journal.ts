import { setTimeout as pause } from "node:timers/promises";
import { type RunBody, type RunHead, type RunParts, runText, type StepHead } from "../codec/run-body.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointError, PayloadTooLargeError } from "../contract/errors.js";
import { stepText, stepTitle } from "../contract/run-record.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import type { EventHub } from "../manager/events.js";
import type { Lease } from "../manager/lease.js";
import type { ResolvedOptions } from "../manager/options.js";
import type { CheckpointReader } from "../manager/reader.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { CheckpointWriter } from "../manager/writer.js";
import type { ParentRun } from "./nesting.js";
import type { RunSaveOptions } from "./run.js";
import type { Signals } from "./signals.js";
import { type Entry, StepEntries } from "./step-entries.js";
import { bytesOfText, UNDEFINED } from "./step-values.js";
import type { Wakers } from "./wakers.js";

/** The parts of a manager that an attempt of a run uses. */
export interface AttemptHost {
  readonly options: ResolvedOptions;
  readonly events: EventHub;
  readonly reader: CheckpointReader;
  readonly writer: CheckpointWriter;
  readonly signals: Signals;
  readonly wakers: Wakers;
  /** Emits `saved` for a stored save. If the save was refused because the lease is lost, ends the lease. */
  noted(appended: Promise<CheckpointSummary>, lease: Lease): Promise<CheckpointSummary>;
}

/** Where a run stands when an attempt begins. */
export interface Standing extends Omit<RunBody, "head" | "result"> {
  /** If `generation` is "", the run is new, and the first save's id becomes its generation. */
  readonly head: Omit<RunHead, "id" | "isTurnOver">;
  readonly stage: string | undefined;
  /** The sequence of the task's newest checkpoint; 0 if there is none, `undefined` if damage hides it. */
  readonly sequence: number | undefined;
  /** The id of the task's transient checkpoint, which the next save replaces. */
  readonly transientId: string | undefined;
}

interface Saving extends RunSaveOptions, Pick<SaveOptions, "status" | "error">, Pick<RunParts, "failedStep"> {
  readonly isTransient?: boolean;
  readonly isTurnOver?: boolean;
  /** Whether the attempt ends with this save. */
  readonly isEnd?: boolean;
  readonly starts?: number;
  /** Default: the waits that have begun. */
  readonly waits?: RunWaits | undefined;
  readonly result?: string;
}

/** The first pause before a save is tried again. Each further pause is twice as long. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5000;
/** Roughly the size of a run's record without its values. A step without its value has about this size, too. */
const HEAD_BYTES = 256;

/** The record of a run. It makes one save at a time, and each save contains everything that was noted before. */
export class RunJournal {
  readonly #taskId: string;
  readonly #host: AttemptHost;
  readonly #lease: Lease;
  readonly #parent: ParentRun | undefined;
  readonly #failed: (error: unknown) => void;
  readonly #at: { -readonly [Key in keyof Omit<Standing, "steps">]: Standing[Key] };
  #steps: StepEntries;
  #otherBytes = 0;
  /** The titles of the steps that no save contains yet. The next save's label lists them. */
  #unsaved: string[] = [];
  #last: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #isEndSaved = false;

  /**
   * @param outer - Given if the run began within another run.
   * @param failed - Called once a save has failed for good. Then nothing more is stored.
   */
  constructor(
    taskId: string,
    host: AttemptHost,
    lease: Lease,
    { steps, ...standing }: Standing,
    outer: ParentRun | undefined,
    failed: (error: unknown) => void,
  ) {
    this.#taskId = taskId;
    this.#host = host;
    this.#lease = lease;
    this.#parent = outer;
    this.#failed = failed;
    this.#at = standing;
    this.#steps = new StepEntries(steps);
    this.#count();
  }

  get head(): Standing["head"] {
    return this.#at.head;
  }

  /** Whether the end of this attempt is stored. */
  get isEndSaved(): boolean {
    return this.#isEndSaved;
  }

  get begin(): string | undefined {
    return this.#at.begin ?? this.#at.state;
  }

  get input(): string | undefined {
    return this.#at.input;
  }

  get size(): { readonly steps: number; readonly bytes: number } {
    return { steps: this.#steps.size, bytes: this.#steps.bytes };
  }

  /** A label that names the last step: `Run failed after plan`. */
  after(what: string): string {
    const last = this.entries().at(-1)?.head;
    return last === undefined ? what : `${what} after ${stepTitle(last.name || "a save", last.occurrence)}`;
  }

  entries(): readonly Entry[] {
    return this.#steps.all();
  }

  find(head: Pick<StepHead, "name" | "occurrence" | "status">): Entry | undefined {
    return this.#steps.find(head);
  }

  /**
   * Notes a step for the next save.
   *
   * @throws {PayloadTooLargeError} The step would make the record too large. It isn't noted.
   */
  note(head: StepHead, value: string | undefined): Entry {
    const bytes = this.#otherBytes + this.#steps.bytes + HEAD_BYTES + bytesOfText(value);
    if (bytes > this.#host.options.maxPayloadBytes) {
      const title = stepTitle(head.name, head.occurrence);
      throw this.#tooLarge(`Step ${JSON.stringify(title)}`, `its result has ${bytesOfText(value)} bytes`);
    }
    this.#unsaved.push(stepText(head));
    return this.#steps.add({ head, value });
  }

  /** Forgets the steps for which `is` returns true. The next save leaves them out. */
  forget(is: (entry: Entry) => boolean): void {
    this.#steps.forget(is);
  }

  /** Resolves once everything noted is stored. Calls that wait at the same time share a save. */
  stored(): Promise<void> {
    this.#next ??= this.#inTurn(async () => {
      this.#next = undefined;
      const label = labelOf(this.#unsaved);
      await this.#save({ isTransient: true, ...(label === undefined ? undefined : { label }) });
    });
    return this.#next;
  }

  /**
   * Makes a separate save, after the saves under way, for a milestone or the attempt's end. Resolves to the
   * checkpoint's id.
   */
  async save(saving: Saving, change?: (id: string) => void): Promise<string> {
    let id = "";
    await this.#inTurn(async () => {
      id = await this.#save(saving, change);
    });
    return id;
  }

  /**
   * See {@link ParentRun}. If this attempt has saved nothing but its start, it saves now, so that it isn't counted as an
   * attempt that ended without a save.
   */
  async childSaved(): Promise<void> {
    if (this.#at.head.starts === undefined) return this.#parent?.childSaved();
    await this.#inTurn(async () => {
      // Several child runs may have recorded something at the same time.
      if (this.#at.head.starts === undefined) return;
      await this.#save({ isTransient: true, label: "A run within it has saved" });
    }).catch(() => {
      // The error has stopped this run.
    });
  }

  /**
   * Call it when the attempt must pause. If it has saved nothing but its start, it saves now that the start doesn't count:
   * a platform may kill the process before the steps under way have ended. Never rejects.
   */
  async pausing(): Promise<void> {
    await this.#inTurn(async () => {
      const { starts } = this.#at.head;
      if (starts === undefined) return;
      await this.#save({ isTransient: true, label: this.after("Run is pausing"), starts: starts - 1 });
    }).catch(() => {
      // The save of the attempt's end meets the same error, and reports it.
    });
  }

  /**
   * Saves a milestone in the middle of the turn, and notes it as a step. From then on `latest` returns its state. The
   * turn itself still has the state from its beginning.
   *
   * @throws {PayloadTooLargeError} The state would make the record too large. Nothing is changed.
   */
  async show(state: string, head: Omit<StepHead, "id">, options: RunSaveOptions): Promise<string> {
    const begin = this.begin ?? UNDEFINED;
    this.#assertFits(state, bytesOfText(begin) + this.#steps.bytes);
    return this.save(options, (id) => {
      this.#at.begin = begin;
      this.#at.state = state;
      this.#count();
      this.#steps.add({ head: { ...head, id }, value: undefined });
    });
  }

  /** @throws {PayloadTooLargeError} The state is too large to end a turn with. */
  assertFits(state: string): void {
    this.#assertFits(state, 0);
  }

  /** Ends the turn with a milestone and begins the next turn. */
  async next(state: string, options: RunSaveOptions): Promise<void> {
    await this.save({ ...options, isTurnOver: true }, () => {
      this.#at.state = state;
      this.#at.begin = undefined;
    });
    this.#at.head = { ...this.#at.head, turn: this.#at.head.turn + 1 };
    this.#steps = new StepEntries([]);
    this.#count();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#last = this.#after(this.#last, work);
    return this.#last;
  }

  async #after(before: Promise<void>, work: () => Promise<void>): Promise<void> {
    await before.catch(() => undefined);
    // Waits one tick, so that other steps that end at the same moment are noted first.
    await new Promise((resolve) => process.nextTick(resolve));
    await work();
  }

  #assertFits(state: string, others: number): void {
    const bytes = bytesOfText(state);
    if (HEAD_BYTES + bytes + bytesOfText(this.#at.input) + others <= this.#host.options.maxPayloadBytes) return;
    throw this.#tooLarge("The state", `it has ${bytes} bytes`);
  }

  #tooLarge(what: string, why: string): PayloadTooLargeError {
    return new PayloadTooLargeError(
      `${what} of the run of task ${JSON.stringify(this.#taskId)} can't be recorded: ${why}, so the run's record would have more than ` +
        `${this.#host.options.maxPayloadBytes} bytes. Earlier records are kept. Store less (a path, an id), end turns more often with ` +
        "run.next, or raise maxPayloadBytes.",
    );
  }

  async #save(saving: Saving, change?: (id: string) => void): Promise<string> {
    this.#lease.signal.throwIfAborted();
    try {
      // A step may have blocked the process for longer than the lease's time.
      if (Date.parse(this.#lease.expiresAt) <= Date.now()) await this.#lease.renew();
      const { isTransient = false, isTurnOver = false, isEnd = false, starts, ...others } = saving;
      const { waits = this.#waits(isTransient, isEnd), ...rest } = others;
      const { result, failedStep, stage = this.#at.stage, ...options } = rest;
      const replaces = this.#at.transientId;
      const transient = isTransient ? { replaces } : undefined;
      const draft = this.#host.writer.draftOfRun(
        this.#taskId,
        { ...options, stage },
        transient,
        waits,
        this.#parent !== undefined,
      );
      change?.(draft.id);
      const { generation, starts: _starts, ...head } = this.#at.head;
      const { token } = this.#lease;
      this.#at.head = { ...head, generation: generation || draft.id, token, isEnd, ...(starts && { starts }) };
      const encoded = runText(
        {
          head: { ...this.#at.head, id: draft.id, isTurnOver },
          state: this.#at.state,
          begin: isTurnOver ? undefined : this.#at.begin,
          input: this.#at.input,
          result,
          failedStep,
        },
        // Once a turn is over, the results of its steps aren't needed.
        isTurnOver ? this.#steps.textOfHeads : this.#steps.text,
      );
      this.#unsaved = [];
      const { sequence, id } = await this.#append(draft, encoded, replaces);
      this.#isEndSaved = isEnd;
      this.#at.sequence = sequence;
      this.#at.transientId = isTransient ? id : undefined;
      this.#at.stage = stage;
      if (!isTransient || this.#steps.size > 0) await this.#parent?.childSaved();
      return id;
    } catch (error) {
      this.#failed(error);
      throw error;
    }
  }

  /**
   * If a save fails but may still succeed, repeats it as long as the lease lasts. Without the save, a resume would run
   * the step again.
   */
  async #append(
    draft: ReturnType<CheckpointWriter["draftOfRun"]>,
    encoded: ReturnType<typeof runText>,
    replaces: string | undefined,
  ): Promise<CheckpointSummary> {
    const options = { expectedSequence: this.#at.sequence, lease: this.#lease };
    for (let failures = 0; ; failures++) {
      const how = { replaces, isRepeated: failures > 0 };
      try {
        return await this.#host.noted(this.#host.writer.appendOfRun(draft, encoded, options, how), this.#lease);
      } catch (error) {
        if (!(error instanceof CheckpointError && error.retryable)) throw error;
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
        await pause(ms, undefined, { signal: this.#lease.signal }).catch(() => undefined);
        if (this.#lease.signal.aborted) throw error;
      }
    }
  }

  /** The waits under way, for lists. A run that was paused for another reason is due at once. */
  #waits(isTransient: boolean, isEnd: boolean): RunWaits | undefined {
    if (!isTransient) return undefined;
    const waits = this.entries().filter(({ head, isUsed }) => isUsed && head.status === "started" && head.waitsFor);
    if (waits.length === 0) return undefined;
    const until = waits.flatMap(({ head }) => head.until ?? []).sort();
    const dueAt = isEnd ? new Date(this.#host.options.clock()).toISOString() : (until[0] ?? NEVER);
    return { dueAt, waitsFor: waits.flatMap(({ head }) => (head.waitsFor === "signal" ? head.name : [])) };
  }

  #count(): void {
    const texts = [this.#at.state, this.#at.begin, this.#at.input];
    this.#otherBytes = texts.reduce((sum, text) => sum + bytesOfText(text), HEAD_BYTES);
  }
}

function labelOf(steps: readonly string[]): string | undefined {
  if (steps.length === 0) return undefined;
  const more = steps.length > 3 ? ` and ${steps.length - 3} more` : "";
  return `${steps.slice(0, 3).join(", ")}${more}`;
}
