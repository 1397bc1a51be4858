import type { CheckpointManager } from "waymark";

/** An event of a worker or of one of its tasks. */
export type WorkEvent =
  | { readonly type: "taken"; readonly taskId: string; readonly attempt: number; readonly recordedSteps: number }
  | { readonly type: "completed"; readonly taskId: string }
  | { readonly type: "paused"; readonly taskId: string; readonly reason: string }
  /**
   * `failed`: the run's function threw, which is recorded. `stopped`: the run lost its lease, met another writer, or
   * couldn't save. `refused`: the task can't be started, for example because its run has another version.
   */
  | {
      readonly type: "failed" | "stopped" | "refused";
      readonly taskId: string;
      /** The step whose error ended the run. */
      readonly step?: string;
      readonly error: WorkError;
    }
  /** The worker can't look for tasks. It tries again. */
  | { readonly type: "error"; readonly error: WorkError };

interface WorkError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
}

/** Shows what happens to the tasks of one worker. */
export class WorkEvents {
  readonly #show: (event: WorkEvent) => void;
  /** How a run ended, kept until its error arrives. */
  readonly #ends = new Map<string, "failed" | "stopped">();
  readonly #underWay = new Set<string>();
  /** The step that threw each error. A run ends with the same error object. */
  readonly #stepOf = new WeakMap<object, string>();

  constructor(manager: CheckpointManager, show: (event: WorkEvent) => void) {
    this.#show = show;
    manager.on("runStarted", ({ taskId, attempt, recordedSteps }) => {
      this.#underWay.add(taskId);
      show({ type: "taken", taskId, attempt, recordedSteps });
    });
    manager.on("stepEnded", ({ step, error }) => {
      if (typeof error === "object" && error !== null) this.#stepOf.set(error, step);
    });
    manager.on("runPaused", ({ taskId, error }) => {
      this.#underWay.delete(taskId);
      show({ type: "paused", taskId, reason: describeError(error).message });
    });
    manager.on("runEnded", ({ taskId, status }) => {
      this.#underWay.delete(taskId);
      if (status === "completed") show({ type: "completed", taskId });
      else this.#ends.set(taskId, status);
    });
  }

  /** The tasks whose runs haven't ended. */
  get underWay(): readonly string[] {
    return [...this.#underWay];
  }

  /** For `onError` of `manager.work`. */
  readonly failed = (error: unknown, taskId: string | undefined): void => {
    if (taskId === undefined) {
      this.#show({ type: "error", error: describeError(error) });
      return;
    }
    const step = typeof error === "object" && error !== null ? this.#stepOf.get(error) : undefined;
    const type = this.#ends.get(taskId) ?? "refused";
    this.#ends.delete(taskId);
    this.#show({ type, taskId, ...(step !== undefined && { step }), error: describeError(error) });
  };
}

/** Like {@link workLine}, but only for events that have an error. */
export function failureLine(event: WorkEvent): string | undefined {
  return "error" in event ? workLine(event) : undefined;
}

/** Describes an event in one line: `taken mail/42, attempt 2, 3 steps recorded`. */
export function workLine(event: WorkEvent): string {
  switch (event.type) {
    case "taken": {
      const { taskId, attempt, recordedSteps } = event;
      const again = attempt === 1 ? "" : `, attempt ${attempt}`;
      return `taken ${taskId}${again}${recordedSteps === 0 ? "" : `, steps recorded: ${recordedSteps}`}`;
    }
    case "completed":
      return `completed ${event.taskId}`;
    case "paused":
      return `paused ${event.taskId}: ${shortened(event.reason)}`;
    case "error":
      return `can't look for tasks: ${event.error.message}`;
    default: {
      const { type, taskId, step, error } = event;
      return `${type} ${taskId}${step === undefined ? "" : ` in ${step}`}: ${error.message}`;
    }
  }
}

/** Removes from a message of the SDK what the line already shows. */
function shortened(reason: string): string {
  const [, after] = reason.startsWith("The run of task ") ? reason.split(" was paused: ", 2) : [];
  const [why = ""] = after === undefined ? [reason] : after.split(". ", 1);
  // The aborted signal is the one that drains the worker.
  return why === "its signal was aborted" ? "this worker is stopping" : why;
}

function describeError(error: unknown): WorkError {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name, message } = error;
  return { name, message, ...("code" in error && typeof error.code === "string" && { code: error.code }) };
}
