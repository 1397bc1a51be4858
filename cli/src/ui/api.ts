/**
 * The requests and answers of `waymark ui`, for the server and for the page. Types only, and no imports, so that the
 * page compiles against this file in a browser's environment.
 *
 * Each query is `POST /api/<name>` with a JSON body, and answers with JSON. A failed one answers {@link Failed}. The
 * queries in {@link LiveQueries} answer with `text/event-stream`: each event's data is one JSON message.
 */
export interface Queries {
  readonly session: Call<Record<string, never>, Session>;
  readonly tasks: Call<TasksRequest, TasksAnswer>;
  /** Counts all tasks. It takes about a second for 100,000 tasks, so ask once, not with each page of tasks. */
  readonly counts: Call<Record<string, never>, CountsAnswer>;
  readonly task: Call<TaskRequest, TaskAnswer>;
  readonly timeline: Call<{ readonly taskId: string }, TimelineAnswer>;
  /** What a task's run waits for, and the signals that were sent to it. */
  readonly signals: Call<{ readonly taskId: string }, SignalsAnswer>;
  readonly checkpoint: Call<CheckpointRequest, CheckpointAnswer>;
  readonly state: Call<StateRequest, StateAnswer>;
  readonly search: Call<SearchRequest, SearchAnswer>;
  readonly diff: Call<DiffRequest, DiffAnswer>;
  readonly retention: Call<RetentionRequest, RetentionAnswer>;
  readonly storage: Call<Record<string, never>, StorageAnswer>;
  /** The steps of a repair, without doing them. */
  readonly "repair-plan": Call<Record<string, never>, RepairAnswer>;
  // The rest changes something. Without `--write` they answer status 403, code "READ_ONLY".
  readonly fork: Call<ForkRequest, ChangedAnswer>;
  readonly rewind: Call<RewindRequest, ChangedAnswer>;
  readonly complete: Call<CompleteRequest, ChangedAnswer>;
  readonly delete: Call<DeleteRequest, RemovedAnswer>;
  readonly signal: Call<SignalRequest, SentAnswer>;
  readonly cancel: Call<CancelRequest, { readonly cancelled: number }>;
  readonly retry: Call<{ readonly taskId: string }, { readonly retried: number }>;
  readonly prune: Call<PruneRequest, RemovedAnswer>;
  readonly repair: Call<Record<string, never>, RepairAnswer>;
}

/** Queries that stay open and send messages, at most one a second, until the page aborts the request. */
export interface LiveQueries {
  readonly "watch-tasks": Call<WatchTasksRequest, TasksMessage>;
  readonly "watch-task": Call<{ readonly taskId: string }, TaskMessage>;
  /** Ends by itself after the message `done` or `failed`. */
  readonly verify: Call<{ readonly quick?: boolean }, VerifyMessage>;
}

export interface Call<Request, Answer> {
  readonly request: Request;
  readonly answer: Answer;
}

export type Status = "running" | "paused" | "completed" | "failed";

/** The body of an answer whose status isn't 200. */
export interface Failed {
  readonly error: ErrorInfo;
}

/** An error with its causes, outermost first. `code` is that of the SDK (`CHECKPOINT_CORRUPT`), if there is one. */
export interface ErrorInfo {
  readonly name: string;
  readonly code?: string;
  readonly message: string;
  readonly stack?: string;
  readonly causes: readonly Omit<ErrorInfo, "causes">[];
}

/** A command to copy. Its text is quoted for a POSIX shell and safe to print. An `advice` is a sentence, not a command. */
export interface Command {
  readonly action:
    | "advice"
    | "show"
    | "show-state"
    | "list"
    | "diff"
    | "fork"
    | "rewind"
    | "complete"
    | "delete"
    | "cancel"
    | "retry"
    | "prune"
    | "verify"
    | "repair"
    | "tasks";
  readonly text: string;
  /** What it keeps, and what it doesn't do. */
  readonly note?: string;
  /** What is lost by it and can't be brought back: the error of the newest checkpoint. */
  readonly loses?: string;
}

