import { hash } from "node:crypto";
import { encodeJson } from "../codec/json.js";
import { type MadePayload, makePayload } from "../codec/payload.js";
import { isCorrupt } from "../contract/adapter.js";
import { type CheckpointDraft, type CheckpointSummary, failureOf, summaryOf } from "../contract/checkpoint.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { checkId, checkTaskId } from "./arguments.js";
import { checkSaveOptions, copyMetadata, type ResolvedOptions, type SaveOptions } from "./options.js";
import { decodeWithSchema, encodeWithSchema, type SavedStateOf, type StateSchema } from "./schema.js";

/** The end of the year 9999: later times have another form in ISO 8601, and another order. */
const LAST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

const REDACTED_REFUSED = "Nothing was saved: the schema refuses the state as it is once it is redacted";

/** Makes drafts of states and appends them in call order. */
export class CheckpointWriter<Schema extends StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  /** The last append of each task, where payloads are made asynchronously. */
  readonly #queues = new Map<string, Promise<void>>();

  constructor(options: ResolvedOptions<Schema>) {
    this.#options = options;
  }

  /** Reads the state before its first await. Without transforms, it also calls the adapter before that. */
  async append(taskId: string, state: SavedStateOf<Schema>, options: SaveOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkSaveOptions(options);
    const { maxPayloadBytes, transforms, redaction, schema } = this.#options;
    const draft = this.#draft(taskId, options);
    const payload = makePayload(this.#stored(state), {
      maxBytes: maxPayloadBytes,
      transforms,
      context: draft,
      redacted: redaction?.state,
      // Otherwise an acknowledged save could fail to load.
      onRedacted: schema && ((stored) => decodeWithSchema(schema, stored, REDACTED_REFUSED)),
    });

    const append = async (made: MadePayload): Promise<CheckpointSummary> => {
      const whole = { ...draft, ...made };
      const { expectedSequence } = options;
      const sequence = await this.#options.storage.append(whole, { expectedSequence });
      if (this.#options.createsIds) await this.#assertStored(whole, sequence);
      return summaryOf({ ...whole, sequence });
    };
    return payload instanceof Promise ? this.#inOrder(taskId, payload, append) : append(payload);
  }

  /** Two states with the same digest are stored alike. Transforms play no part. */
  digest(state: SavedStateOf<Schema>): string {
    const { maxPayloadBytes, redaction } = this.#options;
    const { encoding, text } = encodeJson(this.#stored(state), maxPayloadBytes, undefined, redaction?.state);
    return hash("sha256", `${encoding} ${text}`, "hex");
  }

  /** For an id that it has with the same state, an adapter gives the stored sequence: right for a retry, not for a new save. */
  async #assertStored(draft: CheckpointDraft, sequence: number): Promise<void> {
    const { taskId, id, createdAt } = draft;
    const near = { taskId, order: "oldest", afterSequence: sequence - 1, limit: 1 } as const;
    for await (const record of this.#options.storage.list(near)) {
      // The record was removed or damaged meanwhile: there is nothing to compare with.
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
    const id = createId({ taskId, stage, nowMs });
    checkId("The id that createId made", id);
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

  /** Payloads may finish their transforms in any order. The adapter still gets the drafts in call order. */
  async #inOrder<Result>(
    taskId: string,
    payload: Promise<MadePayload>,
    append: (made: MadePayload) => Promise<Result>,
  ): Promise<Result> {
    const appended = Promise.all([payload, this.#queues.get(taskId)]).then(([made]) => append(made));
    // The next append waits for this one, also if it fails.
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
