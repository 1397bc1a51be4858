import { hash } from "node:crypto";
import type { EncodedState } from "../codec/encoder.js";
import { encodeJson } from "../codec/json.js";
import type { KnownBodies } from "../codec/known-bodies.js";
import { byteLengthOf, makePayload, openPayload } from "../codec/payload.js";
import { isCorrupt, sequenceOfSame } from "../contract/adapter.js";
import {
  type CheckpointDraft,
  type CheckpointSummary,
  failureOf,
  type Payload,
  summaryOf,
} from "../contract/checkpoint.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { checkId, checkTaskId } from "./arguments.js";
import { checkSaveOptions, copyMetadata, type ResolvedOptions, type SaveOptions } from "./options.js";
import { decodeWithSchema, encodeWithSchema, type SavedStateOf, type StateSchema } from "./schema.js";

/** The end of the year 9999: later times have another form in ISO 8601, and another order. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const REDACTED_REFUSED = "Nothing was saved: the schema refuses the state as it is once it is redacted";

/** Makes drafts of states and appends them, in call order. */
export class CheckpointWriter<Schema extends StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  readonly #known: KnownBodies;
  /** The last append of each task, where payloads are made asynchronously. */
  readonly #queues = new Map<string, Promise<void>>();

  constructor(options: ResolvedOptions<Schema>, known: KnownBodies) {
    this.#options = options;
    this.#known = known;
  }

  /** Reads the state, and without transforms reaches the adapter, before its first await. */
  async append(taskId: string, state: SavedStateOf<Schema>, options: SaveOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkSaveOptions(options);
    const { maxPayloadBytes, transforms, redaction, schema } = this.#options;
    const draft = this.#draft(taskId, options);
    const isRepeatable = options.id !== undefined && transforms.length > 0;
    const digest = isRepeatable ? this.digest(state) : undefined;
    const payload = makePayload(this.#stored(state), {
      maxBytes: maxPayloadBytes,
      transforms,
      context: draft,
      redacted: redaction?.state,
      // What is acknowledged can be loaded again.
      onRedacted: schema && ((stored) => decodeWithSchema(schema, stored, REDACTED_REFUSED)),
    });

    const append = async (made: Payload): Promise<CheckpointSummary> => {
      const whole = { ...draft, sizeBytes: byteLengthOf(made.body), payload: made };
      const sequence = await this.#store(whole, options, digest);
      if (this.#options.createsIds && options.id === undefined) await this.#assertStored(whole, sequence);
      this.#known.add(made);
      return summaryOf({ ...whole, sequence });
    };
    return payload instanceof Promise ? this.#inOrder(taskId, payload, append) : append(payload);
  }

  /** Tells whether two states would be stored alike, whatever transforms make of them. */
  digest(state: SavedStateOf<Schema>): string {
    const { maxPayloadBytes, redaction } = this.#options;
    return digestOf(encodeJson(this.#stored(state), maxPayloadBytes, undefined, redaction?.state));
  }

  async #store(draft: CheckpointDraft, { expectedSequence }: SaveOptions, digest: string | undefined): Promise<number> {
    const { storage, transforms } = this.#options;
    try {
      return await storage.append(draft, { expectedSequence });
    } catch (error) {
      if (digest === undefined || !(error instanceof CheckpointConflictError)) throw error;
      // Encryption never gives the same bytes twice, so the adapter can't see that this is a retry.
      const stored = await storage.get(draft.taskId, draft.id);
      if (stored === undefined || isCorrupt(stored)) throw error;
      const { state } = await openPayload(stored.payload, { transforms, context: stored });
      if (digestOf(encodeJson(state, Number.POSITIVE_INFINITY)) !== digest) throw error;
      return sequenceOfSame({ ...stored, payload: draft.payload }, draft);
    }
  }

  /** An adapter answers an id that it has, with the same state, by what it has: right for a retry, not for a new save. */
  async #assertStored(draft: CheckpointDraft, sequence: number): Promise<void> {
    const { taskId, id, createdAt } = draft;
    const near = { taskId, order: "oldest", afterSequence: sequence - 1, limit: 1 } as const;
    for await (const record of this.#options.storage.list(near)) {
      // Removed or damaged in the meantime: then it isn't the answer to this question.
      if (isCorrupt(record) || record.id !== id) return;
      const { label, stage, status } = record;
      if (createdAt === record.createdAt && label === draft.label && stage === draft.stage && status === draft.status)
        return;
      throw new CheckpointConflictError(
        `createId made ${JSON.stringify(id)}, which a checkpoint of task ${JSON.stringify(taskId)} has since ${record.createdAt}. ` +
          "Nothing was saved; ids must be unique in their task.",
      );
    }
  }

  #draft(taskId: string, options: SaveOptions) {
    const { createId, clock, stateVersion, redaction } = this.#options;
    const { stage, label, parentId, metadata, error, status = error === undefined ? "running" : "failed" } = options;
    const failure = error === undefined ? undefined : failureOf(error);
    const nowMs = clock();
    if (!(Math.abs(nowMs) <= LAST_MS))
      throw new RangeError(`The clock gives ${nowMs}, which is no time before the year 10000.`);
    const id = options.id ?? createId({ taskId, stage, nowMs });
    if (options.id === undefined) checkId("The id that createId made", id);
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

  #stored(state: SavedStateOf<Schema>): unknown {
    const { schema } = this.#options;
    if (schema === undefined) return state;
    return encodeWithSchema(schema, state, "Nothing was saved: the schema refuses the state");
  }

  /** Each payload takes its own time in the transforms; the adapter sees the drafts in call order all the same. */
  async #inOrder<Result>(
    taskId: string,
    payload: Promise<Payload>,
    append: (payload: Payload) => Promise<Result>,
  ): Promise<Result> {
    const appended = Promise.all([payload, this.#queues.get(taskId)]).then(([made]) => append(made));
    // Whoever comes next waits for this one, however it ends.
    const ended = appended.then(
      () => undefined,
      () => undefined,
    );
    this.#queues.set(taskId, ended);
    try {
      return await appended;
    } finally {
      if (this.#queues.get(taskId) === ended) this.#queues.delete(taskId);
    }
  }
}

function digestOf({ encoding, text }: EncodedState): string {
  return hash("sha256", `${encoding} ${text}`, "hex");
}