export interface Session {
  /** The storage, as the commands name it: its URL with the whole path, without a password. */
  readonly name: string;
  /** The adapter: `sqlite`. */
  readonly kind: string;
  /** The version of waymark-cli. */
  readonly version: string;
  /** True with `--write`. */
  readonly canWrite: boolean;
  /** False: the storage has no leases, so nobody knows who runs a task. */
  readonly hasLeases: boolean;
  /** Who sends signals, unless the request names somebody: `ada@build-box`. */
  readonly sender: string;
  /** The clock of the server, ISO 8601 in UTC. */
  readonly now: string;
  readonly statuses: readonly Status[];
  /** The configuration's file, if there is one. */
  readonly configFile?: string;
  /** Why the configuration can't be used: states with a transform can't be opened then. */
  readonly configError?: ErrorInfo;
  /** The configuration's retention policy. */
  readonly retention?: Policy;
  readonly commands: readonly Command[];
}

/** Selects tasks: those for which every given part holds. */
export interface TaskFilter {
  /** The beginning of the name. */
  readonly prefix?: string;
  readonly status?: readonly Status[];
  /** The stage of the newest checkpoint. */
  readonly stage?: string;
}

export interface TasksRequest extends TaskFilter {
  /** `recent`: the last saved first. */
  readonly order: "recent" | "taskId";
  /** From 0. */
  readonly offset: number;
  /** At most 1,000. */
  readonly limit: number;
  /**
   * The `view` of an earlier answer to the same filter and order, for its next pages: they continue the same list, even
   * if tasks have moved since. Without it, the list is read anew. If the server has forgotten the view, it reads the list anew, too.
   */
  readonly view?: string;
}

export interface TasksAnswer {
  readonly view: string;
  readonly now: string;
  readonly offset: number;
  readonly tasks: readonly TaskRow[];
  /** The number of tasks in the list, once it is known: at the latest with the last page. */
  readonly total?: number;
  /** Records that couldn't be read, met in the list so far. Those with a `taskId` are also in its row. */
  readonly damage: readonly DamageInfo[];
  /** Warnings for people: that leases can't be read, for example. */
  readonly warnings: readonly string[];
}

export interface TaskRow {
  /** For queries. Any well-formed text of at most 512 UTF-16 units, control characters included. */
  readonly taskId: string;
  /** Its name for people: the id, or the id of its LangGraph thread. */
  readonly name: string;
  readonly isThread: boolean;
  /** `starting`: it is being run and has no checkpoint yet. `unknown`: a thread whose writes can't be read. */
  readonly status: Status | "starting" | "unknown";
  /** A run that nobody runs now. `due`: a worker or the next run goes on with it. `waits`: for a signal or a time. */
  readonly stands?: "due" | "waits";
  /** Its run was cancelled; the status is `failed`. */
  readonly isCancelled?: true;
  /** The number of checkpoints. */
  readonly count: number;
  /** Missing for a starting task. */
  readonly newest?: {
    readonly id: string;
    readonly sequence: number;
    readonly createdAt: string;
    readonly stage?: string;
    readonly label?: string;
    readonly sizeBytes: number;
  };
  /** Why it isn't completed, for people: `died on build-box, process 3417; last seen 5 seconds ago`. */
  readonly why?: string;
  /** The message of the newest checkpoint's error, at most 300 units. */
  readonly error?: string;
  readonly runner?: RunnerInfo;
  /** The questions that a thread waits for, as JSON. */
  readonly asks: readonly string[];
  /** Checkpoints newer than `newest` that can't be read. */
  readonly damage: readonly DamageInfo[];
}

/** Who runs a task, or ran it last. */
export interface RunnerInfo {
  /** `held`: it runs now. `expired`: its lease ran out, it may still live. `died`: its process has ended. */
  readonly state: "held" | "expired" | "died";
  /** `build-box, process 3417`, or the holder's own text. */
  readonly holder: string;
  readonly host?: string;
  readonly pid?: number;
  readonly token: number;
  /** `held`: when the lease expires unless it is renewed. Otherwise: when it ended, or the holder was last seen. */
  readonly at: string;
}

/** A record that can't be read. */
export interface DamageInfo {
  readonly location: string;
  readonly reason: string;
  readonly taskId?: string;
  readonly id?: string;
  readonly sequence?: number;
}

export interface CountsAnswer {
  readonly tasks: number;
  readonly checkpoints: number;
  readonly byStatus: Readonly<Record<Status, number>>;
  /** Tasks that are being run now. */
  readonly held: number;
  /** Records that can't be read: the first 100, and their number. */
  readonly damage: readonly DamageInfo[];
  readonly damaged: number;
}

