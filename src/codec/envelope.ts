import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { TransformContext } from "./transforms.js";

/**
 * An encrypted payload, byte by byte:
 *
 * | bytes | |
 * | --- | --- |
 * | 1 | the envelope's version: 1 |
 * | 1 | how long the key's id is: n |
 * | n | the key's id, ASCII |
 * | 12 | the nonce, random |
 * | … | the ciphertext of AES-256-GCM |
 * | 16 | its tag |
 *
 * The authenticated data is the UTF-8 of {@link authenticatedData}'s JSON, so all of an envelope is authenticated, and
 * what it belongs to is too.
 */
const VERSION = 1;
const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** So many bytes at a time, some milliseconds' work: other work gets its turn in between. */
const SLICE_BYTES = 4 * 1024 * 1024;

/** The ids that keys may have. What else stands in an id's place, no program wrote: it isn't shown, nor looked for. */
const KEY_ID = /^[\x21-\x7e]{1,128}$/;

export function isKeyId(id: string): boolean {
  return KEY_ID.test(id);
}

/** An envelope taken apart. */
export interface Envelope {
  readonly keyId: string;
  readonly nonce: Uint8Array;
  readonly ciphertext: Uint8Array;
  readonly tag: Uint8Array;
}

/** The text under a new nonce of 96 random bits, in an envelope. */
export async function sealEnvelope(
  text: Uint8Array,
  keyId: string,
  key: KeyObject,
  context: TransformContext,
): Promise<Uint8Array> {
  const head = Buffer.from([VERSION, keyId.length, ...Buffer.from(keyId, "ascii")]);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(authenticatedData(keyId, context));
  const slices = await inSlices(text, (slice) => cipher.update(slice));
  slices.push(cipher.final());
  return Buffer.concat([head, nonce, ...slices, cipher.getAuthTag()]);
}

/** Takes an envelope apart; `undefined` where it is none that this version knows. */
export function parseEnvelope(bytes: Uint8Array): Envelope | undefined {
  const [version, idLength = 0] = bytes;
  const nonceAt = 2 + idLength;
  const textAt = nonceAt + NONCE_BYTES;
  const tagAt = bytes.byteLength - TAG_BYTES;
  if (version !== VERSION || tagAt < textAt) return undefined;
  const keyId = Buffer.from(bytes.subarray(2, nonceAt)).toString("latin1");
  if (!isKeyId(keyId)) return undefined;
  return {
    keyId,
    nonce: bytes.subarray(nonceAt, textAt),
    ciphertext: bytes.subarray(textAt, tagAt),
    tag: bytes.subarray(tagAt),
  };
}

/** The text; `undefined` where it isn't what was sealed with this key for this context. Nothing of it is given then. */
export async function openEnvelope(
  { keyId, nonce, ciphertext, tag }: Envelope,
  key: KeyObject,
  context: TransformContext,
): Promise<Uint8Array | undefined> {
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(authenticatedData(keyId, context));
  decipher.setAuthTag(tag);
  const slices = await inSlices(ciphertext, (slice) => decipher.update(slice));
  try {
    slices.push(decipher.final());
  } catch {
    // Node's error says no more than this.
    return undefined;
  }
  return Buffer.concat(slices);
}

/** JSON, since it can't be read in two ways: quotes delimit each text, and what is absent is `null`. */
function authenticatedData(keyId: string, context: TransformContext): Buffer {
  const { encoding, taskId, id, stage = null, parentId = null, stateVersion } = context;
  const bound = ["waymark-encrypt", VERSION, keyId, encoding, taskId, id, stage, parentId, stateVersion];
  return Buffer.from(JSON.stringify(bound));
}

async function inSlices(bytes: Uint8Array, work: (slice: Uint8Array) => Buffer): Promise<Buffer[]> {
  const done: Buffer[] = [];
  for (let at = 0; at < bytes.byteLength; at += SLICE_BYTES) {
    if (at > 0) await nextTurn();
    done.push(work(bytes.subarray(at, at + SLICE_BYTES)));
  }
  return done;
}
