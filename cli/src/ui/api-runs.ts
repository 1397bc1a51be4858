import type { Usage } from "../usage.js";
import type { Json } from "./api-actions.js";
import type { DamageInfo, ErrorInfo, RunnerInfo, Typed } from "./api-parts.js";

/** Everything for the timeline and the plots of a task. */
export interface TimelineAnswer {
  readonly now: string;
  /** Ordered by start. */
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
  /** The step's number among the steps of the same name in its turn. */
  readonly occurrence: number;
  /** `model 2`. */
  readonly title: string;
  readonly turn: number;
  /** Changes with a restart, a fork or a rewind. */
  readonly generation: string;
  readonly startedAt: string;
  /** Missing if the step isn't finished. */
  readonly durationMs?: number;
  /** How many times the step was tried. */
  readonly attempts?: number;
  /** The attempt of the run that ran the step. */
  readonly runAttempt: number;
  /**
   * `storage`: a later attempt reused the recorded result. `ran`: no later attempt has reused it so far, or it is a
   * wait.
   */
  readonly from: "ran" | "storage";
  /** Set if the step is a wait, for a time or for an event. */
  readonly waitsFor?: "sleep" | "event";
  /** What an open wait asks people. */
  readonly question?: string;
  /** Set if the step is a wait for an event that its time limit ended. */
  readonly hasTimedOut?: true;
  /** `started`: not finished, or killed. `saved`: a `run.save`, not a step. */
  readonly status: "started" | "completed" | "failed" | "interrupted" | "saved";
  readonly error?: string;
  readonly usage?: Usage;
  /** The first checkpoint after the step or, if there is none, the newest one. */
  readonly checkpointId: string;
  readonly sequence: number;
  /** The sequence of the step's own record. */
  readonly record: number;
  /** When this attempt of the run tried the step again. */
  readonly retriedAt?: readonly string[];
}

/** What is recorded about a step. */
export interface StepAnswer extends Pick<RunStep, "title" | "status" | "startedAt" | "durationMs" | "attempts"> {
  readonly record: number;
  readonly runAttempt: number;
  /** The digest of the step's input. The input itself isn't recorded. */
  readonly inputDigest?: string;
  readonly result?: Typed;
  readonly error?: ErrorInfo;
  /** The newest chunks, oldest first. */
  readonly chunks: readonly { readonly attempt: number; readonly value: Typed }[];
}

export interface TimelineAttempt {
  readonly generation: string;
  readonly attempt: number;
  /** When the attempt's first step or save began, if known. */
  readonly startedAt?: string;
  /** When the attempt was last seen. */
  readonly lastSeenAt?: string;
  /**
   * `killed`: the attempt recorded no end, and another attempt followed or its lease lapsed. `interrupted`: it was
   * killed or paused, but the checkpoint that showed which was replaced. `waited`: it stopped during a wait that the
   * next attempt ended. `unknown`: it runs without a lease, or has ended.
   */
  readonly end: "running" | "completed" | "failed" | "paused" | "killed" | "interrupted" | "waited" | "unknown";
  /** The runner, for the last attempt, if known. */
  readonly runner?: RunnerInfo;
  readonly error?: string;
}

export interface TimelineMark {
  readonly kind: "milestone" | "auto-save" | "branch" | "paused" | "failed" | "cancelled" | "completed";
  readonly at: string;
  readonly id: string;
  readonly sequence: number;
  readonly stage?: string;
  readonly label?: string;
  /** For a `branch`: the sequence of the checkpoint that it continues, if it still exists. */
  readonly fromSequence?: number;
  readonly error?: string;
}

export interface EventsAnswer {
  readonly now: string;
  readonly waits: readonly WaitInfo[];
  /** The input of a run that waits. */
  readonly input?: Typed;
  /** The last 100, the newest first. */
  readonly events: readonly EventInfo[];
  /** Why the events have no values: the configuration can't open them. */
  readonly keyMissing?: ErrorInfo;
  readonly damage: readonly DamageInfo[];
}

/** An open wait of a run. */
export interface WaitInfo {
  readonly kind: "sleep" | "event";
  /** The name of the sleep, or of the event. */
  readonly name: string;
  readonly since: string;
  /** When a sleep ends, or the time limit of a wait for an event. */
  readonly until?: string;
  /**
   * The key of a wait for an event: the `wait` of the request `send`. Missing if the configuration can't open the run.
   */
  readonly key?: string;
  /** An event of this name is pending: the run receives the event once a process continues the run. */
  readonly isAnswered?: true;
  /** What the wait asks people. */
  readonly question?: string;
  /** The JSON Schema of the answer. */
  readonly schema?: Json;
  /** The command that answers a wait for an event. `…` stands for the value. Missing if the wait is answered. */
  readonly command?: string;
}

export interface EventInfo {
  readonly id: string;
  readonly name: string;
  /** The sender. */
  readonly by?: string;
  readonly sentAt: string;
  readonly status: "pending" | "received" | "refused";
  /** Set for a pending event that was sent to one wait. */
  readonly wait?: { readonly isOpen: boolean };
  /** Missing if the event has no value, or the configuration can't open it. */
  readonly value?: Typed;
  /** Why the event was refused. */
  readonly error?: string;
}

export interface RunInfo {
  readonly generation: string;
  readonly attempt: number;
  readonly turn: number;
  readonly isTurnOver: boolean;
  readonly version?: string | number;
  readonly input?: Typed;
  readonly result?: Typed;
  readonly steps: readonly RunStep[];
}

export interface RunStep
  extends Omit<TimelineStep, "checkpointId" | "sequence" | "record" | "generation" | "turn" | "error" | "usage"> {
  /** Left out once the turn is over. */
  readonly result?: Typed;
  readonly error?: Typed;
}
