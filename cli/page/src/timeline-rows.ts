import type { TimelineAnswer, TimelineAttempt, TimelineMark, TimelineStep } from "../../src/ui/api-runs.js";
import { sumUsage, type Usage } from "../../src/usage.js";
import { durationText } from "./times.js";

/** A row of the timeline. The key of a step's record or of a checkpoint is `@` and its sequence, such as `@7`. */
export type TimelineRow =
  | {
      readonly kind: "step";
      readonly key: string;
      readonly step: TimelineStep;
      readonly atMs: number;
      readonly endMs: number;
      /** The step isn't finished: it runs, waits, or was killed. */
      readonly isOpen: boolean;
      /** The step runs now, so its end moves. */
      readonly isRunning: boolean;
    }
  | {
      readonly kind: "event";
      readonly key: string;
      readonly atMs: number;
      /** The sequence of a checkpoint. */
      readonly sequence?: number;
      readonly tone: "failed" | "paused" | "completed" | "saved" | "running";
      readonly title: string;
      readonly more?: string;
      readonly checkpointId?: string;
    };

/** The rows of one turn. A task without runs is a single turn. */
export interface TurnRows {
  readonly key: string;
  readonly turn: number;
  readonly rows: readonly TimelineRow[];
  readonly steps: number;
  /** The time from the start of the first step to the end of the last one. */
  readonly ms: number;
  /** What its steps have used. */
  readonly usage?: Usage | undefined;
}

/** Returns the turns of a task's runs, with their steps and the events between them. */
export function turnRows(timeline: TimelineAnswer): TurnRows[] {
  const turns: { readonly id: string; readonly turn: number; readonly rows: TimelineRow[] }[] = [];
  let early: TimelineRow[] = [];
  for (const row of timelineRows(timeline)) {
    const last = turns.at(-1);
    if (row.kind !== "step") {
      (last?.rows ?? early).push(row);
      continue;
    }
    const { generation, turn } = row.step;
    const id = `${generation} ${turn}`;
    if (last?.id === id) last.rows.push(row);
    else {
      turns.push({ id, turn, rows: [...early, row] });
      early = [];
    }
  }
  if (early.length > 0) turns.push({ id: "", turn: 0, rows: early });
  return turns.map(({ turn, rows }, index) => {
    const steps = rows.filter((row) => row.kind === "step");
    const startMs = Math.min(...steps.map(({ atMs }) => atMs));
    const ms = steps.length === 0 ? 0 : steps.reduce((end, row) => Math.max(end, row.endMs), startMs) - startMs;
    const usage = sumUsage(steps.map(({ step }) => step.usage));
    return { key: `turn ${index}`, turn, rows, steps: steps.length, ms, usage };
  });
}

function timelineRows(timeline: TimelineAnswer): TimelineRow[] {
  const { steps, attempts, marks, now } = timeline;
  const nowMs = Date.parse(now);
  return [
    ...steps
      // A milestone that still exists has its own mark.
      .filter((step) => step.status !== "saved" || !marks.some((mark) => isOf(mark, step)))
      .map((step) => stepRow(step, attempts, nowMs)),
    ...attempts.flatMap(attemptRows),
    ...marks.flatMap(markRows),
    ...damageRows(timeline),
  ].sort((a, b) => a.atMs - b.atMs || compareInMoment(a, b));
}

/** Whether a mark is the checkpoint that a `run.save` made. */
function isOf({ kind, stage = "", at }: TimelineMark, { name, startedAt }: TimelineStep): boolean {
  return kind === "milestone" && stage === name && Math.abs(Date.parse(at) - Date.parse(startedAt)) < SAME_SAVE_MS;
}

/** The maximum difference between the two times that are recorded for one save. */
const SAME_SAVE_MS = 1000;

/** Compares two rows of the same moment: by their sequences in the log if both are known, or else by rank. */
function compareInMoment(a: TimelineRow, b: TimelineRow): number {
  const [before, after] = [sequenceOf(a), sequenceOf(b)];
  return before !== undefined && after !== undefined && before !== after ? before - after : rankRow(a) - rankRow(b);
}

function sequenceOf(row: TimelineRow): number | undefined {
  return row.kind === "step" ? row.step.record : row.kind === "event" ? row.sequence : undefined;
}

/** Ranks rows of the same moment: the start of an attempt and a milestone, then steps, then ends, then damage. */
function rankRow(row: TimelineRow): number {
  if (row.kind !== "event") return 1;
  if (row.key.startsWith("damage")) return 3;
  return row.tone === "running" || row.tone === "saved" ? 0 : 2;
}

