import type { CorruptRecord } from "../../adapter.js";
import type { Checkpoint } from "./checkpoint.js";

/** What {@link checkpointOf} takes of a row, in this order. */
export const CHECKPOINT_COLUMNS = "id, build_id, timestamp, tasks, current_phase, metadata";

/** The checkpoint that a row holds, as parsed JSON and no more; or what is wrong with the row. */
export function checkpointOf(row: readonly unknown[], path: string): Checkpoint | CorruptRecord {
  const [id, buildId, timestamp, tasksJson, currentPhase, metadataJson] = row;
  const wrong = (column: string, cause?: unknown) =>
    damaged(path, { id, buildId }, `its ${column} can't be read`, cause);

  if (typeof id !== "string") return wrong("id");
  if (typeof buildId !== "string") return wrong("build_id");
  if (typeof timestamp !== "string" || !/^\d{4}-\d\d-\d\d/.test(timestamp)) return wrong("timestamp");
  if (typeof currentPhase !== "number") return wrong("current_phase");
  const tasks = parse(tasksJson);
  if (!Array.isArray(tasks)) return wrong("tasks", tasks instanceof Error ? tasks : undefined);
  // The spec's program stores nothing where there is no metadata, and reads nothing as {}.
  const metadata = metadataJson === null || metadataJson === "" ? {} : (parse(metadataJson) ?? {});
  if (!isObject(metadata)) return wrong("metadata", metadata instanceof Error ? metadata : undefined);
  return { id, buildId, timestamp, tasks, currentPhase, metadata };
}

/** Stands for a row of `checkpoints` that can't be read. */
export function damaged(
  path: string,
  row: { readonly id?: unknown; readonly buildId?: unknown },
  reason: string,
  cause?: unknown,
): CorruptRecord {
  const { id, buildId } = row;
  return {
    corrupt: true,
    location: `${path}, table checkpoints, id ${typeof id === "string" ? JSON.stringify(id) : String(id)}`,
    reason,
    ...(typeof buildId === "string" ? { taskId: buildId } : undefined),
    ...(typeof id === "string" ? { id } : undefined),
    ...(cause === undefined ? undefined : { cause }),
  };
}

/** The value, or the error that says why it is none. */
export function parse(json: unknown): unknown {
  if (typeof json !== "string") return new TypeError("It is no text.");
  try {
    return JSON.parse(json);
  } catch (error) {
    return error;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Error);
}
