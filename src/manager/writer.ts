import { AsyncResource } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { types } from "node:util";
import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { digestOf, type MadePayload, makePayloadOf, openText, payloadFor } from "../codec/payload.js";
import type { PayloadOwner } from "../codec/transforms.js";
import { type AppendOptions, isCorrupt, matchRetry } from "../contract/adapter.js";
import { checkId, checkTaskId } from "../contract/arguments.js";
import {
  brokenSeal,
  type CheckpointDraft,
  type CheckpointSummary,
  failureOf,
  findDamage,
  type StoredCheckpoint,
  summaryOf,
} from "../contract/checkpoint.js";
import { CheckpointConflictError, CheckpointError } from "../contract/errors.js";
import { signalMetadata } from "../contract/signals.js";
import { type RunWaits, runMetadata, transientMetadata } from "../contract/transient.js";
import { DroppedKeys } from "./dropped-keys.js";
import type { ResolvedOptions } from "./options.js";
import { checkSaveOptions, copyMetadata, type SaveOptions, tokenOf } from "./save-options.js";
import { decodeWithSchema, encodeWithSchema } from "./schema.js";
import { traced, tracedFields, tracing } from "./tracing.js";

/** The end of the year 9999. Later times have a longer ISO 8601 form, which doesn't sort by time. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** The longest time for which saves may go on without a turn of the event loop. */
const YIELD_MS = 20;

const REDACTED_REFUSED = "Nothing was saved: the schema refuses the redacted state";

/** Turns states into drafts and appends them, in call order. */
export class CheckpointWriter {
  readonly #options: ResolvedOptions;
  readonly #queues = new Map<string, Set<Turn>>();
  readonly #droppedKeys: DroppedKeys | undefined;
  #yieldedMs = performance.now();

  constructor(options: ResolvedOptions) {
    this.#options = options;
    this.#droppedKeys = options.schema && new DroppedKeys(options.schema, options.logger);
  }

  /**
   * Reads the state before its first `await`. Without transforms, the draft also reaches the adapter before the first
   * `await`.
   */
  async append(taskId: string, state: unknown, options: SaveOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkSaveOptions(options);
    tokenOf(taskId, options.lease);
    const draft = this.#draft(taskId, options);
    const encoded = this.#encoded(taskId, state, draft);
    const canRetry = options.id !== undefined && this.#options.transforms.length > 0;
    return this.#appendEncoded(draft, encoded, options, {}, canRetry ? stateDigest(encoded) : undefined);
  }

  /** Encodes a state for storing, with a digest that is equal for equal stored states. */
  encode(taskId: string, state: unknown): EncodedSnapshot {
    const encoded = this.#encoded(taskId, state);
    const sha256 = digestOf(encoded.text);
    return { encoded: { ...encoded, sha256 }, digest: `${encoded.encoding} ${sha256}` };
  }

  /**
   * The digest of {@link encode} for a stored checkpoint. `undefined` if the checkpoint can't be read, or its state has
   * another version.
   */
  async digestOf(taskId: string, id: string): Promise<string | undefined> {
    const { storage, transforms, stateVersion } = this.#options;
    const stored = await storage.get(taskId, id);
    if (stored === undefined || isCorrupt(stored) || brokenSeal(stored) !== undefined) return undefined;
    if (stored.stateVersion !== stateVersion) return undefined;
    try {
      const { encoding, text } = await openText(stored.payload, { transforms, context: stored });
      // Without transforms, the payload's digest is the text's digest, and has been checked.
      return stored.payload.encoding === encoding
        ? `${encoding} ${stored.payload.sha256}`
        : stateDigest({ encoding, text });
    } catch (error) {
      // The checkpoint is damaged, or its key is missing, so its state is unknown.
      if (error instanceof CheckpointError) return undefined;
      throw error;
    }
  }