function stepRow(step: TimelineStep, attempts: readonly TimelineAttempt[], nowMs: number): TimelineRow {
  const key = `@${step.record}`;
  const atMs = Date.parse(step.startedAt);
  if (step.status === "saved") {
    const title = step.name === "" ? "saved" : `saved ${step.name}`;
    return { kind: "event", key, atMs, tone: "saved", title, checkpointId: step.checkpointId };
  }
  if (step.durationMs !== undefined)
    return { kind: "step", key, step, atMs, endMs: atMs + step.durationMs, isOpen: false, isRunning: false };
  const attempt = attempts.find(
    ({ generation, attempt }) => generation === step.generation && attempt === step.runAttempt,
  );
  const isRunning = attempt?.end === "running";
  const endMs = isRunning ? nowMs : Date.parse(attempt?.lastSeenAt ?? step.startedAt);
  return { kind: "step", key, step, atMs, endMs: Math.max(atMs, endMs), isOpen: true, isRunning };
}

function attemptRows({ attempt, startedAt, lastSeenAt, end, runner }: TimelineAttempt, index: number): TimelineRow[] {
  const rows: TimelineRow[] = [];
  if (attempt > 1 && startedAt !== undefined) {
    rows.push({
      kind: "event",
      key: `start ${index}`,
      atMs: Date.parse(startedAt),
      tone: "running",
      title: `Attempt ${attempt} continues`,
    });
  }
  const ended = ENDS[end];
  if (ended !== undefined && lastSeenAt !== undefined) {
    const more = runner?.holder;
    rows.push({
      kind: "event",
      key: `end ${index}`,
      atMs: Date.parse(lastSeenAt),
      tone: ended.tone,
      title: `Attempt ${attempt} ${ended.text}`,
      ...(more === undefined ? {} : { more }),
    });
  }
  return rows;
}

/** The ends of attempts that have no mark. Completed, failed and paused runs have one. */
const ENDS: Partial<Record<TimelineAttempt["end"], { readonly text: string; readonly tone: "failed" | "paused" }>> = {
  killed: { text: "was killed", tone: "failed" },
  interrupted: { text: "was interrupted: killed or paused", tone: "paused" },
  waited: { text: "stopped while it waited", tone: "paused" },
};

function markRows(mark: TimelineMark): TimelineRow[] {
  const { kind, at, id, sequence, stage, label, fromSequence, error } = mark;
  const title = {
    milestone: `Saved @${sequence}`,
    "auto-save": `Auto-saved @${sequence}`,
    branch: fromSequence === undefined ? `Branch @${sequence}` : `Branch @${sequence} from @${fromSequence}`,
    paused: `Paused @${sequence}`,
    failed: `Failed @${sequence}`,
    cancelled: `Cancelled @${sequence}`,
    completed: `Completed @${sequence}`,
  }[kind];
  const tone =
    kind === "cancelled"
      ? "failed"
      : kind === "paused" || kind === "failed" || kind === "completed"
        ? kind
        : kind === "branch"
          ? "running"
          : "saved";
  const more = error ?? label ?? stage;
  return [
    {
      kind: "event",
      key: `@${sequence}`,
      atMs: Date.parse(at),
      sequence,
      tone,
      title,
      checkpointId: id,
      ...(more === undefined ? {} : { more }),
    },
  ];
}

/** Returns rows for damaged records. A damaged record has no time, so it gets the time of the save before it. */
function damageRows({ damage, saves, now }: TimelineAnswer): TimelineRow[] {
  return damage.flatMap(({ sequence, id }) => {
    if (sequence === undefined) return [];
    const [, atMs] = saves.findLast(([before]) => before < sequence) ?? saves[0] ?? [0, Date.parse(now)];
    const title = `⚠ @${sequence} can't be read`;
    const link = id === undefined ? {} : { checkpointId: id };
    return [{ kind: "event", key: `damage ${sequence}`, atMs, tone: "failed", title, ...link } as const];
  });
}

/** Returns one span of time for each try of a step. */
export function triesOf({ step, atMs, endMs }: Extract<TimelineRow, { kind: "step" }>): readonly TrySpan[] {
  const starts = [atMs, ...(step.retriedAt ?? []).map((at) => Date.parse(at))];
  return starts.map((startMs, index) => ({ startMs, endMs: starts[index + 1] ?? Math.max(startMs, endMs) }));
}

export interface TrySpan {
  readonly startMs: number;
  readonly endMs: number;
}

/** Returns how long a step took: `3.1 s, 2 tries`, `12 s so far` or `not finished`. */
export function tookText(row: Extract<TimelineRow, { kind: "step" }>): string {
  const { attempts = 1 } = row.step;
  const took = durationText(row.endMs - row.atMs);
  const time = row.isRunning ? `${took} so far` : row.isOpen ? "not finished" : took;
  return attempts > 1 ? `${time}, ${attempts} tries` : time;
}
