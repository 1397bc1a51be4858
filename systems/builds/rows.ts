import type { CorruptRecord } from "../../src/contract/corrupt-record.js";
import { CheckpointCorruptError, isError } from "../../src/contract/errors.js";
import type { BuildState, Checkpoint, SavedBuild } from "./checkpoint.js";

/** A checkpoint's columns, in the order that {@link toCheckpoint} reads. */
export const CHECKPOINT_COLUMNS: readonly string[] = [
  "id",
  "build_id",
  "timestamp",
  "tasks",
  "current_phase",
  "metadata",
];

/** A build state's columns, in the order that {@link toBuildState} reads. */
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

/** A row's checkpoint, as plain parsed JSON; a CorruptRecord if the row is damaged. */
export function toCheckpoint(row: readonly unknown[], path: string): Checkpoint | CorruptRecord {
  const [id, buildId, timestamp, tasksJson, currentPhase, metadataJson] = row;
  const wrong = (column: string, cause?: unknown) =>
    damaged(path, { id, buildId }, `its ${column} can't be read`, cause);

  if (typeof id !== "string") return wrong("id");
  if (typeof buildId !== "string") return wrong("build_id");
  if (typeof timestamp !== "string" || !/^\d{4}-\d\d-\d\d/.test(timestamp)) return wrong("timestamp");
  if (typeof currentPhase !== "number") return wrong("current_phase");
  const tasks = parse(tasksJson);
  if (!Array.isArray(tasks)) return wrong("tasks", isError(tasks) ? tasks : undefined);
  // The spec's program stores empty metadata as NULL or '', and reads both as {}.
  const metadata = metadataJson === null || metadataJson === "" ? {} : (parse(metadataJson) ?? {});
  if (!isObject(metadata)) return wrong("metadata", isError(metadata) ? metadata : undefined);
  return { id, buildId, timestamp, tasks, currentPhase, metadata };
}

/**
 * Reads a build's state from a row of {@link STATE_COLUMNS}.
 *
 * @throws {CheckpointCorruptError} The state can't be read.
 */
export function toBuildState(buildId: string, row: readonly unknown[], path: string): BuildState {
  const [, prdFile, startTime, tasksJson, completedJson, failedJson, currentPhase, logsJson] = row;
  const wrong = (column: string, cause?: unknown) =>
    new CheckpointCorruptError(
      `The state of build ${JSON.stringify(buildId)} in ${path} can't be read: its ${column} is damaged. ` +
        "It was left untouched, and the build's checkpoints are not affected. Save the state again.",
      { cause },
    );
  const list = (column: string, json: unknown): unknown[] => {
    const value = parse(json);
    if (Array.isArray(value)) return value;
    throw wrong(column, isError(value) ? value : undefined);
  };

  if (typeof prdFile !== "string") throw wrong("prd_file");
  if (typeof startTime !== "string") throw wrong("start_time");
  if (typeof currentPhase !== "number") throw wrong("current_phase");
  const tasks = list("tasks", tasksJson);
  const completedTasks = list("completed_tasks", completedJson);
  const failedTasks = list("failed_tasks", failedJson);
  const logs = parse(logsJson);
  if (isError(logs)) throw wrong("logs", logs);
  return { buildId, prdFile, startTime, tasks, completedTasks, failedTasks, currentPhase, logs };
}

/** An entry of the list of builds, from a row of build_id, prd_file, start_time and updated_at. */
export function toSavedBuild(row: readonly unknown[], path: string): SavedBuild | CorruptRecord {
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
    reason: "one of its columns isn't text",
    ...(typeof buildId === "string" ? { taskId: buildId } : undefined),
  };
}

/** The CorruptRecord for a row of `checkpoints` that can't be read. */
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

/** The parsed value, or the error that parsing failed with. */
export function parse(json: unknown): unknown {
  if (typeof json !== "string") return new TypeError("It isn't text.");
  try {
    return JSON.parse(json);
  } catch (error) {
    return error;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isError(value);
}
