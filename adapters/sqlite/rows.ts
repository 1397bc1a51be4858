import type { CorruptRecord } from "../../src/contract/adapter.js";
import {
  brokenSeal,
  CHECKPOINT_STATUSES,
  type CheckpointFailure,
  type CheckpointStatus,
  type JsonObject,
  type SealedSummary,
  type StoredCheckpoint,
} from "../../src/contract/checkpoint.js";
import type { SqliteRow } from "./driver.js";

/** A checkpoint's columns, in the order that {@link checkpointOf} takes them. */
export const COLUMNS =
  "c.number, c.sequence, c.id, c.created_at, c.stage, c.label, c.parent_id, c.metadata, c.status, c.error, " +
  "c.state_version, c.size_bytes, c.encoding, c.sha256, c.seal";

/** The columns with those of the payload, in the order that {@link storedCheckpointOf} takes them. */
export const COLUMNS_WITH_PAYLOAD = `${COLUMNS}, p.body, octet_length(p.body)`;

/** How many {@link COLUMNS} there are. */
const WIDTH = 15;

/**
 * Whether a row is suspect. A filter has to let these pass: what can't be read is reported, whatever was asked for.
 * It has to be as wide as {@link checkpointOf}, which decides.
 */
export const SUSPECT = `NOT (
  ${["id", "created_at", "encoding", "sha256", "seal"].map((column) => `typeof(c.${column}) = 'text'`).join(" AND ")}
  AND ${["stage", "label", "parent_id"].map((column) => `typeof(c.${column}) IN ('text', 'null')`).join(" AND ")}
  AND ${["number", "sequence", "state_version"].map((column) => `c.${column} BETWEEN 1 AND ${Number.MAX_SAFE_INTEGER}`).join(" AND ")}
  AND ${["sequence", "state_version", "size_bytes"].map((column) => `typeof(c.${column}) = 'integer'`).join(" AND ")}
  AND c.size_bytes BETWEEN 0 AND ${Number.MAX_SAFE_INTEGER} AND c.seal <> ''
  AND c.status IN (${CHECKPOINT_STATUSES.map((status) => `'${status}'`).join(", ")})
  AND CASE WHEN c.metadata IS NULL THEN 1 WHEN json_valid(c.metadata) THEN json_type(c.metadata) = 'object' ELSE 0 END
  AND CASE WHEN c.error IS NULL THEN 1 WHEN json_valid(c.error) THEN
    json_type(c.error, '$.message') IS 'text'
    AND ${["name", "code", "stack"].map((key) => `ifnull(json_type(c.error, '$.${key}'), 'text') = 'text'`).join(" AND ")}
  ELSE 0 END
)`;

/** What a row of {@link COLUMNS} holds, without its payload. The task is the caller's: it is what the row was found by. */
export function checkpointOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const [number, sequence, id, createdAt, stage, label, parentId, metadata, status, error] = row;
  const [stateVersion, sizeBytes, encoding, sha256, seal] = row.slice(10, WIDTH);
  const wrong = (column: string, cause?: unknown) => {
    const known = { taskId, ...(isText(id) ? { id } : undefined), ...(isCount(sequence) ? { sequence } : undefined) };
    return damagedRow(path, number, known, `its ${column} can't be read`, cause);
  };

  if (!isCount(number)) return wrong("number");
  if (!isCount(sequence)) return wrong("sequence");
  if (!isText(id)) return wrong("id");
  if (!isText(createdAt)) return wrong("created_at");
  if (!isOptionalText(stage)) return wrong("stage");
  if (!isOptionalText(label)) return wrong("label");
  if (!isOptionalText(parentId)) return wrong("parent_id");
  if (!isStatus(status)) return wrong("status");
  if (!isCount(stateVersion)) return wrong("state_version");
  if (!isCount(sizeBytes) && sizeBytes !== 0) return wrong("size_bytes");
  if (!isText(encoding)) return wrong("encoding");
  if (!isText(sha256)) return wrong("sha256");
  if (!isText(seal) || seal === "") return wrong("seal");
  const data = metadata === null ? undefined : parseObject(metadata);
  if (data instanceof Error) return wrong("metadata", data);
  const failure = error === null ? undefined : parseObject(error);
  if (failure instanceof Error || (failure && !isFailure(failure))) return wrong("error", failure);
  return {
    taskId,
    id,
    sequence,
    createdAt,
    ...(stage === null ? undefined : { stage }),
    ...(label === null ? undefined : { label }),
    ...(parentId === null ? undefined : { parentId }),
    ...(data && { metadata: data }),
    status,
    ...(failure && { error: failure }),
    stateVersion,
    sizeBytes,
    payload: { encoding, sha256 },
    seal,
  };
}

/**
 * The same with its seal checked: for what is shown without its payload, since whoever gets a summary can't check it. Of
 * a whole record the manager does.
 */
export function sealedCheckpointOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const found = checkpointOf(taskId, row, path);
  if ("corrupt" in found) return found;
  const broken = brokenSeal(found);
  return broken === undefined ? found : damagedRow(path, row[0], found, broken);
}

/** The whole checkpoint, of a row of {@link COLUMNS_WITH_PAYLOAD}. */
export function storedCheckpointOf(taskId: string, row: SqliteRow, path: string): StoredCheckpoint | CorruptRecord {
  const found = checkpointOf(taskId, row, path);
  if ("corrupt" in found) return found;
  const body = bodyOf(row[WIDTH]);
  const bytes = row[WIDTH + 1];
  if (body === undefined) return damagedRow(path, row[0], found, "its payload is missing");
  if (bytes !== found.sizeBytes) {
    return damagedRow(path, row[0], found, `its payload has ${bytes} bytes, not ${found.sizeBytes}`);
  }
  return { ...found, payload: { ...found.payload, body } };
}

/** Bytes come as a Buffer from the driver; to callers they are a Uint8Array like any other. */
function bodyOf(value: unknown): string | Uint8Array | undefined {
  if (typeof value === "string") return value;
  return value instanceof Uint8Array ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : undefined;
}

/** Stands for a row of waymark_checkpoints that can't be read, wholly or in part. */
export function damagedRow(
  path: string,
  number: unknown,
  known: { readonly taskId: string; readonly id?: string; readonly sequence?: number },
  reason: string,
  cause?: unknown,
): CorruptRecord {
  const { taskId, id, sequence } = known;
  return {
    corrupt: true,
    location: `${path}, table waymark_checkpoints, number ${String(number)}`,
    reason,
    taskId,
    ...(id === undefined ? undefined : { id }),
    ...(sequence === undefined ? undefined : { sequence }),
    ...(cause === undefined ? undefined : { cause }),
  };
}

/** A number that a row holds; 0 where it holds none. */
export function numberOr0(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isOptionalText(value: unknown): value is string | null {
  return value === null || typeof value === "string";
}

/** A whole number from 1 that JavaScript can hold. */
function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0;
}

function isStatus(value: unknown): value is CheckpointStatus {
  return CHECKPOINT_STATUSES.some((status) => status === value);
}

function isFailure(value: JsonObject): value is JsonObject & CheckpointFailure {
  const { message, name, code, stack } = value;
  return isText(message) && [name, code, stack].every((part) => part === undefined || isText(part));
}

function parseObject(text: unknown): JsonObject | Error {
  try {
    const value: unknown = JSON.parse(String(text));
    return isObject(value) ? value : new TypeError("It is JSON, but not an object.");
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** What JSON.parse gave. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
