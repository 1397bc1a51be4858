// The notes of a program's processes: lines outside the store, which survive a SIGKILL.

/** A call of a run's function, in one process. */
interface Where {
  /** The unique name of the attempt. */
  readonly life: string;
  readonly task: string;
  /** The run's generation. A restart, a fork or a rewind begins a new one. */
  readonly generation: string;
  /** The number of turns that the program had ended before. */
  readonly at: number;
  /** The version of the code. Lives with the same number have the same code. */
  readonly code: number;
}

export type Seen =
  | (Where & SeenInTurn)
  /** The call of `run` or the worker's attempt has ended: its failure is recorded, or it has stopped. */
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
      /** The place where the wait was called, if the event is for only one wait. */
      readonly wait?: Pick<Where, "generation" | "at"> & { readonly title: string };
    }
  /** An event for the next wait of its name is stored, and no schema refuses it. */
  | {
      readonly is: "arrived";
      readonly task: string;
      readonly event: string;
      readonly id: string;
      readonly nowMs: number;
    }
  /** `manager.retry` has dropped the results of this step and of all later ones. */
  | {
      readonly is: "dropped";
      readonly task: string;
      readonly generation: string;
      readonly at: number;
      readonly from: string;
    }
  /** A wait without a time limit has begun. */
  | { readonly is: "asked"; readonly task: string; readonly event: string }
  /** A wait or a sleep has begun, and its time limit is recorded. The turn is the run's. */
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
  /** The task fails in each life without running anything. */
  | { readonly is: "stuck"; readonly task: string }
  /** The status of an event after its task was completed. */
  | { readonly is: "event"; readonly task: string; readonly id: string; readonly status: string }
  /** A fork or a rewind was made without a note of what it copied. */
  | { readonly is: "forked"; readonly task: string; readonly from: string }
  /** A fork or a rewind was made. */
  | {
      readonly is: "branched";
      readonly task: string;
      /** The original task. After a rewind, it is the same task. */
      readonly from: string;
      readonly generation: string;
      readonly at: number;
      /** Whether the run had ended. If so, the branch begins a turn with the newest state. */
      readonly isOver: boolean;
      /** The answers that the branch copied, with the titles of their calls, in the order of the log. */
      readonly carried: readonly (readonly [title: string, value: string])[];
      /** The events whose recorded receipts may be undone. */
      readonly undecided: readonly string[];
    };

/** The place where a wait was called. */
export interface WaitPlace extends Pick<Where, "at"> {
  readonly title: string;
  readonly name: string;
}

export type Kind = "step" | "wait" | "save";

export type SeenInTurn =
  /** The function has begun. `input` is the run's; a child run has none. */
  | { readonly is: "began"; readonly attempt: number; readonly state: unknown; readonly input?: unknown }
  /** The function has made a call. */
  | {
      readonly is: "called";
      readonly title: string;
      readonly kind: Kind;
      readonly input: number | undefined;
    }
  /** The run's signal has aborted. A call is refused one turn of the event loop later, after stored results. */
  | { readonly is: "stopped"; readonly reason: string }
  /** A call was refused because the turn was over, or rejected because the run had stopped. */
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
  /** A step's function returned or threw this value. */
  | {
      readonly is: "made";
      readonly title: string;
      readonly value: string;
      readonly input: number | undefined;
      /** The number of chunks that the call has written. */
      readonly chunks: number;
    }
  /** The function got the answer of a call. `nowMs` is the time, noted for waits and sleeps. */
  | {
      readonly is: "got";
      readonly title: string;
      readonly kind: Kind;
      readonly value: string;
      readonly isError: boolean;
      /** The part of the error that is the same in all lives. */
      readonly error?: string;
      readonly nowMs?: number;
    }
  /** The function is about to save a milestone. */
  | { readonly is: "saving"; readonly state: unknown }
  | { readonly is: "next"; readonly state: unknown }
  | { readonly is: "returned"; readonly result: unknown }
  /** The function threw an error that contains the errors of these calls. */
  | { readonly is: "threw"; readonly titles: readonly string[] };

export type SeenWhere = Where;

/** Whether the line shows that the run has stopped. After a stop, the run's answers differ from life to life. */
export function isStop(line: Seen): boolean {
  return line.is === "stopped" || (line.is === "refused" && line.isStopped);
}
