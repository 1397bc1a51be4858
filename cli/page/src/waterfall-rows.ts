import type { TimelineAnswer, TimelineAttempt, TimelineMark, TimelineStep } from "../../src/ui/api-runs.js";
import { durationText } from "./times.js";

export type WaterfallRow =
  | { readonly kind: "turn"; readonly key: string; readonly atMs: number; readonly title: string }
  | {
      readonly kind: "step";
      readonly key: string;
      readonly step: TimelineStep;
      readonly atMs: number;
      readonly endMs: number;
      /** The step isn't finished: it runs, waits, or was killed. */
      readonly isOpen: boolean;
    }
  | {
      readonly kind: "event";
      readonly key: string;
      readonly atMs: number;
      /** Of a checkpoint. */
      readonly sequence?: number;
      readonly tone: "failed" | "paused" | "completed" | "saved" | "running";
      readonly title: string;
      readonly more?: string;
      readonly checkpointId?: string;
    };

/** A task's runs from top to bottom: turns, their steps, and what happened between. */
export function waterfallRows(timeline: TimelineAnswer): WaterfallRow[] {
  const { steps, attempts, marks, now } = timeline;
  const nowMs = Date.parse(now);
  const rows = [
    ...steps
      // A milestone that still exists has a mark of its own.
      .filter((step) => step.status !== "saved" || !marks.some((mark) => isOf(mark, step)))
      .map((step, index) => stepRow(step, index, attempts, nowMs)),
    ...attempts.flatMap(attemptRows),
    ...marks.flatMap(markRows),
    ...damageRows(timeline),
  ].sort((a, b) => a.atMs - b.atMs || compareInMoment(a, b));
  return withTurns(rows);
}

/** Whether a mark is the checkpoint that a `run.save` made. */
function isOf({ kind, stage = "", at }: TimelineMark, { name, startedAt }: TimelineStep): boolean {
  return kind === "milestone" && stage === name && Math.abs(Date.parse(at) - Date.parse(startedAt)) < SAME_SAVE_MS;
}

/** Between the two times that are noted of one save. */
const SAME_SAVE_MS = 1000;

/** In the order of the log, as far as that is known. */
function compareInMoment(a: WaterfallRow, b: WaterfallRow): number {
  const [before, after] = [sequenceOf(a), sequenceOf(b)];
  return before !== undefined && after !== undefined && before !== after ? before - after : rankRow(a) - rankRow(b);
}

function sequenceOf(row: WaterfallRow): number | undefined {
  return row.kind === "step" ? row.step.record : row.kind === "event" ? row.sequence : undefined;
}

/** At the same moment: an attempt begins and a milestone is there before the next step, and an end comes last. */
function rankRow(row: WaterfallRow): number {
  if (row.kind !== "event") return 1;
  if (row.key.startsWith("damage")) return 3;
  return row.tone === "running" || row.tone === "saved" ? 0 : 2;
}

function stepRow(step: TimelineStep, index: number, attempts: readonly TimelineAttempt[], nowMs: number): WaterfallRow {
  const key = `step ${index}`;
  const atMs = Date.parse(step.startedAt);
  if (step.status === "saved") {
    const title = step.name === "" ? "saved" : `saved ${step.name}`;
    return { kind: "event", key, atMs, tone: "saved", title, checkpointId: step.checkpointId };
  }
  if (step.durationMs !== undefined)
    return { kind: "step", key, step, atMs, endMs: atMs + step.durationMs, isOpen: false };
  const attempt = attempts.find(
    ({ generation, attempt }) => generation === step.generation && attempt === step.runAttempt,
  );
  const endMs = attempt?.end === "running" ? nowMs : Date.parse(attempt?.lastSeenAt ?? step.startedAt);
  return { kind: "step", key, step, atMs, endMs: Math.max(atMs, endMs), isOpen: true };
}

function attemptRows({ attempt, startedAt, lastSeenAt, end, runner }: TimelineAttempt, index: number): WaterfallRow[] {
  const rows: WaterfallRow[] = [];
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

/** Completed, failed and paused runs have a mark of their own. */
const ENDS: Partial<Record<TimelineAttempt["end"], { readonly text: string; readonly tone: "failed" | "paused" }>> = {
  killed: { text: "was killed", tone: "failed" },
  interrupted: { text: "was interrupted: killed or paused", tone: "paused" },
  waited: { text: "stopped while it waited", tone: "paused" },
};

function markRows(mark: TimelineMark): WaterfallRow[] {
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
      key: `mark ${sequence}`,
      atMs: Date.parse(at),
      sequence,
      tone,
      title,
      checkpointId: id,
      ...(more === undefined ? {} : { more }),
    },
  ];
}

/** What can't be read has no time: it stands after the save before it. */
function damageRows({ damage, saves, now }: TimelineAnswer): WaterfallRow[] {
  return damage.flatMap(({ sequence, id }) => {
    if (sequence === undefined) return [];
    const [, atMs] = saves.findLast(([before]) => before < sequence) ?? saves[0] ?? [0, Date.parse(now)];
    const title = `⚠ @${sequence} can't be read`;
    const link = id === undefined ? {} : { checkpointId: id };
    return [{ kind: "event", key: `damage ${sequence}`, atMs, tone: "failed", title, ...link } as const];
  });
}

/** Heads each turn, if there is more than one. */
function withTurns(rows: readonly WaterfallRow[]): WaterfallRow[] {
  const turnOf = (row: WaterfallRow) => (row.kind === "step" ? `${row.step.generation} ${row.step.turn}` : undefined);
  if (new Set(rows.map(turnOf).filter((turn) => turn !== undefined)).size < 2) return [...rows];
  let current: string | undefined;
  return rows.flatMap((row) => {
    const turn = turnOf(row);
    if (row.kind !== "step" || turn === current) return [row];
    current = turn;
    return [{ kind: "turn", key: `turn of ${row.key}`, atMs: row.atMs, title: `Turn ${row.step.turn}` }, row];
  });
}

/** `3.1 s, 2 tries`, `not finished`. */
export function tookText(row: Extract<WaterfallRow, { kind: "step" }>): string {
  const { attempts = 1 } = row.step;
  const time = row.isOpen ? "not finished" : durationText(row.endMs - row.atMs);
  return attempts > 1 ? `${time}, ${attempts} tries` : time;
}
