import { type Logger, safeLogger } from "../../src/manager/logger.js";

/** A workstream as a list shows it when a run begins. */
export interface ListedWorkstream {
  readonly id: string;
  readonly command: string;
  readonly dependsOn: readonly string[];
  /** An earlier run has completed it: this one passes over it. */
  readonly completed: boolean;
}

/** Why and how a workstream failed. */
export interface WorkstreamFailure {
  readonly workstream: string;
  /** Null where it couldn't be started, or a signal ended it. */
  readonly exitCode: number | null;
  /** What ended it, where a signal did. */
  readonly signal: NodeJS.Signals | null;
  /** In a few words: `exited with 3`. */
  readonly reason: string;
  /** The last lines of its output, stdout and stderr together; see `tailLines`. */
  readonly outputTail: readonly string[];
  readonly durationMs: number;
}

/**
 * What happens in a run, in order. A workstream's `workstreamStarted` is followed by its `output`, and by exactly one
 * of `workstreamFinished`, `workstreamFailed` and `workstreamStopped`; one that couldn't be started has only the
 * failure. What is told as started, finished or failed is so in the checkpoint on disk already.
 */
export type OneshotEvent =
  | {
      readonly type: "runStarted";
      readonly feature: string;
      readonly agentId: string;
      /** It goes on from a checkpoint. */
      readonly resumed: boolean;
      readonly jobs: number;
      /** The plan's file, seen from the base folder; absent where it came as an object. */
      readonly plan?: string;
      /** In the plan's order. */
      readonly workstreams: readonly ListedWorkstream[];
    }
  /** A killed run had left it running; it was ended before anything else was done. */
  | { readonly type: "orphanEnded"; readonly workstream: string; readonly pid: number }
  | { readonly type: "workstreamStarted"; readonly workstream: string; readonly pid: number }
  | {
      readonly type: "output";
      readonly workstream: string;
      readonly stream: "stdout" | "stderr";
      /** Without its line break. One of more than 64 Ki characters comes in pieces. */
      readonly line: string;
    }
  | { readonly type: "workstreamFinished"; readonly workstream: string; readonly durationMs: number }
  | ({ readonly type: "workstreamFailed" } & WorkstreamFailure)
  /** It was ended before it was done, and will be run again: the run was paused, or can't go on. */
  | { readonly type: "workstreamStopped"; readonly workstream: string; readonly durationMs: number }
  | {
      readonly type: "runEnded";
      /** What the checkpoint says; at `completed` it is gone. */
      readonly status: "completed" | "failed" | "paused";
      readonly completed: readonly string[];
      readonly durationMs: number;
    };

export type OneshotListener = (event: OneshotEvent) => void;

/** Tells a listener, such that one which throws or rejects fails no run: what is shown must not decide what is done. */
export function safeListener(listener: OneshotListener | undefined, logger: Logger): OneshotListener {
  let hasThrown = false;
  const report = (error: unknown, { type }: OneshotEvent) => {
    if (!hasThrown) safeLogger(logger).error({ error }, `The listener threw at ${type}; the run goes on`);
    hasThrown = true;
  };
  return (event) => {
    try {
      // Nobody waits for it; but if it is asynchronous, its failure would have no other listener.
      const returned: unknown = listener?.(event);
      if (returned instanceof Promise) returned.catch((error: unknown) => report(error, event));
    } catch (error) {
      report(error, event);
    }
  };
}
