import type { CorruptRecord } from "../../src/contract/adapter.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import type { BuildState, Checkpoint, SavedBuild } from "./checkpoint.js";

/** The columns of a saved checkpoint, in the order in which {@link checkpointOf} takes them. */
export const CHECKPOINT_COLUMNS: readonly string[] = [
  "id",
  "build_id",
  "timestamp",
  "tasks",
  "current_phase",
  "metadata",
];

/** The columns of a build's saved state, in the order in which {@link buildStateOf} takes them. */
export const STATE_COLUMNS: readonly string[] = [
  "build_id",
  "prd_file",
  "start_time",
  "tasks",
  "completed_tasks",
  "failed_tasks",
  "current_phase",
  "logs",
  "updated_at",
];

/** The checkpoint that a row holds, as parsed JSON and no more; or the damage, if the row is damaged. */
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

/**
 * The state that a row of {@link STATE_COLUMNS} holds.
 *
 * @throws {CheckpointCorruptError} It can't be read.
 */
export function buildStateOf(buildId: string, row: readonly unknown[], path: string): BuildState {
  const [, prdFile, startTime, tasksJson, completedJson, failedJson, currentPhase, logsJson] = row;
  const wrong = (column: string, cause?: unknown) =>
    new CheckpointCorruptError(
      `The state of build ${JSON.stringify(buildId)} in ${path} can't be read: its ${column} is damaged. ` +
        "It was left untouched; the build's checkpoints are not concerned. Save the state anew.",
      { cause },
    );
  const list = (column: string, json: unknown): unknown[] => {
    const value = parse(json);
    if (Array.isArray(value)) return value;
    throw wrong(column, value instanceof Error ? value : undefined);
  };

  if (typeof prdFile !== "string") throw wrong("prd_file");
  if (typeof startTime !== "string") throw wrong("start_time");
  if (typeof currentPhase !== "number") throw wrong("current_phase");
  const tasks = list("tasks", tasksJson);
  const completedTasks = list("completed_tasks", completedJson);
  const failedTasks = list("failed_tasks", failedJson);
  const logs = parse(logsJson);
  if (logs instanceof Error) throw wrong("logs", logs);
  return { buildId, prdFile, startTime, tasks, completedTasks, failedTasks, currentPhase, logs };
}

/** The line of the list of builds that a row holds: its build_id, prd_file, start_time and updated_at. */
export function savedBuildOf(row: readonly unknown[], path: string): SavedBuild | CorruptRecord {
  const [buildId, prdFile, startTime, updatedAt] = row;
  if (
    typeof buildId === "string" &&
    typeof prdFile === "string" &&
    typeof startTime === "string" &&
    typeof updatedAt === "string"
  ) {
    return { buildId, prdFile, startTime, updatedAt };
  }
  return {
    corrupt: true,
    location: `${path}, table build_states, build_id ${String(buildId)}`,
    reason: "one of its columns is no text",
    ...(typeof buildId === "string" ? { taskId: buildId } : undefined),
  };
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
