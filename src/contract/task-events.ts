import type { CheckpointFailure } from "./checkpoint.js";
import type { StepRecord } from "./run-record.js";

/** An event that was sent to a task. */
export interface TaskEvent<Value = unknown> extends NonNullable<StepRecord["event"]> {
  readonly name: string;
  /** The value that was sent; `undefined` if none was. A wait with a schema receives the decoded value. */
  readonly value: Value;
  /** `pending`: no wait has received it yet. `refused`: the schema of a wait refused its value. */
  readonly status: "pending" | "received" | "refused";
  /** Set for a pending event that was sent to one wait: the wait's key, and whether the wait is open now. */
  readonly wait?: { readonly key: string; readonly isOpen: boolean };
  /** The reason for a refusal. */
  readonly error?: CheckpointFailure;
}

/** The options of `manager.send`. */
export interface SendOptions {
  /**
   * Unique in the task, for example a webhook's id. An event that is sent again with the same id counts once. Default:
   * a new id.
   */
  readonly id?: string | undefined;
  /** The sender, for people. */
  readonly by?: string | undefined;
  /** The key of the wait to answer: see `StepRecord.key`. Default: the next wait with the event's name. */
  readonly wait?: string | undefined;
  /**
   * Sends the event even if the task is completed or cancelled, or `wait` isn't open. The event is kept for a run with
   * `restart`, or for a retry that begins the wait again. Default false.
   */
  readonly force?: boolean | undefined;
}
