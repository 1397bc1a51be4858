/** One step of a pass, as a run's checkpoint has it. */
export interface StepRecord {
  readonly name: string;
  /** How often that name came in its pass: from 1. */
  readonly occurrence: number;
  /** `started`: of `atMostOnce`, or under way at a kill. `saved`: a milestone of `run.save`, under its stage. */
  readonly status: "started" | "completed" | "failed" | "saved";
  /** ISO 8601 in UTC. */
  readonly startedAt: string;
  /** From the first attempt's beginning to the last one's end. */
  readonly durationMs?: number;
  readonly attempts?: number;
  /** Which attempt of the run has recorded it. */
  readonly runAttempt: number;
  /** A completed step's result as it is stored: no schema has decoded it. Once the pass is over, it is left out. */
  readonly result?: unknown;
  /** A failed step's error. Once the pass is over, it is left out. */
  readonly error?: unknown;
}

/** A run as its checkpoint records it. */
export interface RunRecord {
  /** The id of the checkpoint that the run began with: another one after `restart`, a fork or a rewind. */
  readonly generation: string;
  /** How often the run was started or resumed, from 1. */
  readonly attempt: number;
  /** How often its function began at its top, by `run.next`, from 1. */
  readonly pass: number;
  /** Its pass is over: `run.next` or the run's end. A resume begins the next pass. */
  readonly isPassOver: boolean;
  readonly version?: string | number;
  readonly input?: unknown;
  /** The function's result, if this checkpoint ends the run. */
  readonly result?: unknown;
  /** The steps of its pass, in the order of their ends. */
  readonly steps: readonly StepRecord[];
}

/** A step's place in its pass as people read it: `model`, `model 2`. */
export function stepTitle(name: string, occurrence: number): string {
  return occurrence === 1 ? name : `${name} ${occurrence}`;
}

/** A step for people: `model 2 · 3.1 s`. */
export function stepText({
  name,
  occurrence,
  durationMs,
  status,
}: Omit<StepRecord, "runAttempt" | "startedAt">): string {
  const title = stepTitle(name, occurrence);
  const time =
    durationMs === undefined
      ? ""
      : ` · ${durationMs < 1000 ? `${durationMs} ms` : `${(durationMs / 1000).toFixed(1)} s`}`;
  return `${title}${time}${status === "failed" ? " · failed" : ""}`;
}
