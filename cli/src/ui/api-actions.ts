import type { CheckpointRow, ErrorInfo } from "./api-parts.js";

/** `force`: change the task even while a process runs it. */
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
  /** The sequence of the newest checkpoint when the user was asked. */
  readonly expectedSequence: number;
}

export interface DeleteRequest extends Forced {
  readonly taskId: string;
  /** The only checkpoint to delete. Default: the whole task. */
  readonly id?: string;
}

export interface SendRequest {
  readonly taskId: string;
  readonly name: string;
  /** Default: none. */
  readonly value?: Json;
  /** Default: the session's `sender`. */
  readonly by?: string;
  /**
   * The key of the wait to answer. Refused if the wait has ended or is answered. Default: the next wait of the name.
   */
  readonly wait?: string;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface SentAnswer {
  readonly id: string;
  /** Whether the task's run waited for the event. If not, the event is kept. */
  readonly isAwaited: boolean;
}

export interface CancelRequest {
  readonly taskId: string;
  /** Shown to people. */
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

export interface RetryRequest {
  readonly taskId: string;
  /** Drops the recorded results of the current turn from this step on: `model 2`. */
  readonly from?: string;
}
