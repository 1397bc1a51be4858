import { hash, webcrypto } from "node:crypto";
import { types } from "node:util";
import type { Payload } from "../contract/checkpoint.js";
import { CheckpointError, UnsupportedFormatError } from "../contract/errors.js";
import { tooLarge } from "./encoder.js";
import { decodeJson, type EncodedState, encodeJson, isJsonEncoding, type JsonEncoding } from "./json.js";
import { shortPath } from "./path.js";
import type { RedactedPaths } from "./redacted-paths.js";
import {
  checkTransforms,
  damagedPayload,
  nameOwner,
  type PayloadOwner,
  type Transform,
  type TransformContext,
} from "./transforms.js";

/** The default limit of a state's JSON, in bytes. */
export const DEFAULT_MAX_PAYLOAD_BYTES = 64 * 1024 * 1024;

/** The options of {@link makePayload}. */
export interface MakePayloadOptions {
  /** The payload's checkpoint or record, or the draft of one. Encryption binds the payload to it. */
  readonly context: PayloadOwner;
  /** Applied in this order: `[gzip()]`. Default: none. */
  readonly transforms?: readonly Transform[] | undefined;
  /** The size limit of the JSON in UTF-8, before the transforms. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** @internal */
  readonly redacted?: RedactedPaths | undefined;
}

/** The options of {@link openPayload}. */
export interface OpenPayloadOptions {
  /** The record that has the payload. */
  readonly context: PayloadOwner;
  /** All transforms that the payload may need, in any order, since its encoding names them. Default: none. */
  readonly transforms?: readonly Transform[] | undefined;
}

/** A state's payload, and its size. */
export interface MadePayload {
  readonly payload: Payload;
  /** The body's size as stored, in bytes. */
  readonly sizeBytes: number;
}

/** A payload's state, wrapped in an object because a state may look like a promise. */
export interface OpenedPayload {
  readonly state: unknown;
}

/** A payload's text, after undoing its transforms. */
export interface PayloadText {
  readonly encoding: JsonEncoding;
  readonly text: string;
}

/**
 * Makes the payload of a state. Reads the state during the call, so the caller may change it afterwards.
 *
 * @example
 * ```ts
 * import { gzip, type StorageAdapter } from "waymark";
 * import { makePayload } from "waymark/adapter";
 *
 * async function append(storage: StorageAdapter, taskId: string, id: string, state: unknown): Promise<number> {
 *   const draft = { taskId, id, createdAt: new Date().toISOString(), status: "running", stateVersion: 1 } as const;
 *   const made = await makePayload(state, { context: draft, transforms: [gzip()] });
 *   return storage.append({ ...draft, ...made });
 * }
 * ```
 *
 * @returns The payload and its size. If there are transforms, or the JSON has 1 MiB or more, a promise of them.
 * @throws {StateNotSerializableError} `value` holds something that can't be stored without loss. Thrown, not rejected.
 * @throws {PayloadTooLargeError} The JSON has more than `maxBytes` bytes. Thrown, not rejected.
 */
export function makePayload(value: unknown, options: MakePayloadOptions): MadePayload | Promise<MadePayload> {
  const { maxBytes = DEFAULT_MAX_PAYLOAD_BYTES, context, redacted } = options;
  return makePayloadFrom(encodeJson(value, maxBytes, context, redacted), options);
}

/** {@link makePayload} for an encoded state. */
export function makePayloadFrom(
  { encoding, text }: EncodedState,
  options: MakePayloadOptions,
): MadePayload | Promise<MadePayload> {
  const { transforms = [] } = options;
  if (transforms.length === 0) return hashBody(encoding, text);
  checkTransforms(transforms);
  return applyTransforms(encoding, UTF8.encode(text), options);
}

/**
 * {@link makePayload} for the JSON of a state.
 *
 * @param json - Exactly the text of `JSON.stringify(state)`.
 */
export function makePayloadOfJson(json: string, options: MakePayloadOptions): MadePayload | Promise<MadePayload> {
  const { maxBytes = DEFAULT_MAX_PAYLOAD_BYTES, context } = options;
  if (json.length * 3 > maxBytes && Buffer.byteLength(json) > maxBytes) {
    throw tooLarge(context, maxBytes);
  }
  return makePayloadFrom({ encoding: "json", text: json }, options);
}

/**
 * Checks the digest of a payload and decodes its state. Each call returns an independent state.
 *
 * @returns The state. If the payload has transforms, a promise of it.
 * @throws {CheckpointCorruptError} The body fails its digest, or doesn't match its encoding.
 * @throws {UnsupportedFormatError} The encoding is unknown, or needs a transform that `options` lacks.
 */
export function openPayload(payload: Payload, options: OpenPayloadOptions): OpenedPayload | Promise<OpenedPayload> {
  const { context } = options;
  const decode = ({ encoding, text }: PayloadText): OpenedPayload => ({ state: decodeJson(encoding, text, context) });
  const opened = openText(payload, options);
  return types.isPromise(opened) ? opened.then(decode) : decode(opened);
}

