import { createCipheriv, createDecipheriv, type KeyObject, randomBytes } from "node:crypto";
import type { CheckpointOwner, RecordOwner, TransformContext } from "./transforms.js";

/**
 * An encrypted payload, byte by byte:
 *
 * | bytes | |
 * | --- | --- |
 * | 1 | the envelope's version: 1 |
 * | 1 | the length of the key's id: n |
 * | n | the key's id, ASCII |
 * | 12 | the nonce, random |
 * | … | the ciphertext of AES-256-GCM |
 * | 16 | its tag |
 *
 * The authenticated data (see {@link authenticatedData}) covers the envelope's version, the key's id and the identity
 * of the checkpoint or record.
 */
const VERSION = 1;
const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Valid key ids. An envelope with any other id is damaged. */
const KEY_ID = /^[\x21-\x7e]{1,128}$/;

export function isKeyId(id: string): boolean {
  return KEY_ID.test(id);
}

/** The parts of an envelope. */
export interface Envelope {
  readonly keyId: string;
  readonly nonce: Uint8Array;
  readonly ciphertext: Uint8Array;
  readonly tag: Uint8Array;
}

/** Encrypts the text into an envelope, with a new nonce of 96 random bits. */
export function sealEnvelope(text: Uint8Array, keyId: string, key: KeyObject, context: TransformContext): Uint8Array {
  const head = Buffer.from([VERSION, keyId.length, ...Buffer.from(keyId, "ascii")]);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(authenticatedData(keyId, context));
  return Buffer.concat([head, nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]);
}

/** Parses an envelope; `undefined` if it is malformed or of an unknown version. */
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

/** Decrypts the text; `undefined` if the text wasn't sealed with this key for this context. */
export function openEnvelope(
  { keyId, nonce, ciphertext, tag }: Envelope,
  key: KeyObject,
  context: TransformContext,
): Uint8Array | undefined {
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(authenticatedData(keyId, context));
  decipher.setAuthTag(tag);
  const text = decipher.update(ciphertext);
  try {
    return Buffer.concat([text, decipher.final()]);
  } catch {
    // Node's error has no details.
    return undefined;
  }
}

/**
 * Makes the data that the tag authenticates in addition to the ciphertext, as JSON. JSON is unambiguous, since quotes
 * delimit each text, and absent fields are `null`.
 */
function authenticatedData(keyId: string, context: TransformContext): Buffer {
  const bound = context.kind === undefined ? listCheckpointFields(context) : listRecordFields(context);
  const [form, ...fields] = bound.map((field) => field ?? null);
  return Buffer.from(JSON.stringify([form, VERSION, keyId, context.encoding, ...fields]));
}

function listCheckpointFields({ taskId, id, stage, parentId, stateVersion }: CheckpointOwner) {
  return ["waymark-encrypt", taskId, id, stage, parentId, stateVersion];
}

/** Begins with a different form, so that a record's payload can't pass for a checkpoint's. */
function listRecordFields({ taskId, kind, name, recordKey, id, createdAt }: RecordOwner) {
  return ["waymark-encrypt-record", taskId, kind, name, recordKey, id, createdAt];
}
