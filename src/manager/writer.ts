import { AsyncResource } from "node:async_hooks";
import { types } from "node:util";
import { decodeJson, type EncodedState, encodeJson } from "../codec/json.js";
import { type MadePayload, makePayloadFrom, openText, stateDigest } from "../codec/payload.js";
import type { PayloadOwner } from "../codec/transforms.js";
import { type AppendOptions, matchRetry } from "../contract/adapter.js";
import { checkId, checkTaskId, readClock } from "../contract/arguments.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  type JsonObject,
  toFailure,
  toSummary,
} from "../contract/checkpoint.js";
import type { AppendCondition } from "../contract/conditions.js";
import { isCorrupt } from "../contract/corrupt-record.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { nextTurn } from "../contract/runtime.js";
import type { Calls } from "./calls.js";
import { DroppedKeys } from "./dropped-keys.js";
import type { Lease } from "./lease.js";
import { warningLogger } from "./logger.js";
import type { NotificationHub } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import { requireLog } from "./records.js";
import type { Retention } from "./retention.js";
import { checkSaveOptions, copyMetadata, readToken, type SaveOptions } from "./save-options.js";
import { decodeWithSchema, encodeWithSchema } from "./schema.js";
import { traced, tracedFields, tracing } from "./tracing.js";

/** The longest time that saves may take without a turn of the event loop. */
const MAX_BLOCKING_MS = 20;

/** A checkpoint without its payload. */
export type UnfinishedDraft = Omit<CheckpointDraft, keyof MadePayload>;

/** How a draft is appended. `noEventAfter` and `records` need a storage with a log. */
export interface AppendRequest
  extends AppendCondition,
    Pick<AppendOptions, "replaces" | "sharesWith" | "records" | "sequence"> {
  /** Whether the draft may be stored already. */
  readonly isRetry?: boolean | undefined;
}

/** Turns states into drafts and appends them, in call order. */
export class CheckpointWriter {
  readonly #options: ResolvedOptions;
  readonly #calls: Calls;
  readonly #notifications: NotificationHub;
  readonly #retention: Retention;
  /** By task: the drafts that wait until all earlier drafts have gone to the adapter. */
  readonly #queues = new Map<string, Set<QueuedAppend>>();
  readonly #droppedKeys: DroppedKeys | undefined;
  #yieldedMs: number;

  constructor(options: ResolvedOptions, calls: Calls, notifications: NotificationHub, retention: Retention) {
    this.#options = options;
    this.#calls = calls;
    this.#notifications = notifications;
    this.#retention = retention;
    this.#yieldedMs = options.runtime.elapsedMs();
    this.#droppedKeys = options.schema && new DroppedKeys(options.schema, options.logger);
  }

  /**
   * Reads the state before its first `await`. Without transforms, the draft also reaches the adapter before the first
   * `await`.
   */
  save(taskId: string, state: unknown, options: SaveOptions): Promise<CheckpointSummary> {
    return this.#calls.track(this.#finish(this.#makeAndAppend(taskId, state, options)), options.lease);
  }

