import { createSecretKey, type KeyObject, scrypt } from "node:crypto";
import { types } from "node:util";
import { checkInteger, checkKeys, checkText, listKeys } from "../contract/arguments.js";
import { KeyUnavailableError } from "../contract/errors.js";
import { isKeyId } from "./envelope.js";

const KEY_BYTES = 32;

/**
 * A key: 32 bytes, or a function that returns them (from a KMS, a secret store, {@link keyFromPassphrase}). The
 * function is called when the key is first needed, and never again once it has succeeded. Bytes are copied, so you may
 * wipe yours.
 */
export type EncryptionKey = Uint8Array | (() => Uint8Array | Promise<Uint8Array>);

const MIN_COST = 2 ** 17;
const MAX_COST = 2 ** 22;
const BLOCK_SIZE = 8;
const MIN_SALT = 16;
const MIN_PASSPHRASE = 15;

/**
 * Derives a key from a passphrase with scrypt. The key is derived once, when it is first needed, on another thread.
 *
 * @param passphrase - At least 15 characters, not counting white space at both ends, because a thief of the store can
 *   try any number of passphrases. It is normalized to NFKC, so its Unicode form doesn't matter.
 * @throws {TypeError | RangeError} Something is missing, misspelled, too short or out of range. The message never shows
 *   the passphrase.
 * @see https://www.rfc-editor.org/rfc/rfc7914 for scrypt. N = 2^17, r = 8, p = 1 is the minimum of OWASP's Password
 *   Storage Cheat Sheet; 15 characters is the minimum of NIST SP 800-63B-4 for a passphrase as the only factor.
 */
export function keyFromPassphrase(
  passphrase: string,
  options: {
    /**
     * At least 16 random bytes or characters, made once for this key (`openssl rand -hex 16`). The salt isn't secret.
     * Keep it with the configuration and never change it, since a different salt makes a different key.
     */
    readonly salt: string | Uint8Array;
    /**
     * scrypt's N: a power of two from 131,072, the default, to 4,194,304. The default takes 128 MiB of memory and a few
     * tenths of a second; a higher cost takes more of both. Never change it, since a different cost makes a different
     * key.
     */
    readonly cost?: number | undefined;
  },
): () => Promise<Uint8Array> {
  checkText("A passphrase", passphrase);
  const normalized = passphrase.normalize("NFKC");
  if ([...normalized.trim()].length < MIN_PASSPHRASE) {
    throw new RangeError(
      `A passphrase must have at least ${MIN_PASSPHRASE} characters, not counting white space at its ends.`,
    );
  }
  checkKeys("PassphraseOptions", options, listKeys<typeof options>({ salt: true, cost: true }));
  const { salt, cost = MIN_COST } = options;
  if (typeof salt !== "string" && !types.isUint8Array(salt)) {
    throw new TypeError(
      "PassphraseOptions.salt must be text or bytes. Make a random one once, and keep it: openssl rand -hex 16.",
    );
  }
  const saltBytes = Buffer.from(salt);
  if (saltBytes.byteLength < MIN_SALT) {
    throw new RangeError(
      `PassphraseOptions.salt must have at least ${MIN_SALT} bytes; this one has ${saltBytes.byteLength}.`,
    );
  }
  checkInteger("PassphraseOptions.cost", cost, MIN_COST);
  if (cost > MAX_COST || !Number.isInteger(Math.log2(cost))) {
    throw new RangeError(
      `PassphraseOptions.cost must be a power of two from ${MIN_COST} to ${MAX_COST}; it is ${cost}.`,
    );
  }
  // scrypt takes 128 · N · r bytes and a little more. Node's own limit is 32 MiB.
  const parameters = { N: cost, r: BLOCK_SIZE, p: 1, maxmem: 2 * 128 * cost * BLOCK_SIZE };
  return () =>
    new Promise((resolve, reject) => {
      scrypt(normalized, saltBytes, KEY_BYTES, parameters, (error, key) => (error ? reject(error) : resolve(key)));
    });
}

/**
 * Checks a configured key and returns the function that gets it. A key from a function is fetched when it is first
 * needed. Node's key objects never print the key.
 *
 * @returns A function that rejects with a KeyUnavailableError if the key can't be fetched. The next call tries again.
 * @throws {TypeError | RangeError} The id or the key is malformed.
 */
export function keyGetter(id: string, key: EncryptionKey): () => Promise<KeyObject> {
  if (!isKeyId(id)) {
    throw new TypeError(
      `${idText(id)} can't be a key's id: an id must be 1 to 128 printable ASCII characters, without spaces.`,
    );
  }
  if (typeof key !== "function") {
    const given = Promise.resolve(keyObject(id, key));
    return () => given;
  }
  let fetched: Promise<KeyObject> | undefined;
  return () => {
    fetched ??= fetchKey(id, key).catch((error: unknown) => {
      fetched = undefined;
      throw error;
    });
    return fetched;
  };
}

function keyObject(id: string, key: unknown): KeyObject {
  if (!types.isUint8Array(key)) {
    throw new TypeError(
      `The key ${idText(id)} must be ${KEY_BYTES} bytes (a Uint8Array), or a function that returns them. From a passphrase: keyFromPassphrase(…); ` +
        'from hexadecimal text: Buffer.from(text, "hex").',
    );
  }
  if (key.byteLength !== KEY_BYTES) {
    throw new RangeError(`The key ${idText(id)} has ${key.byteLength} bytes; AES-256 needs ${KEY_BYTES}.`);
  }
  return createSecretKey(key);
}

/** The id for a message. It is shortened, since a user may have put a key or a passphrase in its place. */
function idText(id: string): string {
  return id.length < MIN_PASSPHRASE
    ? JSON.stringify(id)
    : `${JSON.stringify(id.slice(0, 4))}… (${id.length} characters)`;
}

async function fetchKey(id: string, source: () => unknown): Promise<KeyObject> {
  let bytes: unknown;
  try {
    bytes = await source();
  } catch (cause) {
    throw new KeyUnavailableError(
      `The key ${id} could not be fetched, because its function failed. Nothing was stored, and stored data was left untouched; try again.`,
      id,
      { cause, retryable: true },
    );
  }
  if (types.isUint8Array(bytes) && bytes.byteLength === KEY_BYTES) return createSecretKey(bytes);
  const what = types.isUint8Array(bytes) ? `${bytes.byteLength} bytes` : `something of type ${typeof bytes}`;
  throw new KeyUnavailableError(
    `The function for the key ${id} returned ${what}; AES-256 needs ${KEY_BYTES} bytes (a Uint8Array). ` +
      "Nothing was stored, and stored data was left untouched.",
    id,
  );
}
