import { channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { isError, readCode } from "../contract/errors.js";

/** The fields that the contexts of all tracing channels have. */
export interface TracedCall {
  /**
   * The error's name and code, if the call failed. The error's message isn't given, since it may quote the program's
   * data.
   */
  error?: { readonly name: string; readonly code?: string };
  /**
   * A subscriber of `start` may set this to a function that calls `work` and returns its result. So the call runs
   * inside the subscriber's own context, as with `bindStore` for an `AsyncLocalStorage`.
   */
  around?: <Result>(work: () => Result) => Result;
}

/**
 * What Waymark publishes on channels of `node:diagnostics_channel`, by the channel's name. The first six are tracing
 * channels: subscribe with `tracingChannel`. Their optional fields are set when the call has ended, unless documented
 * otherwise. The last two are plain channels.
 *
 * States, metadata, labels, results and the messages of errors are never published.
 *
 * @example
 * ```ts
 * import { tracingChannel } from "node:diagnostics_channel";
 * import type { DiagnosticsMessages } from "waymark";
 *
 * tracingChannel<unknown, DiagnosticsMessages["waymark:save"]>("waymark:save").subscribe({
 *   start() {},
 *   end() {},
 *   asyncStart() {},
 *   asyncEnd: ({ taskId, sizeBytes, error }) => console.log(taskId, sizeBytes, error?.code ?? "stored"),
 *   error() {},
 * });
 * ```
 */
export interface DiagnosticsMessages {
  /** The storage appends a checkpoint: of a `save`, an auto-save, a run, a fork or a rewind. */
  "waymark:save": TracedCall &
    Pick<CheckpointSummary, "taskId" | "id" | "stage" | "status" | "sizeBytes"> &
    Partial<Pick<CheckpointSummary, "sequence">>;
  /** A call of `latest`. The optional fields are those of the checkpoint that was found. */
  "waymark:latest": TracedCall &
    Pick<CheckpointSummary, "taskId"> &
    Partial<Pick<CheckpointSummary, "id" | "stage" | "status" | "sizeBytes" | "sequence">>;
  /** An attempt of a run, from its start to its end. */
  "waymark:run": TracedCall & {
    readonly taskId: string;
    readonly attempt: number;
    readonly turn: number;
    /**
     * The `traceparent` of the attempt that saved the checkpoint from which this attempt resumes. Set from the start.
     */
    readonly previousTraceparent?: string;
    /** A subscriber of `start` may set this to the W3C trace context of its span. The run's checkpoints keep it. */
    traceparent?: string;
    /**
     * `stopped` means that the attempt lost its lease, met another writer's checkpoint, or couldn't save; then nothing
     * more is recorded.
     */
    readonly status?: "completed" | "failed" | "paused" | "stopped";
  };
  /** A step's function with its retries, until its result or error is stored. Recorded steps aren't published. */
  "waymark:step": TracedCall & {
    readonly taskId: string;
    readonly attempt: number;
    readonly turn: number;
    /** The step's name, with a number from the second occurrence on: `model 2`. */
    readonly step: string;
  };
  /** A claim of a task's lease, or a worker's claim of the next tasks that are due. */
  "waymark:claim": TracedCall & {
    readonly holder: string;
    /** Set from the start; not set for a worker's claim. */
    readonly taskId?: string;
    /** The lease's token; not set for a worker's claim. */
    readonly token?: number;
    /** The prefix of a worker's claim. Set from the start. */
    readonly prefix?: string;
    /** The tasks that a worker has claimed. Empty if none is due. */
    readonly taskIds?: readonly string[];
  };
  /** A retention policy removes checkpoints. */
  "waymark:prune": TracedCall & {
    readonly taskId: string;
    /** `retention`: after a save. `request`: a call of the manager. */
    readonly by: "retention" | "request";
    /** The number of removed checkpoints. */
    readonly removed?: number;
  };
  /**
   * A call found a record that can't be read, and left it untouched. Published each time that a call finds the record.
   */
  "waymark:damaged": { readonly taskId?: string; readonly id?: string; readonly sequence?: number };
  /** A lease ended without a release: it expired, or another runner has claimed the task. */
  "waymark:lease-lost": { readonly taskId: string; readonly holder: string; readonly token: number };
}

/** The tracing channels. Where time matters, check `hasSubscribers` before {@link traced}. */
export const tracing = {
  save: openTracing("waymark:save"),
  latest: openTracing("waymark:latest"),
  run: openTracing("waymark:run"),
  step: openTracing("waymark:step"),
  claim: openTracing("waymark:claim"),
  prune: openTracing("waymark:prune"),
};

const damaged = channel("waymark:damaged");
const leaseLost = channel("waymark:lease-lost");

/**
 * Publishes a call like Node's `tracePromise`. But the context gets neither the result nor the error, since they may
 * contain the program's data.
 *
 * @param work - Mustn't throw, but may reject.
 * @param facts - Returns the context's fields that are known once the call has succeeded. `failure` returns those that
 *   are known once it has failed.
 */
export function traced<Context extends TracedCall, Result>(
  channels: TracingChannel<unknown, Context>,
  context: NoInfer<Context>,
  work: () => Promise<Result>,
  facts?: (result: Result) => Partial<NoInfer<Context>>,
  failure?: (thrown: unknown) => Partial<NoInfer<Context>>,
): Promise<Result> {
  if (!channels.hasSubscribers) return work();
  const { start, end, error, asyncStart, asyncEnd } = channels;
  const publishEnd = (): void => {
    asyncStart.publish(context);
    asyncEnd.publish(context);
  };
  return start.runStores(context, () => {
    const working = context.around === undefined ? work() : context.around(work);
    end.publish(context);
    return working.then(
      (result) => {
        Object.assign(context, facts?.(result));
        publishEnd();
        return result;
      },
      (thrown: unknown) => {
        Object.assign(context, failure?.(thrown), { error: tracedError(thrown) });
        error.publish(context);
        publishEnd();
        throw thrown;
      },
    );
  });
}

export function publishDamage({ taskId, id, sequence }: DiagnosticsMessages["waymark:damaged"]): void {
  damaged.publish({
    ...(taskId === undefined ? undefined : { taskId }),
    ...(id === undefined ? undefined : { id }),
    ...(sequence === undefined ? undefined : { sequence }),
  } satisfies DiagnosticsMessages["waymark:damaged"]);
}

export function publishLostLease({ taskId, holder, token }: DiagnosticsMessages["waymark:lease-lost"]): void {
  leaseLost.publish({ taskId, holder, token } satisfies DiagnosticsMessages["waymark:lease-lost"]);
}

/** Returns the fields of a checkpoint that contexts have. */
export function tracedFields({
  taskId,
  id,
  stage,
  status,
  sizeBytes,
}: Pick<CheckpointSummary, "taskId" | "id" | "stage" | "status" | "sizeBytes">): DiagnosticsMessages["waymark:save"] {
  return { taskId, id, ...(stage === undefined ? undefined : { stage }), status, sizeBytes };
}

function tracedError(thrown: unknown): NonNullable<TracedCall["error"]> {
  const code = readCode(thrown);
  return { name: isError(thrown) ? thrown.name : typeof thrown, ...(code === "" ? undefined : { code }) };
}

function openTracing<Name extends keyof DiagnosticsMessages>(name: Name) {
  return tracingChannel<unknown, DiagnosticsMessages[Name]>(name);
}
