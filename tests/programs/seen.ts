// What the processes of a program note, in lines outside of the store, which survive a SIGKILL.

/** A call of a run's function, in one process. */
interface Where {
  /** The attempt. No two have the same. */
  readonly life: string;
  readonly task: string;
  /** Of the run: a restart, a fork or a rewind begins another one. */
  readonly generation: string;
  /** How many turns the program had ended before. */
  readonly at: number;
  /** Lives with the same number have the same code. */
  readonly code: number;
}

export type Seen =
  | (Where & SeenInTurn)
  /** The call that ran the task, or the worker's attempt, has ended: its failure is recorded, or it has stopped. */
  | {
      readonly is: "ended";
      readonly life: string;
      readonly task: string;
      readonly how: "completed" | "failed" | "stopped";
    }
  | {
      readonly is: "sent";
      readonly task: string;
      readonly event: string;
      readonly id: string;
      readonly isBad: boolean;
      /** If it is for one wait: where that was called. */
      readonly wait?: Pick<Where, "generation" | "at"> & { readonly title: string };
    }
  /** An event without a schema's refusal, for the next wait of its name, is stored. */
  | {
      readonly is: "arrived";
      readonly task: string;
      readonly event: string;
      readonly id: string;
      readonly nowMs: number;
    }
  /** `manager.retry` has dropped the results from this step on. */
  | {
      readonly is: "dropped";
      readonly task: string;
      readonly generation: string;
      readonly at: number;
      readonly from: string;
    }
  /** A wait without a time limit has begun. */
  | { readonly is: "asked"; readonly task: string; readonly event: string }
  /** A wait or a sleep has begun, and its end is recorded. The turn is the run's. */
  | {
      readonly is: "waiting";
      readonly task: string;
      readonly generation: string;
      readonly turn: number;
      readonly title: string;
      readonly until: string;
    }
  /** A run ended with an error that nothing explains. */
  | { readonly is: "surprised"; readonly task: string; readonly error: string }
  /** The task fails in each life, and nothing runs again. */
  | { readonly is: "stuck"; readonly task: string }
  /** What has become of an event, once its task was completed. */
  | { readonly is: "event"; readonly task: string; readonly id: string; readonly status: string }
  /** A fork or a rewind is made, and nobody has noted what it takes along. */
  | { readonly is: "forked"; readonly task: string; readonly from: string }
  /** A fork or a rewind was made. */
  | {
      readonly is: "branched";
      readonly task: string;
      /** The same task if it was rewound. */
      readonly from: string;
      readonly generation: string;
      readonly at: number;
      /** Whether the run had ended. Then the branch begins a turn, with the newest state. */
      readonly isOver: boolean;
      /** The answers that it took along, by the titles of their calls, in the order of the log. */
      readonly carried: readonly (readonly [title: string, value: string])[];
      /** The events with a recorded receipt that may be taken back. */
      readonly undecided: readonly string[];
    };

/** Where a wait was called. */
export interface WaitPlace extends Pick<Where, "at"> {
  readonly title: string;
  readonly name: string;
}

export type Kind = "step" | "wait" | "save";

export type SeenInTurn =
  /** `input` is the run's; a child run has none. */
  | { readonly is: "began"; readonly attempt: number; readonly state: unknown; readonly input?: unknown }
  /** The function has made a call. */
  | {
      readonly is: "called";
      readonly title: string;
      readonly kind: Kind;
      readonly input: number | undefined;
    }
  /** The run's signal has aborted. A call is refused a turn of the event loop later, after results that are stored. */
  | { readonly is: "stopped"; readonly reason: string }
  /** It was refused, since the turn was over, or rejected, since the run has stopped. */
  | { readonly is: "refused"; readonly title: string; readonly isStopped: boolean }
  /** A step's function has begun. */
  | {
      readonly is: "body";
      readonly title: string;
      readonly attempt: number;
      readonly key: string;
      readonly isOnce: boolean;
      readonly input: number | undefined;
    }
  /** A step's function returned or threw this. */
  | {
      readonly is: "made";
      readonly title: string;
      readonly value: string;
      readonly input: number | undefined;
      /** How many chunks the call has written. */
      readonly chunks: number;
    }
  /** The function got the answer of a call. `nowMs`: at this time, if it is a wait or a sleep. */
  | {
      readonly is: "got";
      readonly title: string;
      readonly kind: Kind;
      readonly value: string;
      readonly isError: boolean;
      /** What the error keeps in all lives. */
      readonly error?: string;
      readonly nowMs?: number;
    }
  /** The function is about to save a milestone. */
  | { readonly is: "saving"; readonly state: unknown }
  | { readonly is: "next"; readonly state: unknown }
  | { readonly is: "returned"; readonly result: unknown }
  /** The function threw an error that contains those of these calls. */
  | { readonly is: "threw"; readonly titles: readonly string[] };

export type SeenWhere = Where;

/** Whether the run has stopped by then. What it answers from then on differs from life to life. */
export function isStop(line: Seen): boolean {
  return line.is === "stopped" || (line.is === "refused" && line.isStopped);
}
