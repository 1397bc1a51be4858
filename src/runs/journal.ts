import { setTimeout as pause } from "node:timers/promises";
import { type RunParts, runText, type StepHead } from "../codec/run-body.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointError, PayloadTooLargeError } from "../contract/errors.js";
import { stepText, stepTitle } from "../contract/run-record.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import type { Lease } from "../manager/lease.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { ParentRun } from "./nesting.js";
import type { RunSaveOptions } from "./run.js";
import type { RunStore } from "./run-store.js";
import type { Standing } from "./standing.js";
import { type Entry, StepEntries } from "./step-entries.js";
import { bytesOfText, UNDEFINED } from "./step-values.js";

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
/**
 * A turn with more steps than this, or more bytes of results, logs a warning, since each further step saves them all
 * again.
 */
const MANY_STEPS = 1000;
const MANY_BYTES = 1_000_000;
/** Roughly the size of a run's record without its values. A step without its value has about this size, too. */
const HEAD_BYTES = 256;

/** The record of a run. It makes one save at a time, and each save contains everything that was noted before. */
export class RunJournal {
  readonly #store: RunStore;
  readonly #taskId: string;
  readonly #lease: Lease;
  readonly #parent: ParentRun | undefined;
  readonly #failed: (error: unknown) => void;
  readonly #at: { -readonly [Key in keyof Omit<Standing, "steps">]: Standing[Key] };
  /** The steps of the turn. */
  steps: StepEntries;
  #otherBytes = 0;
  /** The titles of the steps that no save contains yet. The next save's label lists them. */
  #unsaved: string[] = [];
  #last: Promise<unknown> = Promise.resolve();
  #next: Promise<unknown> | undefined;
  #isEndSaved = false;
  #hasWarned = false;