  /** Doesn't await the append, since the state would stay in memory. */
  async #makeAndAppend(taskId: string, state: unknown, options: SaveOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkSaveOptions(options);
    const { id, expectedSequence, lease } = options;
    const fencingToken = readToken(taskId, lease);
    const draft = this.draft(taskId, options);
    const encoded = this.encode(taskId, state, draft);
    return this.#append(draft, encoded, { expectedSequence, fencingToken, isRetry: id !== undefined });
  }

  /** Emits `saved` and applies the manager's retention policy once a draft is stored. */
  async #finish(appended: Promise<CheckpointSummary>): Promise<CheckpointSummary> {
    const saved = await appended;
    const { logger, retention } = this.#options;
    // The default logger drops this level.
    if (logger !== warningLogger) logger.debug({ ...saved }, "Checkpoint saved");
    this.#notifications.emit("saved", saved);
    if (retention !== undefined) await this.#retention.afterSave(saved, retention);
    return saved;
  }

  /** Encodes a state as text. @throws The errors of `save`. */
  encode(taskId: string, state: unknown, owner?: PayloadOwner): EncodedState {
    const { maxPayloadBytes, redaction, schema } = this.#options;
    const stored =
      schema === undefined ? state : encodeWithSchema(schema, state, "Nothing was saved: the schema refuses the state");
    const encoded = encodeJson(stored, maxPayloadBytes, owner, redaction?.state);
    this.#droppedKeys?.check(taskId, state, stored);
    // If the schema would refuse the redacted state on load, this refuses the save.
    if (schema !== undefined && encoded.isRedacted) {
      const redacted = decodeJson(encoded.encoding, encoded.text, owner);
      decodeWithSchema(schema, redacted, "Nothing was saved: the schema refuses the redacted state");
    }
    return encoded;
  }

  /**
   * Makes a draft with an id. So a draft that is appended again after a failure is stored once.
   *
   * @param options - Checked by the caller.
   * @param note - Waymark's own metadata.
   */
  draft(taskId: string, options: SaveOptions, note?: JsonObject): UnfinishedDraft {
    const { createId, clock, runtime, stateVersion, redaction } = this.#options;
    const { stage, label, parentId, metadata, error, status = error === undefined ? "running" : "failed" } = options;
    const failure = error === undefined ? undefined : (redaction?.failure(error) ?? toFailure(error));
    const nowMs = readClock(clock);
    const id = options.id ?? (createId ? createId({ taskId, stage, nowMs }) : runtime.randomUUID());
    if (createId !== undefined && options.id === undefined) checkId("The id from createId", id);
    const copied = metadata === undefined ? note : { ...copyMetadata(metadata, redaction?.metadata), ...note };
    return {
      taskId,
      id,
      createdAt: new Date(nowMs).toISOString(),
      ...(stage === undefined ? undefined : { stage }),
      ...(label === undefined ? undefined : { label: redaction?.label(label) ?? label }),
      ...(parentId === undefined ? undefined : { parentId }),
      ...(copied === undefined ? undefined : { metadata: copied }),
      status,
      ...(failure && { error: failure }),
      stateVersion,
    };
  }

  /**
   * Appends a draft with its state, after the earlier appends of its task. It also works while the manager is closing,
   * when auto-saves and runs make their last save.
   */
  append(
    draft: UnfinishedDraft,
    encoded: EncodedState,
    request: AppendRequest,
    lease?: Lease,
  ): Promise<CheckpointSummary> {
    return this.#calls.track(this.#finish(this.#append(draft, encoded, request)), lease);
  }

  /** Appends a copy of a checkpoint, after the earlier appends of its task. */
  appendCopy(
    taskId: string,
    copy: Promise<readonly [draft: CheckpointDraft, request: AppendRequest]>,
    lease: Lease | undefined,
  ): Promise<CheckpointSummary> {
    const appended = this.#appendInOrder(taskId, copy, ([draft, request]) => this.#send(draft, request));
    return this.#calls.track(this.#finish(appended), lease);
  }

  #append(draft: UnfinishedDraft, encoded: EncodedState, request: AppendRequest): Promise<CheckpointSummary> {
    const { transforms } = this.#options;
    const digest = request.isRetry && transforms.length > 0 ? stateDigest(encoded) : undefined;
    const payload = makePayloadFrom(encoded, { transforms, context: draft });
    if (!types.isPromise(payload) && !this.#queues.has(draft.taskId)) {
      return this.#send({ ...draft, ...payload }, request, digest);
    }
    return this.#appendInOrder(draft.taskId, payload, (made) => this.#send({ ...draft, ...made }, request, digest));
  }

  /**
   * Passes a draft to the adapter.
   *
   * @param digest - The state's digest, if the draft may already be stored with another ciphertext.
   */
  #send(draft: CheckpointDraft, request: AppendRequest, digest?: string, isTraced = false): Promise<CheckpointSummary> {
    if (tracing.save.hasSubscribers && !isTraced) {
      const send = async () => this.#send(draft, request, digest, true);
      return traced(tracing.save, tracedFields(draft), send, ({ sequence }) => ({ sequence }));
    }
    const { expectedSequence, fencingToken, noEventAfter, replaces, sharesWith, records, sequence: exact } = request;
    if (noEventAfter !== undefined || records !== undefined) requireLog(this.#options.storage, "a run");
    const condition = { expectedSequence, fencingToken, noEventAfter };
    const options = { replaces, sharesWith, records, sequence: exact };
    const stored = this.#options.storage.append(draft, condition, options);
    const sequence = digest === undefined ? stored : stored.catch((error) => this.#findRetry(draft, digest, error));
    return this.#awaitStored(toSummary({ ...draft, sequence: 0 }), sequence, request.isRetry);
  }

  /**
   * Takes only the summary, so that the payload can be freed, since a program may have thousands of saves under way.
   */
  async #awaitStored(
    summary: CheckpointSummary,
    stored: Promise<number>,
    isRetry: boolean | undefined,
  ): Promise<CheckpointSummary> {
    const saved = { ...summary, sequence: await stored };
    // A storage may save without a turn of the event loop. The turn here lets leases renew themselves and signals
    // arrive.
    const { runtime } = this.#options;
    if (runtime.elapsedMs() - this.#yieldedMs >= MAX_BLOCKING_MS) {
      await nextTurn(runtime);
      this.#yieldedMs = runtime.elapsedMs();
    }
    return this.#options.createId !== undefined || isRetry ? this.#asStored(saved, isRetry) : saved;
  }

  /** Returns the stored checkpoint's sequence, if the conflict's cause is that the draft was stored before. */
  async #findRetry(draft: CheckpointDraft, digest: string, conflict: unknown): Promise<number> {
    if (!(conflict instanceof CheckpointConflictError)) throw conflict;
    const { storage, transforms } = this.#options;
    // Encrypting the same state twice yields different bytes, so the adapter can't recognise a retry. Hence the
    // decrypted texts are compared here.
    const stored = await storage.get(draft.taskId, draft.id);
    if (stored === undefined || isCorrupt(stored)) throw conflict;
    if (stateDigest(await openText(stored.payload, { transforms, context: stored })) !== digest) throw conflict;
    return matchRetry({ ...stored, payload: draft.payload }, draft);
  }

  /**
   * Returns the summary of a save whose id may have been stored before. If the save is a retry, returns the stored
   * checkpoint's summary. If `createId` made the id twice, throws a conflict, since the new save would be lost.
   */
  async #asStored(saved: CheckpointSummary, isRetry: boolean | undefined): Promise<CheckpointSummary> {
    const { taskId, id, sequence } = saved;
    const query = { taskId, order: "oldest", afterSequence: sequence - 1, limit: 1 } as const;
    for await (const stored of this.#options.storage.list(query)) {
      // If another record comes first, the checkpoint was removed or damaged after the save.
      if (isCorrupt(stored) || stored.id !== id) break;
      if (isRetry) return stored;
      if (stored.createdAt === saved.createdAt && stored.status === saved.status) break;
      throw new CheckpointConflictError(
        `createId returned ${JSON.stringify(id)}, but task ${JSON.stringify(taskId)} has a checkpoint with that id, saved at ${stored.createdAt}. ` +
          "Nothing was saved; ids must be unique in their task.",
      );
    }
    return saved;
  }

  /**
   * Appends drafts in call order, even if a later draft is ready first. Each draft goes to the adapter as soon as all
   * earlier drafts have gone there. It doesn't wait until these are stored, so that the adapter can store several
   * together.
   */
  #appendInOrder<Made>(
    taskId: string,
    made: Made | Promise<Made>,
    append: (made: Made) => Promise<CheckpointSummary>,
  ): Promise<CheckpointSummary> {
    const queue = this.#queues.get(taskId) ?? new Set();
    this.#queues.set(taskId, queue);
    const queued: QueuedAppend = {};
    queue.add(queued);
    return new Promise((resolve) => {
      const setReady = (appended: () => Promise<CheckpointSummary>) => {
        // An earlier append may make this call. It is bound, so that it runs in its own caller's asynchronous context.
        queued.call = AsyncResource.bind(() => resolve(appended()));
        // All appends that are ready are called at once, so that the adapter can store them together.
        for (const next of queue) {
          if (next.call === undefined) break;
          queue.delete(next);
          next.call();
        }
        if (queue.size === 0) this.#queues.delete(taskId);
      };
      Promise.resolve(made).then(
        (ready) => setReady(async () => append(ready)),
        // Rethrows the draft's error.
        () => setReady(async () => append(await made)),
      );
    });
  }
}

/** An append that waits for its draft and for earlier appends. */
interface QueuedAppend {
  call?: () => void;
}
