import { RunPausedError } from "../contract/errors.js";
import { type DiagnosticsMessages, traced, tracing } from "../manager/tracing.js";
import type { Found } from "./standing.js";

type ToRun = Extract<Found, { readonly isCompleted: false }>;

/**
 * Runs an attempt, and publishes it on `waymark:run`. Its record keeps the `traceparent` that a subscriber gives, instead
 * of the former attempt's.
 */
export function tracedAttempt(
  taskId: string,
  found: ToRun,
  stop: AbortSignal,
  run: (found: ToRun) => Promise<unknown>,
): Promise<unknown> {
  const { traceparent: previousTraceparent, ...head } = found.standing.head;
  const runUnder = (traceparent: string | undefined) =>
    run({
      ...found,
      standing: { ...found.standing, head: { ...head, ...(traceparent === undefined ? undefined : { traceparent }) } },
    });
  if (!tracing.run.hasSubscribers) return runUnder(undefined);
  const { attempt, turn } = head;
  const context: DiagnosticsMessages["waymark:run"] = {
    taskId,
    attempt,
    turn,
    ...(previousTraceparent === undefined ? undefined : { previousTraceparent }),
  };
  return traced(
    tracing.run,
    context,
    () => runUnder(context.traceparent),
    () => ended("completed"),
    (thrown) => ended(thrown instanceof RunPausedError ? "paused" : stop.aborted ? "stopped" : "failed"),
  );
}

type Status = NonNullable<DiagnosticsMessages["waymark:run"]["status"]>;

function ended(status: Status): { readonly status: Status } {
  return { status };
}