export interface WatchTasksRequest extends TaskFilter {
  /** The tasks on the screen, at most 200. They are looked at one by one; others are noticed when they save. */
  readonly visible: readonly string[];
}

/** `open` comes once, at first, and after a failure is over. After `failed` the server keeps trying. */
export type TasksMessage =
  | { readonly kind: "open"; readonly now: string }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  | {
      readonly kind: "change";
      readonly now: string;
      /** The tasks that are due and that nobody runs; missing if the storage can't count them. */
      readonly queue?: QueueInfo;
      /** New tasks and those that have changed, if they match the filter. */
      readonly tasks: readonly TaskRow[];
      /** Visible tasks that are gone or don't match the filter any more. */
      readonly gone: readonly string[];
    };

export interface QueueInfo {
  readonly tasks: number;
  /** Since when the first of them is due. */
  readonly oldestDueAt?: string;
}

export interface TaskRequest {
  readonly taskId: string;
  /** The next page: checkpoints below this sequence. */
  readonly beforeSequence?: number;
  /** At most 1,000; default 200. */
  readonly limit?: number;
}

export interface TaskAnswer {
  readonly now: string;
  readonly task: TaskRow;
  /** Newest first. */
  readonly checkpoints: readonly CheckpointRow[];
  /** For the next page; missing if this is the last one. */
  readonly beforeSequence?: number;
  readonly damage: readonly DamageInfo[];
  readonly warnings: readonly string[];
  readonly commands: readonly Command[];
}

export interface CheckpointRow {
  readonly id: string;
  readonly sequence: number;
  readonly createdAt: string;
  readonly status: Status | "unknown";
  readonly stage?: string;
  readonly label?: string;
  /** Missing: the checkpoint before it. Otherwise the one that it continues, which may be gone: draw a branch. */
  readonly parentId?: string;
  /** The checkpoint of another task that this task began with, by `fork`. */
  readonly forkedFrom?: { readonly taskId: string; readonly id: string };
  readonly sizeBytes: number;
  readonly stateVersion: number;
  /** `passing`: an auto-save or a step, which the next one replaces. */
  readonly kind: "milestone" | "passing";
  readonly isOfRun: boolean;
  readonly error?: string;
}

/** Everything for the waterfall and the plots of a task. */
export interface TimelineAnswer {
  readonly now: string;
  /** By start. */
  readonly steps: readonly TimelineStep[];
  /** The starts and resumes of the task's runs, oldest first. */
  readonly attempts: readonly TimelineAttempt[];
  /** Saved states that aren't steps, oldest first: milestones, forks, pauses, ends. */
  readonly marks: readonly TimelineMark[];
  /** A point per checkpoint, oldest first: sequence, createdAt in ms since 1970, bytes. At most the newest 2,000. */
  readonly saves: readonly (readonly [sequence: number, atMs: number, bytes: number])[];
  /** Why some steps are missing: the configuration can't open the states. */
  readonly keyMissing?: ErrorInfo;
  readonly damage: readonly DamageInfo[];
}

export interface TimelineStep {
  readonly name: string;
  /** Its number among the steps of that name in its pass. */
  readonly occurrence: number;
  /** `model 2`. */
  readonly title: string;
  readonly pass: number;
  /** Changes with a restart, a fork or a rewind. */
  readonly generation: string;
  readonly startedAt: string;
  /** Missing if the step isn't finished. */
  readonly durationMs?: number;
  /** How often it was tried. */
  readonly attempts?: number;
  /** The attempt of the run that ran it. */
  readonly runAttempt: number;
  /** `storage`: a later attempt took the recorded result. `ran`: none has, so far. */
  readonly from: "ran" | "storage";
  /** It is a wait, for a time or for a signal. */
  readonly waitsFor?: "sleep" | "signal";
  /** `started`: not finished, or killed. `saved`: a `run.save`, not a step. */
  readonly status: "started" | "completed" | "failed" | "saved";
  readonly error?: string;
  /** The newest checkpoint that records it. */
  readonly checkpointId: string;
  readonly sequence: number;
}

