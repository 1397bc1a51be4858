import type { SavedStateOf, StateOf, StateSchema } from "../../src/manager/schema.js";
import { Builds } from "./builds.js";
import type {
  BuildProgress,
  BuildState,
  Checkpoint,
  NewCheckpoint,
  SavedBuild,
  SavedCheckpoint,
} from "./checkpoint.js";
import type { BuildCheckpointsOptions } from "./options.js";

/**
 * The functions that `createBuildCheckpoints` returns. They need no `this`. Each is done when it returns. If another
 * process has locked the database, they block this process until it is free, for `busyTimeoutMs` at most.
 *
 * If the file, its folder or the database fails, each of them throws a `StorageError`; earlier checkpoints are intact.
 * A `CheckpointCorruptError` says that something is there and can't be read, an `UnsupportedFormatError` that the
 * database is another program's; both leave it untouched. After `close` they throw a `ClosedError`.
 */
export interface BuildCheckpoints<Task = unknown, SavedTask = Task> {
  /**
   * Saves a checkpoint as its build's newest one, and removes what the retention no longer keeps (the oldest beyond 50,
   * unless told), in one transaction. When it returns, the checkpoint survives a killed process and a power loss.
   *
   * Saving a checkpoint again that is still stored changes nothing.
   *
   * @throws {CheckpointConflictError} The id belongs to a checkpoint of another content or build; nothing was stored.
   * @throws {StateNotSerializableError} JSON would lose something of the tasks or the metadata; `path` says where.
   * @throws {PayloadTooLargeError} The tasks or the metadata have more than `maxPayloadBytes`.
   * @throws {StateInvalidError} The schema refuses a task.
   * @throws {TypeError | RangeError} A part is missing or of the wrong type. A key that has no column is logged once, as a
   *   warning, and not stored.
   */
  saveCheckpoint(checkpoint: NewCheckpoint<SavedTask>): SavedCheckpoint;
  /**
   * The same under an id that is made up: `{buildId}-{milliseconds since 1970}`, unique. (The id and the timestamp of a
   * loaded checkpoint aren't looked at here, nor in an auto-save.)
   *
   * @throws As above.
   */
  saveCheckpoint(buildId: string, progress: BuildProgress<SavedTask>): SavedCheckpoint;
  /**
   * The build's newest checkpoint, or null if it has none. Checkpoints that can't be read are reported (see
   * `onCorrupt`) and stepped over.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, and none of them can be read.
   * @throws {StateInvalidError} The schema refuses a task of it.
   */
  getLatestCheckpoint(buildId: string): Checkpoint<Task> | null;
  /**
   * Saves the result of `getState` at intervals, if it differs from the build's newest checkpoint. Its timer doesn't
   * keep the process alive. A failure is logged as an error, never thrown, and the next interval tries again.
   *
   * @param getState - The build's progress now, or `undefined` where there is nothing to save yet. Synchronous.
   * @param intervalMs - Milliseconds from one save to the next, from 1. Default 30,000.
   * @returns A function that ends it. It saves nothing by itself.
   * @throws {TypeError | RangeError} An argument is wrong.
   */
  startAutoSave(buildId: string, getState: () => BuildProgress<SavedTask> | undefined, intervalMs?: number): () => void;
  /**
   * Removes a build's old checkpoints.
   *
   * @param keepLast - How many stay, from 1. Default: as the option `retention` says.
   * @returns How many were removed.
   * @throws {CheckpointCorruptError} None of those to keep can be read; nothing was removed.
   */
  cleanupOldCheckpoints(buildId: string, keepLast?: number): number;
  /**
   * Removes old checkpoints of every build.
   *
   * @throws As above; builds that are in order were cleaned up all the same.
   */
  cleanupOldCheckpoints(keepLast?: number): number;
  /**
   * Saves the build's state, which the list of builds shows in part, in place of the former one.
   *
   * @throws As `saveCheckpoint`.
   */
  saveBuildState(state: BuildState<SavedTask>): void;
  /**
   * The state that `saveBuildState` has saved last, or null.
   *
   * @throws {CheckpointCorruptError} It can't be read.
   */
  getBuildState(buildId: string): BuildState<Task> | null;
  /** Every build with a saved state, the one saved last first. */
  listSavedBuilds(): SavedBuild[];
  /**
   * Removes a build that is done with: its checkpoints and its saved state, in one transaction. Nothing else does.
   *
   * @returns Whether there was anything.
   */
  removeBuild(buildId: string): boolean;
  /** Ends every auto-save and closes the database. Idempotent. */
  close(): void;
  [Symbol.dispose](): void;
}

/**
 * Checkpoints of builds in an SQLite database, in the tables `checkpoints` and `build_states`. The first save makes the
 * folder, the file and the tables that are missing. Needs the package better-sqlite3, and a local disk.
 *
 * @example
 * ```ts
 * import { createBuildCheckpoints } from "waymark/builds";
 *
 * const { getLatestCheckpoint, startAutoSave, close } = createBuildCheckpoints({ path: ".waymark/builds.db" });
 * const checkpoint = getLatestCheckpoint("build-42");
 * const tasks = checkpoint?.tasks ?? [{ id: "compile", done: false }];
 * const stopAutoSave = startAutoSave("build-42", () => ({ tasks, currentPhase: 1 }));
 * stopAutoSave();
 * close();
 * ```
 *
 * @throws {TypeError | RangeError} An option is missing, misspelled or out of range; the message names it.
 */
export function createBuildCheckpoints<Schema extends StateSchema>(
  options: BuildCheckpointsOptions<Schema> & { readonly taskSchema: Schema },
): BuildCheckpoints<StateOf<Schema>, SavedStateOf<Schema>>;
/** Without a schema, tasks are whatever JSON they are. */
export function createBuildCheckpoints(
  options: BuildCheckpointsOptions & { readonly taskSchema?: undefined },
): BuildCheckpoints;
export function createBuildCheckpoints(options: BuildCheckpointsOptions): BuildCheckpoints {
  const builds = new Builds(options);
  const close = () => builds.close();
  return {
    saveCheckpoint: (...args: [NewCheckpoint] | [buildId: string, progress: BuildProgress]) =>
      args.length === 1 ? builds.save(args[0]) : builds.saveProgress(...args),
    getLatestCheckpoint: (buildId) => builds.latest(buildId),
    startAutoSave: (buildId, getState, intervalMs) => builds.startAutoSave(buildId, getState, intervalMs),
    cleanupOldCheckpoints: (...args: CleanupArgs) =>
      isOfOneBuild(args) ? builds.cleanup(...args) : builds.cleanupAll(...args),
    saveBuildState: (state) => builds.saveState(state),
    getBuildState: (buildId) => builds.state(buildId),
    listSavedBuilds: () => builds.savedBuilds(),
    removeBuild: (buildId) => builds.removeBuild(buildId),
    close,
    [Symbol.dispose]: close,
  };
}

type OneBuild = [buildId: string, keepLast?: number | undefined];
type CleanupArgs = OneBuild | [keepLast?: number | undefined];

/** If there are two arguments, the first is meant as a build's id, even if it is none. */
function isOfOneBuild(args: CleanupArgs): args is OneBuild {
  return args.length === 2 || typeof args[0] === "string";
}
