import type {
  CancelRequest,
  ChangedAnswer,
  CompleteRequest,
  DeleteRequest,
  ForkRequest,
  PruneRequest,
  RemovedAnswer,
  RetryRequest,
  RewindRequest,
  SendRequest,
  SentAnswer,
} from "./api-actions.js";
import type {
  CancelChosenRequest,
  ChoiceAnswer,
  ChooseRequest,
  ChosenAnswer,
  FailuresAnswer,
  FailuresRequest,
  RetryChosenRequest,
} from "./api-choices.js";
import type { InboxAnswer } from "./api-inbox.js";
import type { Command, ErrorInfo } from "./api-parts.js";
import type { EventsAnswer, StepAnswer, TimelineAnswer } from "./api-runs.js";
import type {
  CheckpointAnswer,
  CheckpointRequest,
  DiffAnswer,
  DiffRequest,
  SearchAnswer,
  SearchRequest,
  StateAnswer,
  StateRequest,
} from "./api-states.js";
import type {
  Policy,
  RepairAnswer,
  RetentionAnswer,
  RetentionRequest,
  StorageAnswer,
  VerifyMessage,
} from "./api-storage.js";
import type {
  CountsAnswer,
  ExportAnswer,
  FamilyAnswer,
  TaskAnswer,
  TaskMessage,
  TaskRequest,
  TasksAnswer,
  TasksMessage,
  TasksRequest,
  WatchTasksRequest,
} from "./api-tasks.js";

/**
 * The requests that the page of `waymark ui` may send to its server. The requests and answers are in the files
 * api-*.ts. These files contain only types and import only each other, so that the page can compile against them in a
 * browser's environment.
 *
 * Each query is `POST /api/<name>` with a JSON body, and answers with JSON. A failed query answers with
 * {@link Failed}. The queries in {@link LiveQueries} answer with `text/event-stream`: each event's data is one JSON
 * message.
 */
export interface Queries {
  readonly session: Call<Record<string, never>, Session>;
  readonly tasks: Call<TasksRequest, TasksAnswer>;
  /** Counts all tasks. It takes about a second for 100,000 tasks, so request it once, not with each page of tasks. */
  readonly counts: Call<Record<string, never>, CountsAnswer>;
  /** All tasks that wait for a person. */
  readonly inbox: Call<Record<string, never>, InboxAnswer>;
  /** The failed tasks by message, for the list's filter. */
  readonly failures: Call<FailuresRequest, FailuresAnswer>;
  /** Chooses tasks for `retry-chosen`, `cancel-chosen` or `retention`. Changes nothing. */
  readonly choose: Call<ChooseRequest, ChoiceAnswer>;
  readonly task: Call<TaskRequest, TaskAnswer>;
  /** Reads the list of all tasks, so request it once for a task. */
  readonly family: Call<{ readonly taskId: string }, FamilyAnswer>;
  readonly export: Call<{ readonly taskId: string }, ExportAnswer>;
  readonly timeline: Call<{ readonly taskId: string }, TimelineAnswer>;
  /** A step of any turn: `record` is the sequence of its record. */
  readonly step: Call<{ readonly taskId: string; readonly record: number }, StepAnswer>;
  /** What a task's run waits for, and the events that were sent to it. */
  readonly events: Call<{ readonly taskId: string }, EventsAnswer>;
  readonly checkpoint: Call<CheckpointRequest, CheckpointAnswer>;
  readonly state: Call<StateRequest, StateAnswer>;
  readonly search: Call<SearchRequest, SearchAnswer>;
  readonly diff: Call<DiffRequest, DiffAnswer>;
  readonly retention: Call<RetentionRequest, RetentionAnswer>;
  readonly storage: Call<Record<string, never>, StorageAnswer>;
  /** The steps that a repair would take. */
  readonly "repair-plan": Call<Record<string, never>, RepairAnswer>;
  // The following queries change something. Without `--write`, they answer with status 403 and code "READ_ONLY".
  readonly fork: Call<ForkRequest, ChangedAnswer>;
  readonly rewind: Call<RewindRequest, ChangedAnswer>;
  readonly complete: Call<CompleteRequest, ChangedAnswer>;
  readonly delete: Call<DeleteRequest, RemovedAnswer>;
  readonly send: Call<SendRequest, SentAnswer>;
  readonly cancel: Call<CancelRequest, { readonly cancelled: number }>;
  readonly retry: Call<RetryRequest, { readonly retried: number }>;
  readonly "retry-chosen": Call<RetryChosenRequest, ChosenAnswer>;
  readonly "cancel-chosen": Call<CancelChosenRequest, ChosenAnswer>;
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

/** The body of an answer whose status isn't 200. */
export interface Failed {
  readonly error: ErrorInfo;
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
  /** False if the storage has no leases, so that it isn't known who runs a task. */
  readonly hasLeases: boolean;
  /** The sender of events, unless the request names one: `ada@build-box`. */
  readonly sender: string;
  /** The clock of the server, ISO 8601 in UTC. */
  readonly now: string;
  /** The configuration's file, if there is one. */
  readonly configFile?: string;
  /** Why the configuration can't be used. Without it, states with a transform can't be opened. */
  readonly configError?: ErrorInfo;
  /** The configuration's retention policy. */
  readonly retention?: Policy;
  readonly commands: readonly Command[];
}
