import type { Logger } from "waymark";

/** A workstream in the list at the beginning of a run. */
export interface ListedWorkstream {
  readonly id: string;
  readonly command: string;
  readonly dependsOn: readonly string[];
  /** The absolute path of the Markdown file that describes the workstream, if there is one. */
  readonly file?: string;
  /** True if an earlier run completed the workstream, or its file marks it as completed. This run skips it. */
  readonly completed: boolean;
}

/** Why and how a workstream failed. */
export interface WorkstreamFailure {
  readonly workstream: string;
  /** Null if the command couldn't be started, or a signal ended it. */
  readonly exitCode: number | null;
  /** The signal that ended the command, if any. */
  readonly signal: NodeJS.Signals | null;
  /** A short text: `exited with 3`. */
  readonly reason: string;
  /** The last lines of the output, stdout and stderr together; see `tailLines`. */
  readonly outputTail: readonly string[];
  readonly durationMs: number;
}

/**
 * The events of a run, in order. A workstream's `workstreamStarted` is followed by its `output`, and by exactly one of
 * `workstreamFinished`, `workstreamFailed` and `workstreamStopped`. If its command can't be started, only
 * `workstreamFailed` follows. Each event is emitted once its change is in the checkpoint on disk.
 */
export type OneshotEvent =
  | {
      readonly type: "runStarted";
      readonly feature: string;
      readonly agentId: string;
      /** True if the run continues from a checkpoint. */
      readonly resumed: boolean;
      readonly jobs: number;
      /** The plan's file, relative to the base folder. Absent if the plan was passed as an object. */
      readonly plan?: string;
      /** The workstreams in the plan's order. */
      readonly workstreams: readonly ListedWorkstream[];
    }
  | { readonly type: "workstreamStarted"; readonly workstream: string }
  | {
      readonly type: "output";
      readonly workstream: string;
      readonly stream: "stdout" | "stderr";
      /** The line without its line break. A line of more than 64 Ki characters is split into several events. */
      readonly line: string;
    }
  | { readonly type: "workstreamFinished"; readonly workstream: string; readonly durationMs: number }
  | ({ readonly type: "workstreamFailed" } & WorkstreamFailure)
  /** The workstream was ended early, because the run was paused or can't continue. A resumed run starts it again. */
  | { readonly type: "workstreamStopped"; readonly workstream: string; readonly durationMs: number }
  | {
      readonly type: "runEnded";
      /** The checkpoint's status. After `completed` there is no checkpoint. */
      readonly status: "completed" | "failed" | "paused";
      readonly completed: readonly string[];
      readonly durationMs: number;
    };

export type OneshotListener = (event: OneshotEvent) => void;

/** Wraps the listener, so that the run continues if the listener throws or rejects. */
export function safeListener(listener: OneshotListener | undefined, logger: Logger): OneshotListener {
  let hasThrown = false;
  const report = (error: unknown, { type }: OneshotEvent) => {
    if (!hasThrown) logger.error({ error }, `The listener threw at ${type}; the run continues`);
    hasThrown = true;
  };
  return (event) => {
    try {
      // Nothing waits for an asynchronous listener, but its rejection must be handled.
      Promise.resolve<unknown>(listener?.(event)).catch((error: unknown) => report(error, event));
    } catch (error) {
      report(error, event);
    }
  };
}