export function openText(payload: Payload, options: OpenPayloadOptions): PayloadText | Promise<PayloadText> {
  const { encoding, body: plain } = payload;
  // Most payloads have no transforms, and a resume opens thousands of them.
  if (typeof plain === "string" && isJsonEncoding(encoding) && !options.transforms?.length) {
    requireDigest(payload, options.context);
    return { encoding, text: plain };
  }
  const { base, layers, body, context } = parsePayload(payload, options);
  return typeof body === "string"
    ? { encoding: base, text: body }
    : undoAll(layers, body, context).then((bytes) => ({ encoding: base, text: decodeUtf8(bytes, context) }));
}

/**
 * Opens a payload in order to apply the current transforms to its text, without a schema or a migration. Undoes only as
 * many transforms as are needed to find out whether the payload is current.
 *
 * @returns A function that makes the new payload. `undefined` if the payload is current: it has the same transforms in
 *   the same order, and `isCurrent` of each returns true.
 * @throws {CheckpointCorruptError} The body fails its digest, or doesn't match its encoding.
 * @throws {UnsupportedFormatError} The encoding is unknown, or needs a transform that `options` lacks.
 */
export async function openToRenew(
  payload: Payload,
  options: OpenPayloadOptions,
): Promise<(() => Promise<MadePayload>) | undefined> {
  const { base, layers, context, ...parsed } = parsePayload(payload, options);
  let body = encodeBody(parsed.body);
  let isCurrent = payload.encoding === nameEncoding(base, options.transforms ?? []);
  for (const [index, transform] of layers.entries()) {
    // Transforms without isCurrent, such as a compression, can't change the result and needn't be undone.
    if (isCurrent && layers.slice(index).every((layer) => layer.isCurrent === undefined)) return undefined;
    isCurrent &&= transform.isCurrent?.(body) ?? true;
    body = await undo(transform, body, context);
  }
  const text = body;
  return isCurrent ? undefined : () => applyTransforms(base, text, options);
}

/**
 * Returns a payload with the same state for another checkpoint. It is the same payload unless a transform may bind it
 * to its owner. In that case, the payload's transforms are undone, and the configured transforms are applied for the
 * new owner. The JSON is never decoded.
 *
 * @throws The errors of {@link openPayload}.
 */
export async function payloadFor(
  owner: PayloadOwner,
  payload: Payload,
  options: OpenPayloadOptions,
): Promise<MadePayload> {
  const { transforms = [] } = options;
  const { base, layers, body, context } = parsePayload(payload, options);
  const bytes = encodeBody(body);
  // Configured transforms that the payload lacks also count. For example, if states are encrypted now, the new
  // checkpoint must be encrypted.
  if ([...layers, ...transforms].every(({ ignoresOwner }) => ignoresOwner)) {
    return { payload, sizeBytes: bytes.byteLength };
  }
  const text = await undoAll(layers, bytes, context);
  return applyTransforms(base, text, { context: owner, transforms });
}

/** Returns the SHA-256 of a body in lower-case hexadecimal. For a text, it covers the UTF-8 bytes. */
export function digestBody(body: string | Uint8Array): string {
  return hash("sha256", body, "hex");
}

/** Returns a digest that is equal for equal stored states. */
export function stateDigest({ encoding, text }: PayloadText): string {
  return `${encoding} ${digestBody(text)}`;
}

const UTF8 = new TextEncoder();
/**
 * The digest of a longer body is computed off the main thread, so the body's write begins in a later turn of the event
 * loop.
 */
const MAX_HASHED_AT_ONCE = 1024 * 1024 - 1;

function hashBody(encoding: string, body: string | Uint8Array): MadePayload | Promise<MadePayload> {
  if (body.length > MAX_HASHED_AT_ONCE) return hashLargeBody(encoding, body);
  return { payload: { encoding, body, sha256: digestBody(body) }, sizeBytes: Buffer.byteLength(body) };
}

async function hashLargeBody(encoding: string, body: string | Uint8Array): Promise<MadePayload> {
  const bytes = encodeBody(body);
  const sha256 = Buffer.from(await webcrypto.subtle.digest("SHA-256", bytes)).toString("hex");
  return { payload: { encoding, body, sha256 }, sizeBytes: bytes.length };
}

/** A payload whose digest was checked, before its transforms are undone. */
interface ParsedPayload {
  readonly base: JsonEncoding;
  /** The transforms to undo, in order. */
  readonly layers: readonly Transform[];
  /** A text if there are no transforms, else bytes. */
  readonly body: string | Uint8Array;
  readonly context: TransformContext;
}

/**
 * Checks a payload's digest and parses its encoding. If the payload doesn't name a configured transform, that transform
 * may refuse it (`onAbsent`).
 *
 * @throws {CheckpointCorruptError} The body fails its digest, or doesn't match its encoding.
 * @throws {UnsupportedFormatError} The encoding is unknown, or needs a transform that `options` lacks.
 */
