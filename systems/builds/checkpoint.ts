/** A build as it stood at one moment. */
export interface Checkpoint<Task = unknown> {
  id: string;
  buildId: string;
  /**
   * When the checkpoint was saved, in UTC and in SQLite's form: `2026-11-22 01:02:03`. Never before the time of an
   * earlier checkpoint of the build, even if the clock was set back. To get a `Date`: `new Date(`${timestamp}Z`)`.
   */
  timestamp: string;
  tasks: Task[];
  currentPhase: number;
  /** `{}` if none was saved. */
  metadata: Record<string, unknown>;
}

/** A build's progress. */
export interface BuildProgress<Task = unknown> {
  /** If `saveCheckpoint(buildId, progress)` is called, this must equal that `buildId`. */
  readonly buildId?: string | undefined;
  /**
   * Tasks and their data, with paths to files in place of their contents. Plain JSON: a value that JSON would lose or
   * change (a Map, NaN, `undefined` in a list) is refused. As with `JSON.stringify`, a Date becomes its ISO text, and a
   * property that is undefined is left out.
   */
  readonly tasks: readonly Task[];
  /** A whole number. */
  readonly currentPhase: number;
  /** Plain JSON. */
  readonly metadata?: object | undefined;
}

/** A checkpoint to save. It gets a new timestamp; the timestamp of a loaded checkpoint is ignored. */
export interface NewCheckpoint<Task = unknown> extends BuildProgress<Task> {
  /** Unique among all builds of the database. */
  readonly id: string;
  readonly buildId: string;
}

/** A stored checkpoint. */
export interface SavedCheckpoint {
  readonly id: string;
  readonly buildId: string;
  readonly timestamp: string;
}

/** A build's state, for the list of builds. */
export interface BuildState<Task = unknown> {
  readonly buildId: string;
  /** The path of the PRD that is built. */
  readonly prdFile: string;
  /** In the program's own form: `new Date().toISOString()`. */
  readonly startTime: string;
  readonly tasks: readonly Task[];
  /** Ids, or whatever the program lists. Plain JSON, like `failedTasks` and `logs`. */
  readonly completedTasks: readonly unknown[];
  readonly failedTasks: readonly unknown[];
  /** A whole number. */
  readonly currentPhase: number;
  /** Usually a list of lines. */
  readonly logs: unknown;
}

/** An entry of the list of builds. */
export interface SavedBuild {
  readonly buildId: string;
  readonly prdFile: string;
  readonly startTime: string;
  /** In UTC and in SQLite's form, like a checkpoint's timestamp. */
  readonly updatedAt: string;
}