export interface TimelineAttempt {
  readonly generation: string;
  readonly attempt: number;
  /** When its first step or save began, as far as known. */
  readonly startedAt?: string;
  /** When it was last seen. */
  readonly lastSeenAt?: string;
  /**
   * `killed`: it ended without saying so, and another attempt followed or its lease lapsed. `interrupted`: killed or
   * paused; the checkpoint that said which was replaced. `waited`: it stopped while it waited, and the next attempt ended
   * the wait. `unknown`: it runs without a lease, or has ended.
   */
  readonly end: "running" | "completed" | "failed" | "paused" | "killed" | "interrupted" | "waited" | "unknown";
  /** The runner, for the last attempt, if known. */
  readonly runner?: RunnerInfo;
  readonly error?: string;
}

export interface TimelineMark {
  readonly kind: "milestone" | "auto-save" | "branch" | "paused" | "failed" | "completed";
  readonly at: string;
  readonly id: string;
  readonly sequence: number;
  readonly stage?: string;
  readonly label?: string;
  /** `branch`: the sequence of the checkpoint that it continues, if that still exists. */
  readonly fromSequence?: number;
  readonly error?: string;
}

export interface SignalsAnswer {
  readonly now: string;
  readonly waits: readonly WaitInfo[];
  /** The last 100, the newest first. */
  readonly signals: readonly SignalInfo[];
  /** Why the signals have no values: the configuration can't open them. */
  readonly keyMissing?: ErrorInfo;
  readonly damage: readonly DamageInfo[];
}

/** A wait of a run that hasn't ended. */
export interface WaitInfo {
  readonly kind: "sleep" | "signal";
  /** The name of the sleep, or of the signal. */
  readonly name: string;
  readonly since: string;
  /** When a sleep ends, or the time limit of a wait for a signal. */
  readonly until?: string;
  /** The command that answers a wait for a signal. Its value stands for `…`. */
  readonly command?: string;
}

export interface SignalInfo {
  readonly id: string;
  readonly name: string;
  /** The sender. */
  readonly by?: string;
  readonly sentAt: string;
  readonly status: "pending" | "received" | "refused";
  /** Missing if it has none, or can't be opened. */
  readonly value?: Typed;
  /** Why it was refused. */
  readonly error?: string;
}

export type TaskMessage =
  | { readonly kind: "open"; readonly now: string }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  /** The task was removed. It may come back: the watch goes on. */
  | { readonly kind: "gone"; readonly now: string }
  | {
      readonly kind: "change";
      readonly now: string;
      readonly task: TaskRow;
      /** The newest checkpoints as they are now, newest first, at most 50. Replace what is shown at their sequences. */
      readonly checkpoints: readonly CheckpointRow[];
    };

export interface CheckpointRequest {
  readonly taskId: string;
  /** Default: the newest that can be read. */
  readonly id?: string;
}

export interface CheckpointAnswer {
  readonly now: string;
  readonly taskId: string;
  /** The task's name for people. */
  readonly name: string;
  readonly checkpoint: CheckpointRow;
  /** Its neighbours by sequence, for moving through the history. */
  readonly before?: { readonly id: string; readonly sequence: number };
  readonly after?: { readonly id: string; readonly sequence: number };
  readonly metadata?: Typed;
  /** The error of its status. */
  readonly error?: ErrorInfo;
  /** The subgraph of a LangGraph thread; empty for the graph itself. Missing outside threads. */
  readonly namespace?: string;
  readonly asks: readonly string[];
  readonly run?: RunInfo;
  /** Missing if it can't be opened: then `keyMissing` says why. */
  readonly state?: Typed;
  readonly keyMissing?: ErrorInfo;
  readonly runner?: RunnerInfo;
  readonly damage: readonly DamageInfo[];
  readonly commands: readonly Command[];
}

export interface RunInfo {
  readonly generation: string;
  readonly attempt: number;
  readonly pass: number;
  readonly isPassOver: boolean;
  readonly version?: string | number;
  readonly input?: Typed;
  readonly result?: Typed;
  readonly steps: readonly RunStep[];
}

export interface RunStep extends Omit<TimelineStep, "checkpointId" | "sequence" | "generation" | "pass" | "error"> {
  /** Left out once the pass is over. */
  readonly result?: Typed;
  readonly error?: Typed;
}

