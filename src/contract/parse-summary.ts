import {
  CHECKPOINT_STATUSES,
  type CheckpointFailure,
  type CheckpointSummary,
  FAILURE_FIELDS,
  isJsonObject,
  type SealedSummary,
  SUMMARY_FIELDS,
} from "./checkpoint.js";

/** A checkpoint's stored fields, with JSON parsed. An absent field is `undefined` or `null`. */
export type StoredFields = Readonly<Partial<Record<keyof CheckpointSummary | "encoding" | "sha256" | "seal", unknown>>>;

/**
 * The kind of a stored field. `read` returns the field's value, or `undefined` if the stored value isn't of this kind.
 */
interface FieldKind<Value> {
  readonly read: (stored: unknown) => Value | undefined;
  /** The end of a sentence whose subject is the field. */
  readonly isNot: string;
  readonly isOptional?: boolean;
}

const TEXT: FieldKind<string> = { read: (stored) => (isText(stored) ? stored : undefined), isNot: "isn't text" };
const TEXT_OR_NONE = { ...TEXT, isOptional: true };

const KINDS: { readonly [Field in keyof CheckpointSummary]-?: FieldKind<CheckpointSummary[Field]> } = {
  taskId: TEXT,
  id: TEXT,
  sequence: requireFrom(1),
  createdAt: TEXT,
  stage: TEXT_OR_NONE,
  label: TEXT_OR_NONE,
  parentId: TEXT_OR_NONE,
  metadata: {
    read: (stored) => (isJsonObject(stored) ? stored : undefined),
    isNot: "isn't an object",
    isOptional: true,
  },
  status: { read: (stored) => CHECKPOINT_STATUSES.find((known) => known === stored), isNot: "is unknown" },
  error: { read: readFailure, isNot: "isn't an object of texts", isOptional: true },
  dueAt: TEXT_OR_NONE,
  stateVersion: requireFrom(1),
  sizeBytes: requireFrom(0),
};

/**
 * Reads a summary from stored fields and checks the type of each field, since stored data may be damaged. For adapters.
 * It doesn't check the seal: see `findDamage`.
 *
 * @returns The summary, or the damage as the end of a sentence: `its id isn't text`.
 */
export function parseSummary(fields: StoredFields): SealedSummary | string {
  const summary: { -readonly [Field in keyof CheckpointSummary]?: unknown } = {};
  for (const field of SUMMARY_FIELDS) {
    const stored = fields[field];
    const { read, isNot, isOptional } = KINDS[field];
    if (isOptional && (stored === undefined || stored === null)) continue;
    summary[field] = read(stored);
    if (summary[field] === undefined) return `its ${field} ${isNot}`;
  }
  const { encoding, sha256, seal } = fields;
  if (!isText(encoding)) return `its encoding ${TEXT.isNot}`;
  if (!isText(sha256)) return `its sha256 ${TEXT.isNot}`;
  if (!isText(seal)) return `its seal ${TEXT.isNot}`;
  // The loop has checked each field.
  return { ...(summary as CheckpointSummary), payload: { encoding, sha256 }, seal };
}

/** Whether the value is well-formed text. Waymark never saves other text. */
function isText(stored: unknown): stored is string {
  return typeof stored === "string" && stored.isWellFormed();
}

function requireFrom(least: number): FieldKind<number> {
  return {
    read: (stored) =>
      typeof stored === "number" && Number.isSafeInteger(stored) && stored >= least ? stored : undefined,
    isNot: `isn't a whole number from ${least}`,
  };
}

/** Reads an error from its stored fields; `undefined` if they are damaged. */
export function readFailure(stored: unknown): CheckpointFailure | undefined {
  if (!isJsonObject(stored) || !isText(stored["message"])) return undefined;
  const texts = FAILURE_FIELDS.filter((field) => stored[field] !== undefined);
  if (!texts.every((field) => isText(stored[field]))) return undefined;
  return { message: stored["message"], ...Object.fromEntries(texts.map((field) => [field, stored[field]])) };
}
