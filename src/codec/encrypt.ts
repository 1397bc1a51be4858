import { checkKeys } from "../contract/adapter.js";
import { DecryptionFailedError } from "../contract/errors.js";
import { type EncryptionKey, NamedKey } from "./encryption-keys.js";
import { openEnvelope, parseEnvelope, sealEnvelope } from "./envelope.js";
import { shortPath } from "./path.js";
import { subjectOf, type Transform, type TransformContext } from "./transforms.js";

/** The options of {@link encrypt}. */
export interface EncryptOptions {
  /**
   * Under each key's id, the key. An id is recorded in the clear with what it encrypts and must keep its key: 1 to 128
   * printable ASCII characters without spaces, such as `2026-11`. All of them read.
   */
  readonly keys: Readonly<Record<string, EncryptionKey>>;
  /** The id of the key that writes. */
  readonly current: string;
  /**
   * Refuses to load what isn't encrypted, with a DecryptionFailedError: whoever can write to the store could put a plain
   * record there. Default false, for as long as a store has plain records of before; `rekey` encrypts those.
   */
  readonly requireEncrypted?: boolean | undefined;
}

const NAME = "encrypt";

/**
 * Encrypts states with AES-256-GCM, each with a nonce of its own, and binds to them the task, id, stage, parent, state
 * version and encoding of their checkpoint: moved to another one, they don't open. Put it last: what is encrypted
 * can't be compressed.
 *
 * Labels, stages, metadata and errors are NOT encrypted, nor are ids, times, statuses and sizes: lists show them.
 * Encrypt at most 2^32 checkpoints with one key; beyond, random nonces may repeat.
 *
 * @example
 * ```ts
 * import { CheckpointManager, encrypt, gzip } from "waymark";
 * import { MemoryAdapter } from "waymark/adapters/memory";
 *
 * const key = Buffer.from(process.env["CHECKPOINT_KEY"] ?? "", "hex"); // openssl rand -hex 32
 * const manager = new CheckpointManager({
 *   storage: new MemoryAdapter(),
 *   transforms: [gzip(), encrypt({ keys: { "2026-11": key }, current: "2026-11" })],
 * });
 * ```
 *
 * Loading throws a DecryptionFailedError where the key is missing or wrong, which is told from damage (the digest is
 * checked first) and never passed over; saving and loading throw a KeyUnavailableError where a key can't be fetched.
 *
 * @throws {TypeError | RangeError} An option is missing, misspelled or wrong; the message never shows a key.
 * @see https://doi.org/10.6028/NIST.SP.800-38D for AES-GCM; section 8.3 for the limit of 2^32.
 */
export function encrypt(options: EncryptOptions): Transform {
  checkKeys("EncryptOptions", options, ["keys", "current", "requireEncrypted"]);
  const { keys, current, requireEncrypted = false } = options;
  // Of a Map, say, Object.entries would give no key.
  const shape = Object.prototype.toString.call(keys).slice("[object ".length, -1);
  if (shape !== "Object") {
    throw new TypeError(
      `EncryptOptions.keys must be a plain object with a key under each key's id, as in { "2026-11": key }; it is of type ${shape}.`,
    );
  }
  if (typeof requireEncrypted !== "boolean") {
    throw new TypeError("EncryptOptions.requireEncrypted must be true or false.");
  }
  const ring = new Map(Object.entries(keys).map(([id, key]) => [id, new NamedKey(id, key)]));
  const ids = [...ring.keys()].join(", ");
  const writing = ring.get(current);
  if (writing === undefined) {
    throw new TypeError(`EncryptOptions.current must be the id of one of the keys: ${ids || "there is none"}.`);
  }
  const transform: Transform = {
    name: NAME,
    encode: async (body, context) => sealEnvelope(body, current, await writing.get(), context),
    async decode(body, context) {
      const envelope = parseEnvelope(body);
      if (envelope === undefined) throw noEnvelope(context);
      const key = ring.get(envelope.keyId);
      if (key === undefined) throw unknownKey(context, envelope.keyId, ids);
      const text = await openEnvelope(envelope, await key.get(), context);
      if (text === undefined) throw wrongKey(context, envelope.keyId);
      return text;
    },
    isCurrent: (body) => parseEnvelope(body)?.keyId === current,
  };
  return requireEncrypted ? { ...transform, onAbsent: refusePlain } : transform;
}

function noEnvelope(context: TransformContext): DecryptionFailedError {
  return new DecryptionFailedError(
    `${subjectOf(context)} can't be loaded: its payload is intact, but no encrypted one that this version of Waymark knows. ` +
      "A newer version made it, or it was changed and sealed anew. It was left untouched.",
    undefined,
  );
}

function unknownKey(context: TransformContext, keyId: string, ids: string): DecryptionFailedError {
  return new DecryptionFailedError(
    `${subjectOf(context)} can't be loaded: it is encrypted with the key ${JSON.stringify(keyId)}, and configured are ${ids}. ` +
      "It was left untouched; add that key to the `keys` of encrypt().",
    keyId,
  );
}

function wrongKey(context: TransformContext, keyId: string): DecryptionFailedError {
  return new DecryptionFailedError(
    `${subjectOf(context)} can't be loaded: the configured key ${JSON.stringify(keyId)} doesn't open it. Either that key isn't the one it was ` +
      "saved with, or the record was changed, or is another checkpoint's, and was sealed anew. It was left untouched; " +
      "configure the right key, or put the record back from a backup.",
    keyId,
  );
}

function refusePlain(context: TransformContext): never {
  throw new DecryptionFailedError(
    `${subjectOf(context)} can't be loaded: its encoding is ${shortPath(JSON.stringify(context.encoding))}, which isn't encrypted, and requireEncrypted is set. ` +
      "It was left untouched. If it is one of your own, from before encryption, run rekey without requireEncrypted first.",
    undefined,
  );
}
