import { Buffer } from "node:buffer";
import { setTimeout as pause } from "node:timers/promises";
import { encodeRunBody, encodeStep, type RunParts, type StepHead, type StoredStep } from "../codec/run-body.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointError, PayloadTooLargeError } from "../contract/errors.js";
import { stepText, stepTitle } from "../contract/run-record.js";
import { NEVER, type RunWaits } from "../contract/transient.js";
import type { Lease } from "../manager/lease.js";
import type { SaveOptions } from "../manager/save-options.js";
import type { ParentRun } from "./nesting.js";
import type { RunSaveOptions } from "./run.js";
import type { RunState } from "./run-state.js";
import type { RunStore } from "./run-store.js";
import { UNDEFINED } from "./step-values.js";

/** A save of the journal. */
export interface RunSave extends RunSaveOptions, Pick<SaveOptions, "status" | "error">, Pick<RunParts, "failedStep"> {
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
const MAX_PAUSE_MS = 5000;
/**
 * A turn with more steps than this, or more bytes of results, logs a warning, since each further step saves them all
 * again.
 */
const MANY_STEPS = 1000;
const MANY_BYTES = 1_000_000;
/** Roughly the size of a run's record without its values. A step without its value has about this size, too. */
const HEAD_BYTES = 256;

/** The record of a run. It makes one save at a time, and each save contains all steps that were added before. */
export class RunJournal {
  readonly #store: RunStore;
  readonly #lease: Lease;
  readonly #parent: ParentRun | undefined;
  readonly #failed: (error: unknown) => void;
  #state: Omit<RunState, "head" | "steps">;
  /** The plain part of the run's state. */
  head: RunState["head"];
  /** The steps of the turn. */
  steps: StepEntries;
  /** Whether the end of this attempt is stored. */
  isEndSaved = false;
  /** The titles of the steps that no save contains yet. The next save's label lists them. */
  #unsaved: string[] = [];
  /** Settles with the last save that was asked for. Never rejects. */
  #last: Promise<unknown> = Promise.resolve();
  #next: Promise<unknown> | undefined;
  #hasWarned = false;

  /**
   * @param parent - Given if the run began inside another run.
   * @param failed - Called once a save has failed for good. Then nothing more is stored.
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
    const { steps, head, ...others } = state;
    const { traceparent: _former, ...ownHead } = head;
    this.#state = others;
    this.head = ownHead;
    this.steps = new StepEntries(steps);
  }

  /** The state at the beginning of the turn. */
  get begin(): string | undefined {
    return this.#state.begin ?? this.#state.state;
  }

  /** A label that names the last step: `Run failed after plan`. */
  labelAfterLast(what: string): string {
    const last = this.steps.all().at(-1)?.head;
    return last === undefined ? what : `${what} after ${stepTitle(last.name || "a save", last.occurrence)}`;
  }