  /** Appends a transient checkpoint of an encoded state. It replaces the transient checkpoint with the id `replaces`. */
  async appendTransient(
    taskId: string,
    { encoded }: EncodedSnapshot,
    options: SaveOptions,
    replaces: string | undefined,
  ): Promise<CheckpointSummary> {
    tokenOf(taskId, options.lease);
    checkSaveOptions(options);
    const draft = { ...this.#draft(taskId, options), metadata: transientMetadata(replaces) };
    return this.#appendEncoded(draft, encoded, options, { replaces });
  }

  /** Encodes a state as text for a run's checkpoint. @throws The errors of `save`. */
  stateText(taskId: string, state: unknown): string {
    const encoded = this.#encoded(taskId, state);
    const { schema } = this.#options;
    if (schema && encoded.isRedacted) {
      decodeWithSchema(schema, decodeJson(encoded.encoding, encoded.text), REDACTED_REFUSED);
    }
    return encoded.text;
  }

  /**
   * A run's checkpoint without its payload. It has its id already, so if it is appended again after a failure, it is
   * stored once.
   */
  draftOfRun(
    taskId: string,
    options: SaveOptions,
    transient: { replaces: string | undefined } | undefined,
    waits?: RunWaits,
    isChild = false,
  ): RunDraft {
    checkSaveOptions(options);
    const draft = this.#draft(taskId, options);
    return { ...draft, metadata: runMetadata(transient, draft.metadata, waits, isChild) };
  }

  /**
   * Appends a signal to its companion task. Its value is stored as it is, without the schema of states.
   *
   * @param options - `stage` is the signal's name. If the id is given, the signal may be stored already.
   */
  async appendSignal(
    companion: string,
    value: EncodedState,
    options: Pick<SaveOptions, "id" | "stage">,
    by: string | undefined,
  ): Promise<CheckpointSummary> {
    const draft = { ...this.#draft(companion, { ...options, status: "paused" }), metadata: signalMetadata(by) };
    const canRetry = options.id !== undefined && this.#options.transforms.length > 0;
    return this.#appendEncoded(draft, value, options, {}, canRetry ? stateDigest(value) : undefined);
  }

  /**
   * @param replaces - The id of the transient checkpoint to replace. @param isRepeated - True if the draft may be stored
   *   already.
   */
  async appendOfRun(
    draft: RunDraft,
    encoded: EncodedState,
    options: Pick<SaveOptions, "expectedSequence" | "lease">,
    { replaces, isRepeated }: { readonly replaces: string | undefined; readonly isRepeated: boolean },
  ): Promise<CheckpointSummary> {
    const digest = isRepeated && this.#options.transforms.length > 0 ? stateDigest(encoded) : undefined;
    return this.#appendEncoded(draft, encoded, options, { replaces }, digest);
  }

  /**
   * Appends a copy of a checkpoint, after the earlier appends of its task.
   *
   * @param draft - Made by {@link draftCopy}.
   */
  async appendCopy(
    taskId: string,
    draft: Promise<CheckpointDraft>,
    options: SaveOptions,
    sharesWith: NonNullable<AppendOptions["sharesWith"]>,
  ): Promise<CheckpointSummary> {
    return this.#inOrder(taskId, draft, (whole) => this.#append(whole, options, { sharesWith }));
  }

  /** A draft with the state of a stored checkpoint, which is neither decoded nor migrated. */
  async draftCopy(source: StoredCheckpoint, taskId: string, options: SaveOptions): Promise<CheckpointDraft> {
    const { transforms } = this.#options;
    const draft = { ...this.#draft(taskId, options), stateVersion: source.stateVersion };
    return { ...draft, ...(await payloadFor(draft, source.payload, { transforms, context: source })) };
  }

  /** Copies the intact checkpoints of a task, each with its id, sequence, time and status. Done again, it changes nothing. */
  async copyTask(from: string, to: string): Promise<void> {
    const { storage, transforms } = this.#options;
    for await (const record of storage.read({ taskId: from, order: "oldest" })) {
      if (isCorrupt(record) || findDamage(record) !== undefined) continue;
      const { seal: _seal, sequence, payload, ...fields } = record;
      const draft = { ...fields, taskId: to };
      const made = await payloadFor(draft, payload, { transforms, context: record });
      await storage.append({ ...draft, ...made }, {}, { sequence });
    }
  }

  #encoded(taskId: string, state: unknown, owner?: PayloadOwner): EncodedState {
    const { maxPayloadBytes, redaction, schema } = this.#options;
    const refused = "Nothing was saved: the schema refuses the state";
    const stored = schema === undefined ? state : encodeWithSchema(schema, state, refused);
    const encoded = encodeJson(stored, maxPayloadBytes, owner, redaction?.state);
    this.#droppedKeys?.look(taskId, state, stored);
    return encoded;
  }

  #appendEncoded(
    draft: RunDraft,
    encoded: EncodedState,
    options: SaveOptions,
    appendOptions: AppendOptions,
    digest?: string,
  ): Promise<CheckpointSummary> {
    const { transforms, schema } = this.#options;
    const payload = makePayloadOf(encoded, {
      transforms,
      context: draft,
      // If the schema would refuse the redacted state on load, this refuses the save.
      onRedacted: schema && ((stored) => decodeWithSchema(schema, stored, REDACTED_REFUSED)),
    });
    const append = (made: MadePayload) => this.#append({ ...draft, ...made }, options, appendOptions, digest);
    const isNext = !(types.isPromise(payload) || this.#queues.has(draft.taskId));
    return isNext ? append(payload) : this.#inOrder(draft.taskId, payload, append);
  }

  #append(
    draft: CheckpointDraft,
    options: SaveOptions,
    appendOptions: AppendOptions,
    digest?: string,
  ): Promise<CheckpointSummary> {
    if (!tracing.save.hasSubscribers) return this.#appendTo(draft, options, appendOptions, digest);
    const append = async () => this.#appendTo(draft, options, appendOptions, digest);
    return traced(tracing.save, tracedFields(draft), append, ({ sequence }) => ({ sequence }));
  }

  #appendTo(
    draft: CheckpointDraft,
    options: SaveOptions,
    appendOptions: AppendOptions,
    digest?: string,
  ): Promise<CheckpointSummary> {
    const { expectedSequence, lease } = options;
    const condition = { expectedSequence, fencingToken: tokenOf(draft.taskId, lease) };
    const stored = this.#options.storage.append(draft, condition, appendOptions);
    const sequence =
      digest === undefined ? stored : stored.catch((error) => this.#sequenceOfRetry(draft, digest, error));
    return this.#saved(summaryOf({ ...draft, sequence: 0 }), sequence, options);
  }

  /**
   * Takes only the summary, so that the payload can be freed, since a program may have thousands of saves under way.
   */
  async #saved(summary: CheckpointSummary, stored: Promise<number>, options: SaveOptions): Promise<CheckpointSummary> {
    const saved = { ...summary, sequence: await stored };
    // A storage may save without a turn of the event loop. The turn here lets leases renew themselves and signals
    // arrive.
    if (performance.now() - this.#yieldedMs >= YIELD_MS) {
      await nextTurn();
      this.#yieldedMs = performance.now();
    }
    return this.#options.createId !== undefined || options.id !== undefined ? this.#asStored(saved, options) : saved;
  }