/**
 * A value with its type. null, booleans, finite numbers and short texts stand for themselves; anything else is an array
 * whose first item names its kind.
 *
 * Nodes with children have them cut: `more` is how many follow the given ones, 0 if none. `closed` stands for a whole
 * node that wasn't sent, because it is deep or the answer is long. The query `state` gives more of both.
 */
export type Typed =
  | null
  | boolean
  | number
  | string
  | readonly ["text", first: string, length: number]
  | readonly ["object", entries: readonly (readonly [key: string, value: Typed])[], more: number]
  | readonly ["array", items: readonly Typed[], more: number]
  | readonly ["map", entries: readonly (readonly [key: Typed, value: Typed])[], more: number]
  | readonly ["set", items: readonly Typed[], more: number]
  | readonly ["error", entries: readonly (readonly [key: string, value: Typed])[], more: number]
  | readonly ["closed", kind: "object" | "array" | "map" | "set" | "error", children: number]
  /** ISO 8601, or `Invalid Date`. */
  | readonly ["date", text: string]
  | readonly ["bigint", digits: string]
  /** `NaN`, `Infinity`, `-Infinity`, `-0`. */
  | readonly ["number", text: string]
  | readonly ["undefined"]
  | readonly ["regexp", text: string]
  | readonly ["url", href: string]
  /** `type` is `Uint8Array`, `ArrayBuffer`, …; `start` is the first 1,024 bytes in base64. */
  | readonly ["bytes", type: string, sizeBytes: number, start: string];

/**
 * A place in a state: at each level the position of the child, from 0. A map's child is a value, in the map's order. An
 * error's children are name, message, stack, cause and its own properties, as they are listed. So a path is unambiguous
 * whatever the keys are. The text for people and for `waymark show --path` is made by `formatPath` in
 * cli/src/state-path.ts, of keys and indexes.
 */
export type StatePath = readonly number[];

export interface StateRequest {
  readonly taskId: string;
  readonly id: string;
  readonly path: StatePath;
  /** The first child to give, for the rest of a long list. For a text: the first unit. Default 0. */
  readonly from?: number;
}

export interface StateAnswer {
  /** The node at the path. With `from`, its children begin there. A text is given whole from there, up to 1,000,000 units. */
  readonly value: Typed;
  /** The path as text: `messages[3].role`. */
  readonly text: string;
}

export interface SearchRequest {
  readonly taskId: string;
  readonly id: string;
  /** Found in keys and in values as they are shown, ignoring case. */
  readonly text: string;
}

export interface SearchAnswer {
  /** At most 500, in the state's order. */
  readonly found: readonly {
    readonly path: StatePath;
    readonly text: string;
    readonly in: "key" | "value";
    /** The value, cut. */
    readonly value: Typed;
  }[];
  /** True if there are more. */
  readonly isCut: boolean;
  /** Found beside the state, in the run's record and in the error. `text` says where: `run.steps[1].result.url`. */
  readonly besides: readonly { readonly text: string; readonly value: Typed }[];
}

export interface DiffRequest {
  readonly taskId: string;
  /** Default: the one before `to`. */
  readonly from?: string;
  readonly to: string;
}

export interface DiffAnswer {
  readonly from: CheckpointRow;
  readonly to: CheckpointRow;
  /** The first 2,000. */
  readonly changes: readonly Change[];
  readonly total: number;
  /** What changed beside the state, for people: `status running → failed`, `+ model · 3.1 s`. */
  readonly besides: readonly string[];
  readonly commands: readonly Command[];
}

export type Change = {
  /** In the new state; of a removed or moved part, in the old one. */
  readonly path: readonly (string | number)[];
  readonly text: string;
} & (
  | { readonly kind: "added"; readonly to: Typed }
  | { readonly kind: "removed"; readonly from: Typed }
  | { readonly kind: "changed"; readonly from: Typed; readonly to: Typed }
  | { readonly kind: "moved"; readonly toIndex: number }
);

/** As `RetentionPolicy` in the library. */
export interface Policy {
  readonly keepLast?: number | undefined;
  readonly keepWithinMs?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  readonly keepStages?: readonly string[] | undefined;
  readonly timeZone?: string | undefined;
  readonly maxAgeMs?: number | undefined;
  readonly maxBytes?: number | undefined;
}

export interface RetentionRequest {
  /** Default: every task. */
  readonly taskId?: string;
  /** Default: the configured one. */
  readonly policy?: Policy;
}