  /**
   * Adds a step. Resolves once it is stored. Steps that are added at the same time share a save.
   *
   * @throws {PayloadTooLargeError} The step would make the record too large. It isn't added.
   */
  async record(head: StepHead, value: string | undefined): Promise<Entry> {
    const { state, begin } = this.#state;
    const others = HEAD_BYTES + byteLength(state) + byteLength(begin) + this.steps.joined().bytes;
    this.#assertFits(`Step ${JSON.stringify(stepTitle(head.name, head.occurrence))}`, "its result has", value, others);
    this.#unsaved.push(stepText(head));
    const entry = this.steps.add({ head, value });
    const [taskId, steps, { bytes }] = [this.#lease.taskId, this.steps.size, this.steps.joined()];
    if (!this.#hasWarned && (steps >= MANY_STEPS || bytes >= MANY_BYTES)) {
      this.#hasWarned = true;
      this.#store.options.logger.warn(
        { taskId, steps, bytes },
        `A turn of the run of task ${JSON.stringify(taskId)} has ${steps} steps with ${bytes} bytes of results, and each further step saves all of them again. End the turn from time to ` +
          "time with `return run.next(state)`, which keeps the state and forgets the results",
      );
    }
    this.#next ??= this.#inTurn(() => {
      this.#next = undefined;
      const more = this.#unsaved.length > 3 ? ` and ${this.#unsaved.length - 3} more` : "";
      return this.#save({ isTransient: true, label: this.#unsaved.slice(0, 3).join(", ") + more || undefined });
    });
    await this.#next;
    return entry;
  }

  /**
   * Makes a separate save, after the saves under way, for a milestone or the attempt's end.
   *
   * @param change - Called with the checkpoint's id before the save.
   * @returns The checkpoint's id.
   */
  save(saving: RunSave, change?: (id: string) => void): Promise<string> {
    return this.#inTurn(() => this.#save(saving, change));
  }

  /**
   * See {@link ParentRun}. If this attempt has saved nothing but its start, it saves now, so that it isn't counted as an
   * attempt that ended without a save.
   */
  async childSaved(): Promise<void> {
    if (this.head.starts === undefined) await this.#parent?.childSaved();
    else await this.#saveIfUnsaved(() => ({ label: "A child run has saved" }));
  }

  /**
   * Call it when the attempt must pause. If it has saved nothing but its start, it saves now that the start doesn't count:
   * a platform may kill the process before the steps under way have ended. Never rejects.
   */
  pausing(): Promise<void> {
    return this.#saveIfUnsaved((starts) => ({ label: this.labelAfterLast("Run is pausing"), starts: starts - 1 }));
  }

  /**
   * Saves a milestone in the middle of the turn, and adds it as a step. From then on `latest` returns its state. The
   * turn itself still has the state from its beginning.
   *
   * @throws {PayloadTooLargeError} The state would make the record too large. Nothing is changed.
   */
  saveMilestone(state: string, head: Omit<StepHead, "id">, options: RunSaveOptions): Promise<string> {
    const begin = this.begin ?? UNDEFINED;
    this.assertStateFits(state, byteLength(begin) + this.steps.joined().bytes);
    return this.save(options, (id) => {
      this.#state = { ...this.#state, begin, state };
      this.steps.add({ head: { ...head, id }, value: undefined });
    });
  }

  /**
   * @param others - The bytes of the record's other parts. At the end of a turn, there are none.
   * @throws {PayloadTooLargeError} The state is too large to be recorded.
   */
  assertStateFits(state: string, others = 0): void {
    this.#assertFits("The state", "it has", state, others);
  }

  /** Ends the turn with a milestone and begins the next turn. */
  async endTurn(state: string, options: RunSaveOptions): Promise<void> {
    await this.save({ ...options, isTurnOver: true }, () => {
      this.#state = { ...this.#state, state, begin: undefined };
    });
    this.head = { ...this.head, turn: this.head.turn + 1 };
    this.steps = new StepEntries([]);
    this.#hasWarned = false;
  }

  /** Runs `work` after the work before it, whose failure belongs to its own caller. */
  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    // The tick lets other steps that end at the same moment be added first.
    const turn = this.#last.then(() => new Promise<void>((resolve) => process.nextTick(resolve))).then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Saves if the attempt has saved nothing but its start. Never rejects. */
  async #saveIfUnsaved(saving: (starts: number) => RunSave): Promise<void> {
    await this.#inTurn(async () => {
      // Several child runs may have recorded something at the same time.
      const { starts } = this.head;
      if (starts !== undefined) await this.#save({ isTransient: true, ...saving(starts) });
      // A failed save has stopped this run, and the end of the attempt reports the error.
    }).catch(() => undefined);
  }

  #assertFits(what: string, has: string, text: string | undefined, others: number): void {
    const { maxPayloadBytes } = this.#store.options;
    const bytes = byteLength(text);
    if (HEAD_BYTES + bytes + byteLength(this.#state.input) + others <= maxPayloadBytes) return;
    throw new PayloadTooLargeError(
      `${what} of the run of task ${JSON.stringify(this.#lease.taskId)} can't be recorded: ${has} ${bytes} bytes, so the run's record would have more than ` +
        `${maxPayloadBytes} bytes. Earlier records are kept. Store less (a path, an id), end turns more often with ` +
        "run.next, or raise maxPayloadBytes.",
    );
  }

  async #save(saving: RunSave, change?: (id: string) => void): Promise<string> {
    const { isTransient = false, isTurnOver = false, isEnd = false, starts, result, failedStep, ...options } = saving;
    const lease = this.#lease;
    lease.signal.throwIfAborted();
    try {
      // A step may have blocked the process for longer than the lease's time.
      if (Date.parse(lease.expiresAt) <= Date.now()) await lease.renew();
      // A run that was paused for another reason than its waits is due at once.
      const open = isTransient ? this.steps.openWaits() : [];
      const dueAt = isEnd ? { dueAt: new Date(this.#store.options.clock()).toISOString() } : undefined;
      const openWaits = open.length === 0 ? undefined : { ...waitsIn(open), ...dueAt };
      const { stage = this.#state.stage, waits = openWaits } = options;
      const [replaces, isChild] = [this.#state.transientId, this.#parent !== undefined];
      const draft = this.#store.draft(lease.taskId, { ...options, stage, waits, isTransient, replaces, isChild });
      change?.(draft.id);
      const { generation, starts: _starts, ...others } = this.head;
      const nextToken = lease.token + (isEnd ? 1 : 0);
      this.head = { ...others, generation: generation || draft.id, nextToken, ...(starts && { starts }) };
      const { state, begin, input } = this.#state;
      const head = { ...this.head, id: draft.id, isTurnOver };
      // Once a turn is over, the results of its steps aren't needed.
      const encoded = isTurnOver
        ? encodeRunBody({ head, state, input, result, failedStep }, this.steps.joinedHeads())
        : encodeRunBody({ head, state, begin, input, result, failedStep }, this.steps.joined().text);
      this.#unsaved = [];
      const { sequence, id } = await this.#append(draft, encoded, replaces);
      this.isEndSaved = isEnd;
      this.#state = { ...this.#state, sequence, transientId: isTransient ? id : undefined, stage };
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
    encoded: ReturnType<typeof encodeRunBody>,
    replaces: string | undefined,
  ): Promise<CheckpointSummary> {
    const [lease, { sequence: expectedSequence }] = [this.#lease, this.#state];
    for (let failures = 0; ; failures++) {
      try {
        return await this.#store.append(draft, encoded, { lease, expectedSequence, replaces, isRetry: failures > 0 });
      } catch (error) {
        if (!(error instanceof CheckpointError && error.retryable)) throw error;
        const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, MAX_PAUSE_MS);
        await pause(ms, undefined, { signal: lease.signal }).catch(() => undefined);
        if (lease.signal.aborted) throw error;
      }
    }
  }
}

/** The names of the events that these waits wait for, and when the first of the waits ends. */
export function waitsIn(waits: readonly StepHead[]): RunWaits {
  const [dueAt = NEVER] = waits.flatMap(({ until }) => until ?? []).sort();
  return { dueAt, waitsFor: waits.flatMap(({ waitsFor, name }) => (waitsFor === "event" ? name : [])) };
}

function byteLength(text = ""): number {
  return Buffer.byteLength(text);
}

/** A recorded step of the turn. */
export interface Entry extends StoredStep {
  /** True if the function has called the step in this attempt. */
  isUsed: boolean;
  /** Grows with each record, so it tells which of two steps ended first. */
  readonly order: number;
}

type Key = Pick<StepHead, "name" | "occurrence"> & Partial<Pick<StepHead, "status">>;

/** The recorded steps of a turn, ordered by when they ended, with their texts. */
export class StepEntries {
  readonly #entries = new Map<string, Entry>();
  #nextOrder = 0;
  #hasWaits = false;
  /** The joined texts of the steps. A resume makes them when it first records a step. Later steps are appended. */
  #joined: { readonly text: string; readonly bytes: number } | undefined;

  constructor(steps: readonly StoredStep[]) {
    for (const step of steps) this.add(step, false);
  }

  get size(): number {
    return this.#entries.size;
  }

  all(): readonly Entry[] {
    return [...this.#entries.values()];
  }

  /** The waits that the function has begun, and that haven't ended. */
  openWaits(): readonly StepHead[] {
    // Most turns have no waits, and may have many steps.
    if (!this.#hasWaits) return [];
    return this.all().flatMap(({ head, isUsed }) => (isUsed && isOpenWait(head) ? head : []));
  }

  find(key: Key): Entry | undefined {
    return this.#entries.get(entryKey(key));
  }

  /** Adds a step. It replaces the record of the step's start, if there is one. */
  add(step: StoredStep, isUsed = true): Entry {
    const key = entryKey(step.head);
    // A step's order is that of its end, not of its start.
    if (this.#entries.delete(key)) this.#joined = undefined;
    if (this.#joined !== undefined) {
      const text = encodeStep(step.head, step.value);
      const { text: before, bytes } = this.#joined;
      this.#joined = { text: before === "" ? text : `${before},${text}`, bytes: bytes + Buffer.byteLength(text) + 1 };
    }
    const entry = { ...step, isUsed, order: this.#nextOrder++ };
    this.#hasWaits ||= isOpenWait(step.head);
    this.#entries.set(key, entry);
    return entry;
  }

  forget(is: (entry: Entry) => boolean): void {
    for (const [key, entry] of this.#entries) if (is(entry)) this.#entries.delete(key);
    this.#joined = undefined;
  }

  /** The texts of the steps, joined by commas. */
  joined(): { readonly text: string; readonly bytes: number } {
    if (this.#joined === undefined) {
      const text = this.all()
        .map(({ head, value }) => encodeStep(head, value))
        .join(",");
      this.#joined = { text, bytes: Buffer.byteLength(text) };
    }
    return this.#joined;
  }

  /** Like the text of {@link joined}, without results and errors. */
  joinedHeads(): string {
    return this.all()
      .map(({ head }) => encodeStep(head, undefined))
      .join(",");
  }
}

function isOpenWait({ status, waitsFor }: StepHead): boolean {
  return status === "started" && waitsFor !== undefined;
}

function entryKey({ name, occurrence, status }: Key): string {
  return `${status === "saved" ? "save" : "step"} ${occurrence} ${name}`;
}
