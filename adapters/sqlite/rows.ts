import type { CorruptRecord } from "../../src/contract/adapter.js";
import {
  CHECKPOINT_STATUSES,
  type CheckpointFailure,
  type CheckpointStatus,
  type JsonObject,
  type SealedSummary,
} from "../../src/contract/checkpoint.js";
import type { SqliteRow } from "./connection.js";

/** A checkpoint's columns, in the order that {@link sealedSummaryOf} takes them. */
export const COLUMNS =
  "c.number, c.sequence, c.id, c.created_at, c.stage, c.label, c.parent_id, c.metadata, c.status, c.error, " +
  "c.state_version, c.size_bytes, c.encoding, c.sha256, c.seal";

/** What a row of {@link COLUMNS} holds. The task is what the row was found by. Its seal isn't checked. */
export function sealedSummaryOf(taskId: string, row: SqliteRow, path: string): SealedSummary | CorruptRecord {
  const [number, sequence, id, createdAt, stage, label, parentId, metadata, status, error, ...rest] = row;
  const [stateVersion, sizeBytes, encoding, sha256, seal] = rest;
  const wrong = (column: string) => {
    const known = { taskId, ...(isText(id) ? { id } : undefined), ...(isCount(sequence) ? { sequence } : undefined) };
    return damagedRow(path, number, known, `its ${column} can't be read`);
  };

  if (!isCount(sequence)) return wrong("sequence");
  if (!isText(id) || !isText(createdAt)) return wrong("id or created_at");
  if (!isOptionalText(stage) || !isOptionalText(label) || !isOptionalText(parentId)) {
    return wrong("stage, label or parent_id");
  }
  if (!isStatus(status)) return wrong("status");
  if (!isCount(stateVersion)) return wrong("state_version");
  if (!isCount(sizeBytes) && sizeBytes !== 0) return wrong("size_bytes");
  if (!isText(encoding) || !isText(sha256) || !isText(seal)) return wrong("encoding, sha256 or seal");
  const data = metadata === null ? undefined : parsed(metadata);
  if (data === undefined && metadata !== null) return wrong("metadata");
  const failure = error === null ? undefined : parsed(error);
  if (failure === undefined && error !== null) return wrong("error");
  if (failure !== undefined && !isFailure(failure)) return wrong("error");
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

/** Stands for a checkpoint that can't be read, wholly or in part. */
export function damagedRow(
  path: string,
  number: unknown,
  { taskId, id, sequence }: { readonly taskId: string; readonly id?: string; readonly sequence?: number },
  reason: string,
  cause?: unknown,
): CorruptRecord {
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

/** Every text that begins with a prefix is below the prefix and this: 257 times the highest character. */
export const HIGHEST = "\u{10ffff}".repeat(257);

/** A number that a row holds; 0 if it holds none. */
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

/** The object that JSON holds; `undefined` if it holds none. */
function parsed(json: unknown): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(String(json));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** What JSON.parse gave. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
