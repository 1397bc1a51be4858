import { runText } from "../codec/run-body.js";
import { checkKeys, keysOf } from "../contract/arguments.js";
import type { CheckpointSummary } from "../contract/checkpoint.js";
import { CheckpointConflictError } from "../contract/errors.js";
import { checkDate } from "./run-options.js";
import { type StandingHost, standingOf } from "./standing.js";

/** The options of `manager.enqueue`. */
export interface EnqueueOptions {
  readonly dueAt?: Date | undefined;
}

/**
 * Saves a run that no attempt has begun, so that a worker takes it.
 *
 * @returns The saved checkpoint; `undefined` if the task has a run with the same input already.
 * @throws {RunMismatchError} The task has a run with another input.
 */
export async function enqueueRun(
  host: StandingHost,
  input: unknown,
  { dueAt }: EnqueueOptions,
): Promise<CheckpointSummary | undefined> {
  for (;;) {
    const found = await standingOf(host, { input, ifVersionChanged: "resume" });
    if (found.isCompleted || found.isOfRun) return undefined;
    const { head, steps: _steps, sequence, transientId: replaces, stage, ...texts } = found.standing;
    const waits = dueAt && { dueAt: dueAt.toISOString(), waitsFor: [] };
    const options = { status: "paused", label: "Enqueued", stage } as const;
    const draft = host.writer.draftOfRun(host.taskId, options, { replaces }, waits);
    const { generation, attempt } = head;
    const begun = {
      ...head,
      id: draft.id,
      generation: generation || draft.id,
      attempt: attempt - 1,
      isTurnOver: false,
    };
    const how = { replaces, isRepeated: false };
    try {
      return await host.writer.appendOfRun(
        draft,
        runText({ head: begun, ...texts }, ""),
        { expectedSequence: sequence },
        how,
      );
    } catch (error) {
      // Somebody saved meanwhile, perhaps the same task. So this looks again.
      if (!(error instanceof CheckpointConflictError)) throw error;
    }
  }
}

export function checkEnqueueOptions(options: EnqueueOptions): void {
  checkKeys("EnqueueOptions", options, keysOf<EnqueueOptions>({ dueAt: true }));
  if (options.dueAt !== undefined) checkDate("EnqueueOptions.dueAt", options.dueAt);
}
