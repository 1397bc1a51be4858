import { Encoder } from "../codec/encoder.js";
import { shortPath } from "../codec/path.js";
import type { RedactedPaths } from "../codec/redacted-paths.js";
import { checkId, checkInteger, checkKeys, checkText, listKeys } from "../contract/arguments.js";
import { type CheckpointStatus, checkStatus, type JsonObject } from "../contract/checkpoint.js";
import { StateNotSerializableError } from "../contract/errors.js";
import { NOTE_KEY } from "../contract/transient.js";
import type { Lease } from "./lease.js";

export interface SaveOptions<Metadata extends object = object> {
  /**
   * The checkpoint's id, unique in its task. Default: made by `createId`. Saving the same state under the same id again
   * stores nothing and returns the stored checkpoint, so a save can be retried if its answer was lost.
   */
  readonly id?: string | undefined;
  readonly stage?: string | undefined;
  readonly label?: string | undefined;
  /** Default `running`; `failed` if `error` is given. */
  readonly status?: CheckpointStatus | undefined;
  /**
   * The id of the checkpoint that this one continues, if it isn't the previous one. `rewind` sets it. Without this
   * option, a save has no `parentId`.
   */
  readonly parentId?: string | undefined;
  /**
   * An object of plain JSON, at most 64 KiB; keep it small, since lists show it. Fields that are `undefined` are left
   * out. The key `waymark` is reserved.
   */
  readonly metadata?: Metadata | undefined;
  /** The reason why the task failed or paused: an Error, or any thrown value. */
  readonly error?: unknown;
  /** Saves only if the newest checkpoint has this sequence. With 0, saves only if the task has no checkpoint. */
  readonly expectedSequence?: number | undefined;
  /** The task's lease. Once it is lost, nothing is stored, and `save` throws a LeaseLostError. */
  readonly lease?: Lease | undefined;
}

const SAVE_KEYS = listKeys<SaveOptions>({
  id: true,
  stage: true,
  label: true,
  status: true,
  parentId: true,
  metadata: true,
  error: true,
  expectedSequence: true,
  lease: true,
});

/** Lists load metadata, so it must stay small. */
const MAX_METADATA_BYTES = 64 * 1024;

const PLAIN_METADATA = "SaveOptions.metadata must be an object of plain JSON: strings, numbers, booleans, null, arrays";

/** @throws {TypeError | RangeError} An option is misspelled or out of range. */
export function checkSaveOptions(options: SaveOptions): void {
  checkKeys("SaveOptions", options, SAVE_KEYS);
  if (options.id !== undefined) checkId("SaveOptions.id", options.id);
  if (options.stage !== undefined) checkId("A stage", options.stage);
  if (options.label !== undefined) checkText("A label", options.label);
  if (options.parentId !== undefined) checkId("A parentId", options.parentId);
  if (options.status !== undefined) checkStatus(options.status);
  checkInteger("expectedSequence", options.expectedSequence, 0);
  // The metadata may be of any type here, since `copyMetadata` checks it later.
  if (Object.hasOwn(options.metadata ?? {}, NOTE_KEY)) {
    throw new TypeError(
      `SaveOptions.metadata must not have the key "${NOTE_KEY}": Waymark keeps its own notes there. Nothing was saved.`,
    );
  }
}

/**
 * Returns the fencing token of a task's lease.
 *
 * @throws {TypeError} The value isn't a lease, or it is the lease of another task.
 */
export function readToken(taskId: string, lease: Lease | undefined): number | undefined {
  if (lease === undefined) return undefined;
  if (typeof lease !== "object" || lease === null || !Number.isSafeInteger(lease.token)) {
    throw new TypeError("SaveOptions.lease must be a lease from manager.lease().");
  }
  if (lease.taskId === taskId) return lease.token;
  throw new TypeError(`The lease is for task ${JSON.stringify(lease.taskId)}, not for ${JSON.stringify(taskId)}.`);
}

/**
 * Returns a copy of the metadata, so that later changes by the caller don't reach the storage.
 *
 * @throws {TypeError} The metadata isn't an object of plain JSON. The message has the path of the first wrong value.
 * @throws {RangeError} The metadata is larger than 64 KiB.
 */
export function copyMetadata(metadata: object, redacted: RedactedPaths | undefined): JsonObject {
  const text = encodeMetadata(metadata, redacted);
  if (!text.startsWith("{")) throw new TypeError(`${PLAIN_METADATA}. Nothing was saved.`);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_METADATA_BYTES) {
    throw new RangeError(
      `SaveOptions.metadata has ${bytes} bytes as JSON; at most ${MAX_METADATA_BYTES} are allowed, because lists show it. ` +
        "Keep large values in the state. Nothing was saved.",
    );
  }
  return JSON.parse(text) as JsonObject;
}

function encodeMetadata(metadata: object, redacted: RedactedPaths | undefined): string {
  try {
    return new Encoder({
      maxBytes: Number.POSITIVE_INFINITY,
      redacted,
      isPlain: true,
      leavesOutUndefined: true,
    }).encode(metadata);
  } catch (cause) {
    if (!(cause instanceof StateNotSerializableError)) throw cause;
    const path = shortPath(cause.path.replace("$", "metadata"));
    throw new TypeError(`${PLAIN_METADATA}; ${path} isn't. Nothing was saved.`, { cause });
  }
}
