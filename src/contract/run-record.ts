/** One step of a turn, as it is recorded. */
export interface StepRecord {
  readonly name: string;
  /** Set for a wait: `sleep` for `run.sleepUntil`, `event` for `run.waitFor`. */
  readonly waitsFor?: "sleep" | "event";
  /** When a sleep ends, or the time limit of a wait for an event, in ISO 8601 UTC. */
  readonly until?: string;
  /** An open wait's question for people, and the answer's JSON Schema if the wait's schema provides one. */
  readonly ask?: { readonly question: string; readonly schema?: unknown };
  /** The key of an open wait for an event. `manager.send` with this key as `wait` answers this wait and no other. */
  readonly key?: string;
  /** The event that ended a wait. */
  readonly event?: {
    /** Unique among the task's events. */
    readonly id: string;
    /** The sender, as given to `manager.send`. */
    readonly by?: string;
    /** ISO 8601 in UTC. */
    readonly sentAt: string;
  };
  /** The number of this step among the steps of the same name in its turn, from 1. */
  readonly occurrence: number;
  /**
   * `started`: no end is recorded. `interrupted`: an `atMostOnce` step whose earlier attempt may or may not have done
   * its work. `saved`: a milestone of `run.save`; its stage is the `name`.
   */
  readonly status: "started" | "completed" | "failed" | "interrupted" | "saved";
  /** ISO 8601 in UTC. */
  readonly startedAt: string;
  /** The time from the start of the step's first call to the end of its last call, in this attempt of the run. */
  readonly durationMs?: number;
  readonly attempts?: number;
  /** The attempt of the run that recorded the step. */
  readonly runAttempt: number;
  /** A completed step's result in its stored form, not decoded by a schema. */
  readonly result?: unknown;
  /** A failed step's error. */
  readonly error?: unknown;
}

/** A run at one of its checkpoints. */
export interface RunRecord {
  /** The id of the run's first checkpoint. It changes with `restart`, a fork or a rewind. */
  readonly generation: string;
  /** The number of starts and resumes of the run, from 1. */
  readonly attempt: number;
  /** The number of the turn, from 1. `run.next` starts the next turn: the function begins again at its top. */
  readonly turn: number;
  /** True if the turn has ended, by `run.next` or at the end of the run. Then a resume begins the next turn. */
  readonly isTurnOver: boolean;
  readonly version?: string | number;
  /** The W3C trace context of the attempt that saved this, if a subscriber of `waymark:run` set one. */
  readonly traceparent?: string;
  readonly input?: unknown;
  /** The function's result, if the run ended with this checkpoint. */
  readonly result?: unknown;
  /**
   * The steps of the turn, in the order in which they ended. A step in progress is only listed if its start is
   * recorded.
   */
  readonly steps: readonly StepRecord[];
  /**
   * If the checkpoint is `failed`: the step whose error ended the run. The next run tries it again, so it isn't among
   * `steps`. Its error is the checkpoint's `error`.
   */
  readonly failedStep?: Required<
    Omit<StepRecord, "status" | "result" | "error" | "waitsFor" | "until" | "ask" | "key" | "event">
  >;
}

/** The error name of a run that kept crashing its workers. The steps that this run had started have no recorded end. */
export const ATTEMPTS_ERROR = "AttemptsError";

/** The name of the mark that an attempt records when it pauses. Unlike a step's mark, it has no occurrence. */
export const PAUSING = "pausing";

/** What a run's record belongs to: the content of its `recordKey`. */
export interface RunKey {
  readonly generation: string;
  readonly turn: number;
  /** The attempt of the run. */
  readonly attempt: number;
  /** The number of a step, a wait, or a milestone of `run.save` among those with the record's name. */
  readonly occurrence?: number | undefined;
  /** The sequence of the event that a wait has received or refused, or whose receipt was dropped. */
  readonly event?: number | undefined;
}

export function formatRunKey({ generation, turn, attempt, occurrence, event }: RunKey): string {
  if (occurrence === undefined) return JSON.stringify([generation, turn, attempt]);
  if (event === undefined) return JSON.stringify([generation, turn, attempt, occurrence]);
  return JSON.stringify([generation, turn, attempt, occurrence, event]);
}

/** Returns `undefined` if the record isn't a run's. */
export function parseRunKey({ recordKey = "" }: { readonly recordKey?: string | undefined }): RunKey | undefined {
  // Other records, such as events, may have keys of another form.
  if (!recordKey.startsWith("[")) return undefined;
  const [generation, turn, attempt, occurrence, event]: unknown[] = JSON.parse(recordKey);
  if (typeof generation !== "string" || typeof turn !== "number" || typeof attempt !== "number") return undefined;
  const number = (part: unknown) => (typeof part === "number" ? part : undefined);
  return { generation, turn, attempt, occurrence: number(occurrence), event: number(event) };
}

/** Returns a step's title for people: `model`, `model 2`. */
export function stepTitle(name: string, occurrence: number): string {
  return occurrence === 1 ? name : `${name} ${occurrence}`;
}

/**
 * Names failed steps that a later run doesn't try again, and says how to retry them; `undefined` if there are none.
 */
export function keptErrorsText(failed: readonly Pick<StepRecord, "name" | "occurrence">[]): string | undefined {
  if (failed.length === 0) return undefined;
  const titles = failed.slice(0, 5).map(({ name, occurrence }) => JSON.stringify(stepTitle(name, occurrence)));
  const more = failed.length > titles.length ? ` and ${failed.length - titles.length} more` : "";
  return (
    `The errors of ${titles.join(", ")}${more} stay recorded, because the function may have acted on them, so these steps ` +
    "aren't tried again. To retry them as well, throw `new AggregateError(errors)` with their errors."
  );
}

/**
 * Describes a step for people, with its duration: `model 2 · 3.1 s`, `deploy · 520 ms · failed after 3 tries`,
 * `approve · waits · May it go out?`, `pay · interrupted`.
 */
export function stepText({
  name,
  occurrence,
  durationMs,
  attempts = 1,
  status,
  waitsFor,
  ask,
}: Omit<StepRecord, "runAttempt" | "startedAt">): string {
  const title = stepTitle(name, occurrence);
  if (waitsFor !== undefined && status === "started") {
    return `${title} · ${waitsFor === "sleep" ? "sleeps" : "waits"}${ask ? ` · ${ask.question}` : ""}`;
  }
  const time =
    durationMs === undefined
      ? ""
      : ` · ${durationMs < 1000 ? `${durationMs} ms` : `${(durationMs / 1000).toFixed(1)} s`}`;
  const end = status === "failed" ? ` · failed${attempts === 1 ? "" : ` after ${attempts} tries`}` : "";
  return `${title}${time}${end}${status === "interrupted" ? " · interrupted" : ""}`;
}
