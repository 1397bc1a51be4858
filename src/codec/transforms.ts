/** The checkpoint that a payload belongs to. */
export interface PayloadOwner {
  readonly taskId: string;
  /** The checkpoint's id. */
  readonly id: string;
  readonly stage?: string | undefined;
  readonly parentId?: string | undefined;
  readonly stateVersion: number;
}

/**
 * What a transform may bind to the bytes (as an encryption's authenticated data), so that a body moved to another
 * checkpoint, or given another encoding, no longer opens. It is the same when the body is decoded as when it was encoded.
 */
export interface TransformContext extends PayloadOwner {
  /** All of the payload's encoding, in the order in which it was made: `json-tagged+gzip+encrypt`. */
  readonly encoding: string;
}

/**
 * A step between the encoded state and the storage: compression, encryption. Transforms run in the order of the
 * manager's `transforms` on save, and in reverse on load, by the names in the record: a store whose records were written
 * under other transforms stays readable as long as each of them is still configured.
 */
export interface Transform {
  /** Recorded with every payload, so it must never change: a letter, then letters, digits, `-` or `_`. */
  readonly name: string;
  /** The bytes to store. MUST NOT change `body`, nor keep it. */
  encode(body: Uint8Array, context: TransformContext): Uint8Array | Promise<Uint8Array>;
  /**
   * What `encode` was given. MUST NOT change `body`, nor keep it: it may be the storage's own memory. The body is
   * intact when it gets here: its digest has been checked. MUST bound what it allocates.
   */
  decode(body: Uint8Array, context: TransformContext): Uint8Array | Promise<Uint8Array>;
  /** Whether `encode` would still make such a body, by its key for example. Without this it would; `rekey` asks. */
  isCurrent?(body: Uint8Array): boolean;
  /**
   * Called before an intact payload is loaded that this transform has no part in. It throws to refuse that payload;
   * without it, what was saved before the transform was configured is loaded.
   */
  onAbsent?(context: TransformContext): void;
}

/**
 * Refuses transforms that could not be told apart, or not be found again, by their names.
 *
 * @throws {TypeError} A name is malformed, taken by the codec itself, or used twice.
 */
export function checkTransforms(transforms: readonly Transform[]): void {
  const names = new Set<string>();
  for (const { name, encode, decode, isCurrent, onAbsent } of transforms) {
    if (typeof encode !== "function" || typeof decode !== "function") {
      throw new TypeError(`The transform ${JSON.stringify(name)} must have the methods encode and decode.`);
    }
    if ([isCurrent, onAbsent].some((method) => method !== undefined && typeof method !== "function")) {
      throw new TypeError(`isCurrent and onAbsent of the transform ${JSON.stringify(name)} must be methods.`);
    }
    if (typeof name !== "string" || !/^[A-Za-z][\w-]*$/.test(name) || name === "json" || name === "json-tagged") {
      throw new TypeError(
        `${JSON.stringify(name)} is no name for a transform: it must be a letter, then letters, digits, "-" or "_", and not "json" or "json-tagged".`,
      );
    }
    if (names.has(name))
      throw new TypeError(`Two transforms are named ${JSON.stringify(name)}; each needs its own name.`);
    names.add(name);
  }
}

/** The subject of a message about a payload: the checkpoint, or the state alone where no checkpoint is known. */
export function subjectOf(context: PayloadOwner | undefined): string {
  return context === undefined ? "The state" : `Checkpoint ${context.id} of task ${JSON.stringify(context.taskId)}`;
}