  async #sequenceOfRetry(draft: CheckpointDraft, digest: string, error: unknown): Promise<number> {
    if (!(error instanceof CheckpointConflictError)) throw error;
    const { storage, transforms } = this.#options;
    // Encrypting the same state twice gives different bytes, so the adapter can't recognise a retry. Hence the
    // decrypted texts are compared here.
    const stored = await storage.get(draft.taskId, draft.id);
    if (stored === undefined || isCorrupt(stored)) throw error;
    if (stateDigest(await openText(stored.payload, { transforms, context: stored })) !== digest) throw error;
    return matchRetry({ ...stored, payload: draft.payload }, draft);
  }

  /**
   * The summary of a save whose id may have been stored before. If the caller gave the id, the save is a retry, and the
   * stored checkpoint is returned. If `createId` made the id twice, a conflict is thrown, since the new save would be
   * lost.
   */
  async #asStored(saved: CheckpointSummary, options: SaveOptions): Promise<CheckpointSummary> {
    const { taskId, id, sequence } = saved;
    const query = { taskId, order: "oldest", afterSequence: sequence - 1, limit: 1 } as const;
    for await (const stored of this.#options.storage.list(query)) {
      // If so, the checkpoint was removed or damaged after the save.
      if (isCorrupt(stored) || stored.id !== id) break;
      if (options.id !== undefined) return stored;
      if (stored.createdAt === saved.createdAt && stored.status === saved.status) break;
      throw new CheckpointConflictError(
        `createId returned ${JSON.stringify(id)}, but task ${JSON.stringify(taskId)} has a checkpoint with that id, saved at ${stored.createdAt}. ` +
          "Nothing was saved; ids must be unique in their task.",
      );
    }
    return saved;
  }

  #draft(taskId: string, options: SaveOptions) {
    const { createId, clock, stateVersion, redaction } = this.#options;
    const { stage, label, parentId, metadata, error, status = error === undefined ? "running" : "failed" } = options;
    const failure = error === undefined ? undefined : failureOf(error);
    const nowMs = clock();
    if (!(Math.abs(nowMs) <= LAST_MS))
      throw new RangeError(`The clock returned ${nowMs}, which is not a time before the year 10000.`);
    const id = options.id ?? createId?.({ taskId, stage, nowMs }) ?? randomUUID();
    if (createId !== undefined && options.id === undefined) checkId("The id from createId", id);
    return {
      taskId,
      id,
      createdAt: new Date(nowMs).toISOString(),
      ...(stage === undefined ? undefined : { stage }),
      ...(label === undefined ? undefined : { label: redaction?.label(label) ?? label }),
      ...(parentId === undefined ? undefined : { parentId }),
      ...(metadata === undefined ? undefined : { metadata: copyMetadata(metadata, redaction?.metadata) }),
      status,
      ...(failure && { error: redaction?.failure(failure) ?? failure }),
      stateVersion,
    };
  }

  /**
   * Appends drafts in call order, also if a later draft is ready first. Each draft goes to the adapter as soon as all
   * earlier ones went there. It doesn't wait until they are stored, so that the adapter can store several together.
   */
  #inOrder<Made, Result>(
    taskId: string,
    made: Made | Promise<Made>,
    append: (made: Made) => Promise<Result>,
  ): Promise<Result> {
    const queue = this.#queues.get(taskId) ?? new Set();
    this.#queues.set(taskId, queue);
    const turn: Turn = {};
    queue.add(turn);
    return new Promise((resolve) => {
      const isReady = (appended: () => Promise<Result>) => {
        // An earlier turn may call it. Bound, so that it runs in its own caller's asynchronous context.
        turn.call = AsyncResource.bind(() => resolve(appended()));
        callReady(queue);
        if (queue.size === 0) this.#queues.delete(taskId);
      };
      Promise.resolve(made).then(
        (ready) => isReady(async () => append(ready)),
        // Rethrows the draft's error.
        () => isReady(async () => append(await made)),
      );
    });
  }
}

/** A state that {@link CheckpointWriter.encode} has encoded. */
export interface EncodedSnapshot {
  readonly encoded: EncodedState;
  readonly digest: string;
}

/** A checkpoint that {@link CheckpointWriter.draftOfRun} has begun. */
export type RunDraft = Omit<CheckpointDraft, keyof MadePayload>;

/** An append that waits for its draft and for earlier appends. */
interface Turn {
  call?: () => void;
}

function callReady(queue: Set<Turn>): void {
  for (const turn of queue) {
    if (turn.call === undefined) return;
    queue.delete(turn);
    turn.call();
  }
}

function stateDigest({ encoding, text }: Pick<EncodedState, "encoding" | "text">): string {
  return `${encoding} ${digestOf(text)}`;
}
