import type { CorruptRecord } from "../../src/contract/adapter.js";
import {
  brokenSeal,
  CHECKPOINT_STATUSES,
  type CheckpointFailure,
  type CheckpointStatus,
  type JsonObject,
  type SealedSummary,
} from "../../src/contract/checkpoint.js";
import type { SqliteRow } from "./driver.js";

/** A checkpoint's columns, in the order that {@link sealedSummaryOf} takes them. */
export const COLUMNS =
  "c.number, c.sequence, c.id, c.created_at, c.stage, c.label, c.parent_id, c.metadata, c.status, c.error, " +
  "c.state_version, c.size_bytes, c.encoding, c.sha256, c.seal";

/** What a row of {@link COLUMNS} holds. The task is what the row was found by. Its seal isn't checked. */
export function sealedSummaryOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const [number, sequence, id, createdAt, stage, label, parentId, metadata, status, error, ...rest] = row;
  const [stateVersion, sizeBytes, encoding, sha256, seal] = rest;
  const wrong = (column: string, cause?: unknown) => {
    const known = { taskId, ...(isText(id) ? { id } : undefined), ...(isCount(sequence) ? { sequence } : undefined) };
    return damagedRow(path, number, known, `its ${column} can't be read`, cause);
  };

  if (!isCount(sequence)) return wrong("sequence");
  if (!isText(id)) return wrong("id");
  if (!isText(createdAt)) return wrong("created_at");
  if (!isOptionalText(stage) || !isOptionalText(label) || !isOptionalText(parentId)) {
    return wrong("stage, label or parent_id");
  }
  if (!isStatus(status)) return wrong("status");
  if (!isCount(stateVersion)) return wrong("state_version");
  if (!isCount(sizeBytes) && sizeBytes !== 0) return wrong("size_bytes");
  if (!isText(encoding) || !isText(sha256) || !isText(seal)) return wrong("encoding, sha256 or seal");
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

/** As {@link sealedSummaryOf}, with the seal checked: for summaries, which nobody above can check. */
export function checkedSummaryOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const found = sealedSummaryOf(taskId, row, path);
  if ("corrupt" in found) return found;
  const broken = brokenSeal(found);
  return broken === undefined ? found : damagedRow(path, row[0], found, broken);
}

/** A payload's body; `undefined` where it is none. */
export function bodyOf(value: unknown): string | Uint8Array | undefined {
  if (typeof value === "string") return value;
  // The driver gives a Buffer; callers get a Uint8Array like any other.
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