export interface RetentionAnswer {
  /** For `prune`, which applies exactly this plan. The server remembers the last few. */
  readonly planId: string;
  readonly policy: Policy;
  readonly plannedAt: string;
  readonly total: PlanCounts & { readonly tasks: number };
  /** The tasks that would lose something, by name; the first 500. */
  readonly tasks: readonly (PlanCounts & { readonly taskId: string; readonly name: string })[];
  /** With `taskId`: every checkpoint, newest first. */
  readonly checkpoints?: readonly PlannedRow[];
  /** For people: that LangGraph's threads are left out, for example. */
  readonly warnings: readonly string[];
  readonly damage: readonly DamageInfo[];
  readonly commands: readonly Command[];
}

export interface PlanCounts {
  readonly keep: number;
  readonly remove: number;
  readonly keepBytes: number;
  readonly removeBytes: number;
}

export interface PlannedRow {
  readonly checkpoint: CheckpointRow;
  readonly stays: boolean;
  /** At least one. */
  readonly reasons: readonly string[];
}

export type VerifyMessage =
  | {
      readonly kind: "progress";
      readonly tasks: number;
      readonly checkpoints: number;
      readonly bytes: number;
      readonly findings: number;
    }
  | { readonly kind: "failed"; readonly error: ErrorInfo }
  | {
      readonly kind: "done";
      readonly tasks: number;
      readonly checkpoints: number;
      readonly bytes: number;
      /** The first 1,000. */
      readonly findings: readonly Finding[];
      readonly total: number;
    };

export interface Finding extends DamageInfo {
  readonly kind: "damaged" | "leftover" | "refused" | "merged";
  /** When it was saved or last written, if known. */
  readonly at?: string;
}

export interface StorageAnswer {
  readonly name: string;
  readonly kind: string;
  readonly isDurable: boolean;
  readonly isMultiProcess: boolean;
  /** The storage's size on the disk; missing if unknown. */
  readonly bytesOnDisk?: number;
  /** Missing if the storage has none. */
  readonly quarantine?: {
    /** A folder or a table. */
    readonly place: string;
    readonly total: number;
    /** The newest 200. */
    readonly records: readonly QuarantinedRecord[];
  };
  readonly commands: readonly Command[];
}

export interface QuarantinedRecord {
  /** The file, or the table and row. */
  readonly location: string;
  readonly reason?: string;
  /** When it was moved. */
  readonly at?: string;
  readonly taskId?: string;
  readonly sequence?: number;
  readonly id?: string;
  readonly sizeBytes?: number;
}

/** `force`: change the task even while somebody runs it. */
interface Forced {
  readonly force?: boolean;
}

export interface ForkRequest extends Forced {
  readonly taskId: string;
  readonly id: string;
  readonly newTaskId: string;
}

export interface RewindRequest extends Forced {
  readonly taskId: string;
  readonly id: string;
}

export interface CompleteRequest extends Forced {
  readonly taskId: string;
  /** The newest as the question showed it. */
  readonly expectedSequence: number;
}

export interface DeleteRequest extends Forced {
  readonly taskId: string;
  /** Only this checkpoint. Without it the whole task goes. */
  readonly id?: string;
}

export interface SignalRequest {
  readonly taskId: string;
  readonly name: string;
  /** Default: none. */
  readonly value?: Json;
  /** Default: the session's `sender`. */
  readonly by?: string;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface SentAnswer {
  readonly id: string;
  /** Whether the task's run waited for it. Otherwise it is kept. */
  readonly isAwaited: boolean;
}

export interface CancelRequest {
  readonly taskId: string;
  /** For people. */
  readonly reason: string;
}

export interface PruneRequest {
  readonly planId: string;
}

export interface ChangedAnswer {
  readonly taskId: string;
  readonly checkpoint: CheckpointRow;
}

export interface RemovedAnswer {
  readonly removed: number;
  readonly removedBytes?: number;
  /** Tasks that could not be pruned. */
  readonly failed: readonly { readonly taskId: string; readonly error: ErrorInfo }[];
}

export interface RepairAnswer {
  readonly steps: readonly {
    readonly action: "quarantined" | "removed" | "left";
    readonly finding: Finding;
    /** Where it is now, or why it was left. */
    readonly text: string;
  }[];
  readonly commands: readonly Command[];
}
