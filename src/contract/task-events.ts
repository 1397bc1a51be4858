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
  readonly id?: string | undefined;
  readonly by?: string | undefined;
  readonly wait?: string | undefined;
}
