import {
  CHECKPOINT_STATUSES,
  type Changing,
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

const TEXT: FieldKind<string> = { read: readText, isNot: "isn't text" };
const TEXT_OR_NONE = { ...TEXT, isOptional: true };

type SummaryField = keyof CheckpointSummary;

const KINDS: { readonly [Field in SummaryField]: FieldKind<NonNullable<CheckpointSummary[Field]>> } = {
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
  const summary: Partial<Changing<CheckpointSummary>> = {};
  for (const field of SUMMARY_FIELDS) {
    const wrong = readField(summary, fields, field);
    if (wrong !== undefined) return wrong;
  }
  const [encoding, sha256, seal] = [readText(fields.encoding), readText(fields.sha256), readText(fields.seal)];
  if (encoding === undefined || sha256 === undefined || seal === undefined) {
    const missing = encoding === undefined ? "encoding" : sha256 === undefined ? "sha256" : "seal";
    return `its ${missing} ${TEXT.isNot}`;
  }
  // The loop has checked that every required field is there.
  return { ...(summary as CheckpointSummary), payload: { encoding, sha256 }, seal };
}

function readField<Field extends SummaryField>(
  summary: Partial<Changing<CheckpointSummary>>,
  fields: StoredFields,
  field: Field,
): string | undefined {
  const stored = fields[field];
  const { read, isNot, isOptional } = KINDS[field];
  if (isOptional && (stored === undefined || stored === null)) return undefined;
  const value = read(stored);
  if (value === undefined) return `its ${field} ${isNot}`;
  summary[field] = value;
  return undefined;
}

/** The value, if it is well-formed text. Waymark never saves other text. */
function readText(stored: unknown): string | undefined {
  return typeof stored === "string" && stored.isWellFormed() ? stored : undefined;
}

function requireFrom(least: number): FieldKind<number> {
  const read = (stored: unknown) =>
    typeof stored === "number" && Number.isSafeInteger(stored) && stored >= least ? stored : undefined;
  return { read, isNot: `isn't a whole number from ${least}` };
}

function readFailure(stored: unknown): CheckpointFailure | undefined {
  if (!isJsonObject(stored)) return undefined;
  const failure: Partial<Changing<CheckpointFailure>> = {};
  for (const field of FAILURE_FIELDS) {
    const text = readText(stored[field]);
    if (text !== undefined) failure[field] = text;
    else if (stored[field] !== undefined) return undefined;
  }
  const { message, ...rest } = failure;
  return message === undefined ? undefined : { message, ...rest };
}
