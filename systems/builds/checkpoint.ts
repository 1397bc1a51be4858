/** A build as it stood at one moment. */
export interface Checkpoint<Task = unknown> {
  id: string;
  buildId: string;
  /**
   * When it was saved, in UTC and as SQLite writes it: `2026-11-22 01:02:03`. Never before that of a checkpoint which
   * the build has, also where the clock was set back. For a `Date`: `new Date(`${timestamp}Z`)`.
   */
  timestamp: string;
  tasks: Task[];
  currentPhase: number;
  /** `{}` where none was saved. */
  metadata: Record<string, unknown>;
}

/** A build's progress. */
export interface BuildProgress<Task = unknown> {
  /** Where it is given beside a build's id, it must be that id. */
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

/** A checkpoint to be saved. Its timestamp is given to it; one that it has already (having been loaded) isn't looked at. */
export interface NewCheckpoint<Task = unknown> extends BuildProgress<Task> {
  /** Unique among all builds of the database. */
  readonly id: string;
  readonly buildId: string;
}

/** A checkpoint that is stored. */
export interface SavedCheckpoint {
  readonly id: string;
  readonly buildId: string;
  readonly timestamp: string;
}

/** All that is known of a build, for the list of builds. */
export interface BuildState<Task = unknown> {
  readonly buildId: string;
  /** The PRD that is built, by its path. */
  readonly prdFile: string;
  /** As the program writes it: `new Date().toISOString()`. */
  readonly startTime: string;
  readonly tasks: readonly Task[];
  /** Ids, or whatever the program lists. Plain JSON, as `failedTasks` and `logs` are. */
  readonly completedTasks: readonly unknown[];
  readonly failedTasks: readonly unknown[];
  /** A whole number. */
  readonly currentPhase: number;
  /** A list of lines, as a rule. */
  readonly logs: unknown;
}

/** A line of the list of builds. */
export interface SavedBuild {
  readonly buildId: string;
  readonly prdFile: string;
  readonly startTime: string;
  /** In UTC and as SQLite writes it, like a checkpoint's timestamp. */
  readonly updatedAt: string;
}