  /**
   * @param parent - Given if the run began within another run.
   * @param failed - Called once a save has failed for good. Then nothing more is stored.
   */
  constructor({
    store,
    lease,
    standing,
    parent,
    failed,
  }: {
    readonly store: RunStore;
    readonly lease: Lease;
    readonly standing: Standing;
    readonly parent: ParentRun | undefined;
    readonly failed: (error: unknown) => void;
  }) {
    const { steps, ...at } = standing;
    this.#store = store;
    this.#taskId = lease.taskId;
    this.#lease = lease;
    this.#parent = parent;
    this.#failed = failed;
    this.#at = at;
    this.steps = new StepEntries(steps);
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

  /** A label that names the last step: `Run failed after plan`. */
  after(what: string): string {
    const last = this.steps.all().at(-1)?.head;
    return last === undefined ? what : `${what} after ${stepTitle(last.name || "a save", last.occurrence)}`;
  }

  /**
   * Notes a step for the next save.
   *
   * @throws {PayloadTooLargeError} The step would make the record too large. It isn't noted.
   */
  note(head: StepHead, value: string | undefined): Entry {
    const bytes = bytesOfText(value);
    if (this.#otherBytes + this.steps.joined().bytes + HEAD_BYTES + bytes > this.#store.options.maxPayloadBytes) {
      const title = stepTitle(head.name, head.occurrence);
      throw this.#tooLarge(`Step ${JSON.stringify(title)}`, `its result has ${bytes} bytes`);
    }
    this.#unsaved.push(stepText(head));
    const entry = this.steps.add({ head, value });
    if (this.steps.size >= MANY_STEPS || this.steps.joined().bytes >= MANY_BYTES) this.#warnOfLength();
    return entry;
  }

  /** Resolves once everything noted is stored. Calls that wait at the same time share a save. */
  stored(): Promise<unknown> {
    this.#next ??= this.#inTurn(() => {
      this.#next = undefined;
      return this.#save({ isTransient: true, label: labelOf(this.#unsaved) });
    });
    return this.#next;
  }

  /**
   * Makes a separate save, after the saves under way, for a milestone or the attempt's end. Resolves to the
   * checkpoint's id.
   */
  save(saving: Saving, change?: (id: string) => void): Promise<string> {
    return this.#inTurn(() => this.#save(saving, change));
  }

  /**
   * See {@link ParentRun}. If this attempt has saved nothing but its start, it saves now, so that it isn't counted as an
   * attempt that ended without a save.
   */
  async childSaved(): Promise<void> {
    if (this.#at.head.starts === undefined) await this.#parent?.childSaved();
    else await this.#saveIfUnsaved(() => ({ label: "A child run has saved" }));
  }

  /**
   * Call it when the attempt must pause. If it has saved nothing but its start, it saves now that the start doesn't count:
   * a platform may kill the process before the steps under way have ended. Never rejects.
   */
  pausing(): Promise<void> {
    return this.#saveIfUnsaved((starts) => ({ label: this.after("Run is pausing"), starts: starts - 1 }));
  }

  /**
   * Saves a milestone in the middle of the turn, and notes it as a step. From then on `latest` returns its state. The
   * turn itself still has the state from its beginning.
   *
   * @throws {PayloadTooLargeError} The state would make the record too large. Nothing is changed.
   */
  async show(state: string, head: Omit<StepHead, "id">, options: RunSaveOptions): Promise<string> {
    const begin = this.begin ?? UNDEFINED;
    this.assertFits(state, bytesOfText(begin) + this.steps.joined().bytes);
    return this.save(options, (id) => {
      this.#at.begin = begin;
      this.#at.state = state;
      this.#count();
      this.steps.add({ head: { ...head, id }, value: undefined });
    });
  }

  /**
   * @param others - The bytes of the record's other parts. At the end of a turn, there are none.
   * @throws {PayloadTooLargeError} The state is too large to be recorded.
   */
  assertFits(state: string, others = 0): void {
    const bytes = bytesOfText(state);
    if (HEAD_BYTES + bytes + bytesOfText(this.#at.input) + others <= this.#store.options.maxPayloadBytes) return;
    throw this.#tooLarge("The state", `it has ${bytes} bytes`);
  }

  /** Ends the turn with a milestone and begins the next turn. */
  async next(state: string, options: RunSaveOptions): Promise<void> {
    await this.save({ ...options, isTurnOver: true }, () => {
      this.#at.state = state;
      this.#at.begin = undefined;
    });
    this.#at.head = { ...this.#at.head, turn: this.#at.head.turn + 1 };
    this.steps = new StepEntries([]);
    this.#hasWarned = false;
    this.#count();
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#after(this.#last, work);
    this.#last = turn;
    return turn;
  }

  async #after<Result>(before: Promise<unknown>, work: () => Promise<Result>): Promise<Result> {
    // The failure of the save before belongs to its own caller.
    await before.catch(() => undefined);
    // Waits one tick, so that other steps that end at the same moment are noted first.
    await new Promise((resolve) => process.nextTick(resolve));
    return work();
  }

  /** Saves if the attempt has saved nothing but its start. Never rejects: the error has stopped this run. */
  async #saveIfUnsaved(saving: (starts: number) => Saving): Promise<void> {
    await this.#inTurn(async () => {
      // Several child runs may have recorded something at the same time.
      const { starts } = this.#at.head;
      if (starts !== undefined) await this.#save({ isTransient: true, ...saving(starts) });
      // A failed save has stopped this run, and the end of the attempt reports the error.
    }).catch(() => undefined);
  }

  #tooLarge(what: string, why: string): PayloadTooLargeError {
    return new PayloadTooLargeError(
      `${what} of the run of task ${JSON.stringify(this.#taskId)} can't be recorded: ${why}, so the run's record would have more than ` +
        `${this.#store.options.maxPayloadBytes} bytes. Earlier records are kept. Store less (a path, an id), end turns more often with ` +
        "run.next, or raise maxPayloadBytes.",
    );
  }

  #warnOfLength(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    const [taskId, steps, { bytes }] = [this.#taskId, this.steps.size, this.steps.joined()];
    this.#store.options.logger.warn(
      { taskId, steps, bytes },
      `A turn of the run of task ${JSON.stringify(taskId)} has ${steps} steps with ${bytes} bytes of results, and each further step saves all of them again. End the turn from time to ` +
        "time with `return run.next(state)`, which keeps the state and forgets the results",
    );
  }

  async #save(saving: Saving, change?: (id: string) => void): Promise<string> {
    this.#lease.signal.throwIfAborted();
    try {
      // A step may have blocked the process for longer than the lease's time.
      if (Date.parse(this.#lease.expiresAt) <= Date.now()) await this.#lease.renew();
      const { isTransient = false, isTurnOver = false, isEnd = false, starts, result, failedStep, ...options } = saving;
      const { stage = this.#at.stage, waits = isTransient ? this.#openWaits(isEnd) : undefined } = options;
      const [replaces, isChild] = [this.#at.transientId, this.#parent !== undefined];
      const draft = this.#store.draft(this.#taskId, { ...options, stage, waits, isTransient, replaces, isChild });
      change?.(draft.id);
      const { generation, starts: _starts, ...head } = this.#at.head;
      const nextToken = this.#lease.token + (isEnd ? 1 : 0);
      this.#at.head = { ...head, generation: generation || draft.id, nextToken, ...(starts && { starts }) };
      const { state, begin, input } = this.#at;
      const encoded = runText(
        {
          head: { ...this.#at.head, id: draft.id, isTurnOver },
          ...{ state, begin: isTurnOver ? undefined : begin, input, result, failedStep },
        },
        // Once a turn is over, the results of its steps aren't needed.
        isTurnOver ? this.steps.joinedHeads() : this.steps.joined().text,
      );
      this.#unsaved = [];
      const { sequence, id } = await this.#append(draft, encoded, replaces);
      this.#isEndSaved = isEnd;
      this.#at.sequence = sequence;
      this.#at.transientId = isTransient ? id : undefined;
      this.#at.stage = stage;
      if (!isTransient || this.steps.size > 0) await this.#parent?.childSaved();
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
    draft: ReturnType<RunStore["draft"]>,
    encoded: ReturnType<typeof runText>,
    replaces: string | undefined,
  ): Promise<CheckpointSummary> {
    const [lease, expectedSequence] = [this.#lease, this.#at.sequence];
    for (let failures = 0; ; failures++) {
      try {
        const isRetry = failures > 0;
        return await this.#store.append(draft, encoded, { lease, expectedSequence, replaces, isRetry });
      } catch (error) {
        if (!(error instanceof CheckpointError && error.retryable)) throw error;
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
        await pause(ms, undefined, { signal: lease.signal }).catch(() => undefined);
        if (lease.signal.aborted) throw error;
      }
    }
  }

  /** The waits under way, for lists. A run that was paused for another reason is due at once. */
  #openWaits(isEnd: boolean): RunWaits | undefined {
    const waits = this.steps.hasWaits ? this.steps.openWaits() : [];
    if (waits.length === 0) return undefined;
    const until = waits.flatMap(({ until }) => until ?? []).sort();
    const dueAt = isEnd ? new Date(this.#store.options.clock()).toISOString() : (until[0] ?? NEVER);
    return { dueAt, waitsFor: waits.flatMap(({ waitsFor, name }) => (waitsFor === "event" ? name : [])) };
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
