import { hash } from "node:crypto";
import { checkId, checkTaskId } from "./arguments.js";
import { type CheckpointSummary, failureOf, type Payload, summaryOf } from "./checkpoint.js";
import { encodeJson } from "./codec/json.js";
import { byteLengthOf, makePayload } from "./codec/payload.js";
import { checkSaveOptions, copyMetadata, type ResolvedOptions, type SaveOptions } from "./options.js";
import { encodeWithSchema, type SavedStateOf, type StateSchema } from "./schema.js";

/** Makes drafts of states and appends them, in call order. */
export class CheckpointWriter<Schema extends StateSchema> {
  readonly #options: ResolvedOptions<Schema>;
  /** The last append of each task, where payloads are made asynchronously. */
  readonly #queues = new Map<string, Promise<void>>();

  constructor(options: ResolvedOptions<Schema>) {
    this.#options = options;
  }

  /** Reads the state, and without transforms reaches the adapter, before its first await. */
  async append(taskId: string, state: SavedStateOf<Schema>, options: SaveOptions): Promise<CheckpointSummary> {
    checkTaskId(taskId);
    checkSaveOptions(options);
    const { maxPayloadBytes, transforms } = this.#options;
    const draft = this.#draft(taskId, options);
    const payload = makePayload(this.#stored(state), { maxBytes: maxPayloadBytes, transforms, context: draft });

    const append = async (made: Payload): Promise<CheckpointSummary> => {
      const whole = { ...draft, sizeBytes: byteLengthOf(made.body), payload: made };
      const { expectedSequence } = options;
      const sequence = await this.#options.storage.append(whole, { expectedSequence });
      return summaryOf({ ...whole, sequence });
    };
    return payload instanceof Promise ? this.#inOrder(taskId, payload, append) : append(payload);
  }

  /** Tells whether two states would be stored alike, whatever transforms make of them. */
  digest(state: SavedStateOf<Schema>): string {
    const { encoding, text } = encodeJson(this.#stored(state), this.#options.maxPayloadBytes);
    return hash("sha256", `${encoding} ${text}`, "hex");
  }

  #draft(taskId: string, options: SaveOptions) {
    const { createId, clock, stateVersion } = this.#options;
    const { stage, label, parentId, metadata, error, status = error === undefined ? "running" : "failed" } = options;
    const nowMs = clock();
    const id = createId({ taskId, stage, nowMs });
    checkId("The id that createId made", id);
    return {
      taskId,
      id,
      createdAt: new Date(nowMs).toISOString(),
      ...(stage === undefined ? undefined : { stage }),
      ...(label === undefined ? undefined : { label }),
      ...(parentId === undefined ? undefined : { parentId }),
      ...(metadata === undefined ? undefined : { metadata: copyMetadata(metadata) }),
      status,
      ...(error === undefined ? undefined : { error: failureOf(error) }),
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
