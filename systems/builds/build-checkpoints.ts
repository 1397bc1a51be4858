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
 * The functions that `createBuildCheckpoints` returns. They are synchronous, and none of them needs `this`. If another
 * process has locked the database, they block this process until the lock is free, for at most `busyTimeoutMs`.
 *
 * If the file, its folder or the database fails, each function throws a `StorageError`; earlier checkpoints are intact.
 * If a stored value can't be read, they throw a `CheckpointCorruptError`; if the database belongs to another program,
 * an `UnsupportedFormatError`. Both errors leave the database untouched. After `close` they throw a `ClosedError`.
 */
export interface BuildCheckpoints<Task = unknown, SavedTask = Task> {
  /**
   * Saves a checkpoint as its build's newest one, and removes what the retention no longer keeps (by default, all but
   * the newest 50), in one transaction. Once it returns, the checkpoint survives a killed process and a power loss.
   *
   * If the same checkpoint is already stored, saving it again changes nothing.
   *
   * @throws {CheckpointConflictError} The id belongs to a checkpoint that has other content or is of another build;
   * nothing was stored.
   * @throws {StateNotSerializableError} JSON would lose a part of the tasks or the metadata; `path` says where.
   * @throws {PayloadTooLargeError} The tasks or the metadata have more than `maxPayloadBytes`.
   * @throws {StateInvalidError} The schema refuses a task.
   * @throws {TypeError | RangeError} A part is missing or of the wrong type. (A key without a column is no error: it
   * isn't stored, and a warning is logged once.)
   */
  saveCheckpoint(checkpoint: NewCheckpoint<SavedTask>): SavedCheckpoint;
  /**
   * Saves a checkpoint in the same way, under a new, unique id: `{buildId}-{milliseconds since 1970}`. (The id and the
   * timestamp of a loaded checkpoint are ignored here and in auto-saves.)
   *
   * @throws As above.
   */
  saveCheckpoint(buildId: string, progress: BuildProgress<SavedTask>): SavedCheckpoint;
  /**
   * The build's newest checkpoint, or null if it has none. Checkpoints that can't be read are reported (see
   * `onCorrupt`) and skipped.
   *
   * @throws {CheckpointCorruptError} There are checkpoints, but none can be read.
   * @throws {StateInvalidError} The schema refuses one of its tasks.
   */
  getLatestCheckpoint(buildId: string): Checkpoint<Task> | null;
  /**
   * Saves the result of `getState` at intervals, if it differs from the build's newest checkpoint. The timer doesn't
   * keep the process alive. A failure is logged as an error, never thrown, and the next interval tries again.
   *
   * @param getState - Returns the build's progress now, or `undefined` if there is nothing to save yet. Synchronous.
   * @param intervalMs - Milliseconds from one save to the next, from 1. Default 30,000.
   * @returns A function that stops the auto-save, without a last save.
   * @throws {TypeError | RangeError} An argument is wrong.
   */
  startAutoSave(buildId: string, getState: () => BuildProgress<SavedTask> | undefined, intervalMs?: number): () => void;
  /**
   * Removes a build's old checkpoints.
   *
   * @param keepLast - How many checkpoints stay, from 1. Default: the option `retention` decides.
   * @returns How many were removed.
   * @throws {CheckpointCorruptError} No checkpoint that would be kept can be read; nothing was removed.
   */
  cleanupOldCheckpoints(buildId: string, keepLast?: number): number;
  /**
   * Removes old checkpoints of every build.
   *
   * @throws As above, for a build that is damaged. The other builds were cleaned up all the same.
   */
  cleanupOldCheckpoints(keepLast?: number): number;
  /**
   * Saves the build's state, which replaces the former state. `listSavedBuilds` shows a part of it.
   *
   * @throws As `saveCheckpoint`.
   */
  saveBuildState(state: BuildState<SavedTask>): void;
  /**
   * The state that `saveBuildState` saved last, or null.
   *
   * @throws {CheckpointCorruptError} The state can't be read.
   */
  getBuildState(buildId: string): BuildState<Task> | null;
  /** Every build with a saved state, most recently saved first. */
  listSavedBuilds(): SavedBuild[];
  /**
   * Removes a finished build: its checkpoints and its saved state, in one transaction. No other function removes a
   * build.
   *
   * @returns Whether there was anything to remove.
   */
  removeBuild(buildId: string): boolean;
  /** Ends every auto-save and closes the database. Idempotent. */
  close(): void;
  [Symbol.dispose](): void;
}

/**
 * Checkpoints of builds in an SQLite database, in the tables `checkpoints` and `build_states`. The first save creates
 * the folder, the file and the tables if they are missing. Needs the package better-sqlite3, and a local disk.
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
/** Without a schema, tasks may be any JSON. */
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

/**
 * If there are two arguments, the first counts as a build's id even if it isn't text. So the error for a wrong id names
 * the build's id.
 */
function isOfOneBuild(args: CleanupArgs): args is OneBuild {
  return args.length === 2 || typeof args[0] === "string";
}
