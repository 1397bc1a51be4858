import { requireTask } from "../checkpoints.js";
import { readableSummaries } from "../read-stored.js";
import { readRun, stepName } from "../run-steps.js";
import type { QuerySession } from "../store.js";

/** A step of a task's runs. */
export interface TimedStep {
  readonly pass: number;
  readonly startedAt: string;
  /** `undefined` if the step isn't finished. */
  readonly durationMs: number | undefined;
  /** The step's name, attempts and duration, for people. */
  readonly step: string;
}

/** Returns all steps in a task's checkpoints, ordered by when they began. */
export async function readTimeline(
  session: QuerySession,
  { task }: { readonly task: string },
): Promise<readonly TimedStep[]> {
  const taskId = await requireTask(session, task);
  const found = new Map<string, TimedStep>();
  for await (const checkpoint of readableSummaries(session, { taskId, order: "oldest" })) {
    const run = await readRun(session, checkpoint);
    if (run === undefined) continue;
    for (const step of run.steps) {
      // Later checkpoints of a pass contain its earlier steps again.
      const { name, occurrence, startedAt, durationMs } = step;
      const timed = { pass: run.pass, startedAt, durationMs, step: stepName(step) };
      found.set(JSON.stringify([run.generation, run.pass, name, occurrence, startedAt]), timed);
    }
  }
  return [...found.values()].sort((a, b) => Date.parse(a.startedAt) - Date.parse(b.startedAt));
}
