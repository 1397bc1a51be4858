import {
  CHECKPOINT_STATUSES,
  type CheckpointFailure,
  type JsonObject,
  type JsonValue,
  type SealedSummary,
} from "./checkpoint.js";

/** A checkpoint's fields as a storage holds them. An absent field is `undefined` or `null`. */
export interface StoredFields extends Readonly<Partial<Record<TextField | NumberField | "status", unknown>>> {
  readonly metadata?: JsonValue | undefined;
  readonly error?: JsonValue | undefined;
}

type TextField = "taskId" | "id" | "createdAt" | "stage" | "label" | "parentId" | "encoding" | "sha256" | "seal";
type NumberField = "sequence" | "stateVersion" | "sizeBytes";

/**
 * A summary of what a storage holds: each field of the type that it must have. For adapters, since what is stored may
 * be damaged. The seal isn't checked: see `findDamage`.
 *
 * @returns The summary, or what is wrong, as the end of a sentence: `its id is no text`.
 */
export function parseSummary(fields: StoredFields): SealedSummary | string {
  let wrong: string | undefined;
  const text = (field: TextField): string => {
    const value = fields[field];
    if (typeof value === "string") return value;
    wrong ??= `its ${field} is no text`;
    return "";
  };
  const wholeNumber = (field: NumberField, min: number): number => {
    const value = fields[field];
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min) return value;
    wrong ??= `its ${field} is no whole number from ${min}`;
    return min;
  };
  const { metadata, error } = fields;
  const status = CHECKPOINT_STATUSES.find((known) => known === fields.status);
  if (status === undefined) return "it has no known status";

  // Built up, since lists of thousands of tasks do this for each.
  const summary: { -readonly [Key in keyof SealedSummary]: SealedSummary[Key] } = {
    taskId: text("taskId"),
    id: text("id"),
    sequence: wholeNumber("sequence", 1),
    createdAt: text("createdAt"),
    status,
    stateVersion: wholeNumber("stateVersion", 1),
    sizeBytes: wholeNumber("sizeBytes", 0),
    payload: { encoding: text("encoding"), sha256: text("sha256") },
    seal: text("seal"),
  };
  for (const field of ["stage", "label", "parentId"] as const) {
    if (fields[field] !== undefined && fields[field] !== null) summary[field] = text(field);
  }
  if (metadata !== undefined && metadata !== null) {
    if (isJsonObject(metadata)) summary.metadata = metadata;
    else wrong ??= "its metadata is no object";
  }
  if (error !== undefined && error !== null) {
    const failure = isJsonObject(error) ? failureIn(error) : undefined;
    if (failure) summary.error = failure;
    else wrong ??= "its error is no object of texts";
  }
  return wrong ?? summary;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The keys that it knows. */
function failureIn(value: JsonObject): CheckpointFailure | undefined {
  const failure: Partial<Record<keyof CheckpointFailure, string>> = {};
  for (const key of ["message", "name", "code", "stack"] as const) {
    const part = value[key];
    if (typeof part === "string") failure[key] = part;
    else if (part !== undefined) return undefined;
  }
  const { message, ...rest } = failure;
  return message === undefined ? undefined : { message, ...rest };
}
