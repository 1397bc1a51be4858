import type { CheckpointFailure } from "./checkpoint.js";
import type { StepRecord } from "./run-record.js";

/** An event that was sent to a task. */
export interface TaskEvent<Value = unknown> extends NonNullable<StepRecord["event"]> {
  readonly name: string;
  /** What was sent with it; `undefined` if nothing was. To a wait with a schema, the value is decoded. */
  readonly value: Value;
  /** `pending`: no wait has received it yet. `refused`: the schema of a wait refused its value. */
  readonly status: "pending" | "received" | "refused";
  /** Of a pending event that was sent to one wait: that wait's key, and whether the wait is open now. */
  readonly wait?: { readonly key: string; readonly isOpen: boolean };
  /** Why it was refused. */
  readonly error?: CheckpointFailure;
}

/** The options of `manager.send`. */
export interface SendOptions {
  /** Unique in the task, for example a webhook's. Sent again with the same id, the event counts once. Default: a new id. */
  readonly id?: string | undefined;
  /** Who sends it, for people. */
  readonly by?: string | undefined;
  /** The key of the wait that it answers: see `StepRecord.key`. Default: it is for the next wait of its name. */
  readonly wait?: string | undefined;
  /**
   * Sends it although the task is completed or cancelled, or `wait` isn't open. It is kept for a run with `restart`, or
   * for a retry that begins that wait again. Default false.
   */
  readonly force?: boolean | undefined;
}