function parsePayload(payload: Payload, options: OpenPayloadOptions): ParsedPayload {
  const { encoding, body } = payload;
  const { transforms = [], context: owner } = options;
  const context = makeContext(owner, encoding);
  requireDigest(payload, owner);
  const [base = "", ...names] = encoding.split("+");
  if (!isJsonEncoding(base)) {
    throw new UnsupportedFormatError(
      `${nameOwner(owner)} can't be loaded: this version of Waymark doesn't know its encoding ${shortPath(JSON.stringify(base))}. ` +
        "It was left untouched; load it with the version that saved it, or a newer one.",
    );
  }
  for (const transform of transforms) if (!names.includes(transform.name)) transform.onAbsent?.(context);
  // If an encoding could name a transform twice, nested gzip bombs could pass, since each layer may stay within the
  // limit.
  if (new Set(names).size < names.length) throw damagedPayload(owner, "its encoding names a transform twice");
  const layers = names.map((name) => findTransform(name, encoding, options)).reverse();
  // With transforms, the body must be stored as bytes. Without them, it must be stored as text.
  const isText = typeof body === "string";
  if (isText !== (layers.length === 0)) {
    const wrong = isText ? "text, not bytes" : "bytes, not text";
    throw damagedPayload(owner, `its encoding is ${encoding}, but its payload is ${wrong}`);
  }
  return { base, layers, body, context };
}

/** @throws {CheckpointCorruptError} */
function requireDigest({ body, sha256 }: Payload, owner: PayloadOwner): void {
  if (digestBody(body) !== sha256) throw damagedPayload(owner, "its payload fails its SHA-256 checksum");
}

function encodeBody(body: string | Uint8Array): Uint8Array {
  return typeof body === "string" ? UTF8.encode(body) : body;
}

async function applyTransforms(base: string, text: Uint8Array, options: OpenPayloadOptions): Promise<MadePayload> {
  const { transforms = [] } = options;
  const encoding = nameEncoding(base, transforms);
  const context = makeContext(options.context, encoding);
  let body = text;
  for (const transform of transforms) body = requireBytes(await transform.encode(body, context), transform, "encode");
  return hashBody(encoding, body);
}

function decodeUtf8(bytes: Uint8Array, context: TransformContext): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw damagedPayload(context, "its payload isn't UTF-8 text once its transforms are undone", cause);
  }
}

function nameEncoding(base: string, transforms: readonly Transform[]): string {
  return [base, ...transforms.map(({ name }) => name)].join("+");
}

/**
 * Makes the context for transforms. It contains only fields that never change, because a transform may bind the bytes
 * to them.
 */
function makeContext(owner: PayloadOwner, encoding: string): TransformContext {
  if (owner.kind !== undefined) {
    const { taskId, kind, name, recordKey, id, createdAt } = owner;
    return { taskId, kind, name, recordKey, id, createdAt, encoding };
  }
  const { taskId, id, stage, parentId, stateVersion } = owner;
  return { taskId, id, stage, parentId, stateVersion, encoding };
}

async function undoAll(
  layers: readonly Transform[],
  stored: Uint8Array,
  context: TransformContext,
): Promise<Uint8Array> {
  let body = stored;
  for (const transform of layers) body = await undo(transform, body, context);
  return body;
}

async function undo(transform: Transform, body: Uint8Array, context: TransformContext): Promise<Uint8Array> {
  let decoded: unknown;
  try {
    decoded = await transform.decode(body, context);
  } catch (cause) {
    if (cause instanceof CheckpointError) throw cause;
    // The digest holds, so the bytes are intact. Hence the transform is the wrong one, or has other options.
    throw new UnsupportedFormatError(
      `${nameOwner(context)} can't be loaded: its payload is intact, but the transform ${JSON.stringify(transform.name)} failed to decode it. ` +
        "Nothing was changed; configure the transform as it was when the checkpoint was saved.",
      { cause },
    );
  }
  return requireBytes(decoded, transform, "decode");
}

function findTransform(name: string, encoding: string, { transforms, context }: OpenPayloadOptions): Transform {
  const found = transforms?.find((transform) => transform.name === name);
  if (found !== undefined) return found;
  throw new UnsupportedFormatError(
    `${nameOwner(context)} can't be loaded: its encoding is ${shortPath(JSON.stringify(encoding))}, and no transform named ${shortPath(JSON.stringify(name))} is configured. ` +
      "It was left untouched; add the transform to the manager's `transforms`.",
  );
}

/** Checks the result of a transform, since a transform written in JavaScript may return anything. */
function requireBytes(result: unknown, transform: Transform, method: string): Uint8Array {
  if (types.isUint8Array(result)) return result;
  throw new TypeError(`The transform ${JSON.stringify(transform.name)} must ${method} to a Uint8Array.`);
}
