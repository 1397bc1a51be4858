import { checkBoolean, checkKeys, listKeys } from "../contract/arguments.js";
import { DecryptionFailedError } from "../contract/errors.js";
import { type EncryptionKey, keyGetter } from "./encryption-keys.js";
import { openEnvelope, parseEnvelope, sealEnvelope } from "./envelope.js";
import { shortPath } from "./path.js";
import { nameOwner, type Transform, type TransformContext } from "./transforms.js";

/** The options of {@link encrypt}. */
export interface EncryptOptions {
  /**
   * The keys by id. An id has 1 to 128 printable ASCII characters without spaces: `2026-11`. It is stored unencrypted
   * with each payload, so never reuse an id for another key. Every key is used to decrypt.
   */
  readonly keys: Readonly<Record<string, EncryptionKey>>;
  /** The id of the key that encrypts. */
  readonly current: string;
  /**
   * If true, loading an unencrypted record throws a DecryptionFailedError, since an attacker who can write to the store
   * could have put it there. Default false, because a store may contain older unencrypted records; `rekey` encrypts
   * them.
   */
  readonly requireEncrypted?: boolean | undefined;
}

/**
 * Encrypts each state, and the value of each record, with AES-256-GCM and a new nonce. The ciphertext is bound to the
 * checkpoint's task, id, stage, parent, state version and encoding, or to the record's task, kind, name, key, id, time
 * and encoding. If it is moved to another checkpoint or record, it can't be decrypted. Put this transform last, since
 * encrypted data can't be compressed.
 *
 * Labels, stages, metadata, errors, ids, times, statuses and sizes are NOT encrypted, since lists show them. Encrypt at
 * most 2^32 checkpoints and records with one key, since random nonces may repeat beyond that.
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
 * If the key is missing or wrong, loading throws a DecryptionFailedError. A missing or wrong key is never mistaken for
 * damage, since the digest is checked first. If a key can't be fetched, saving and loading throw a KeyUnavailableError.
 *
 * @throws {TypeError | RangeError} An option is missing, misspelled or wrong; the message never shows a key.
 * @see https://doi.org/10.6028/NIST.SP.800-38D for AES-GCM; section 8.3 for the limit of 2^32.
 */
export function encrypt(options: EncryptOptions): Transform {
  checkKeys("EncryptOptions", options, listKeys<EncryptOptions>({ keys: true, current: true, requireEncrypted: true }));
  const { keys, current, requireEncrypted = false } = options;
  // Object.entries would find no key in a Map.
  if (Object.prototype.toString.call(keys) !== "[object Object]") {
    throw new TypeError('EncryptOptions.keys must be a plain object with a key under each id: { "2026-11": key }.');
  }
  checkBoolean("EncryptOptions.requireEncrypted", requireEncrypted);
  const ring = new Map(Object.entries(keys).map(([id, key]) => [id, keyGetter(id, key)]));
  const ids = [...ring.keys()].join(", ");
  const writing = ring.get(current);
  if (writing === undefined) {
    throw new TypeError(`EncryptOptions.current must be the id of one of the keys (${ids || "there are none"}).`);
  }
  const transform: Transform = {
    name: "encrypt",
    encode: async (body, context) => sealEnvelope(body, current, await writing(), context),
    async decode(body, context) {
      const envelope = parseEnvelope(body);
      if (envelope === undefined) {
        throw failure(
          context,
          undefined,
          "its payload is intact, but a newer version of Waymark encrypted it. Load it with that version.",
        );
      }
      const key = ring.get(envelope.keyId);
      const id = JSON.stringify(envelope.keyId);
      if (key === undefined) {
        throw failure(
          context,
          envelope.keyId,
          `it is encrypted with the key ${id}, which isn't configured (configured: ${ids}). Add that key to the \`keys\` of encrypt().`,
        );
      }
      const text = openEnvelope(envelope, await key(), context);
      if (text !== undefined) return text;
      throw failure(
        context,
        envelope.keyId,
        `the configured key ${id} can't decrypt it. Either it was saved with another key, or its record was changed or ` +
          "copied from another checkpoint. Configure the right key, or restore the record from a backup.",
      );
    },
    isCurrent: (body) => parseEnvelope(body)?.keyId === current,
  };
  return requireEncrypted ? { ...transform, onAbsent: refusePlain } : transform;
}

/** @param why - The reason, put after "can't be loaded: ". It ends with the next step for the user. */
function failure(context: TransformContext, keyId: string | undefined, why: string): DecryptionFailedError {
  return new DecryptionFailedError(`${nameOwner(context)} can't be loaded: ${why} It was left untouched.`, keyId);
}

function refusePlain(context: TransformContext): never {
  throw failure(
    context,
    undefined,
    `it isn't encrypted (its encoding is ${shortPath(JSON.stringify(context.encoding))}), and requireEncrypted is set. ` +
      "If you saved it before you used encryption, run rekey without requireEncrypted first.",
  );
}
