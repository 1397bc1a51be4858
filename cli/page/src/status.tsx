import type { CheckpointRow, RunnerInfo } from "../../src/ui/api-parts.js";
import type { TaskRow } from "../../src/ui/api-tasks.js";
import { agoText } from "../../src/words.js";
import { durationText } from "./times.js";

type Shown = TaskRow["status"] | "damaged" | "saved";

/** Returns a checkpoint's status: `cancelled` if a cancellation recorded the checkpoint. */
export function shownStatus({ status, isCancelled }: Pick<CheckpointRow, "status" | "isCancelled">): Shown {
  return isCancelled ? "cancelled" : status;
}

/** Shows a status by shape, word and colour. */
export function StatusMark({ status, isChip = false }: { readonly status: Shown; readonly isChip?: boolean }) {
  return (
    <span class={`status ${status}${isChip ? " chip" : ""}`}>
      <svg viewBox="0 0 14 14" aria-hidden="true">
        {SHAPES[status]}
      </svg>
      {status}
    </span>
  );
}

const STROKE = { fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linecap": "round" } as const;

const CROSS = <path d="M3 3l8 8M11 3l-8 8" {...STROKE} />;

const CLOCK = (
  <>
    <circle cx="7" cy="7" r="5.5" {...STROKE} />
    <path d="M7 4v3l2 1.5" {...STROKE} />
  </>
);

const SHAPES = {
  running: <path d="M3.5 2l8 5-8 5z" fill="currentColor" />,
  paused: <path d="M4.5 3v8M9.5 3v8" {...STROKE} />,
  completed: <path d="M2.5 7.5l3 3 6-7" {...STROKE} />,
  failed: CROSS,
  cancelled: CROSS,
  interrupted: (
    <>
      <circle cx="7" cy="7" r="5.5" {...STROKE} />
      <path d="M5 5l4 4M9 5l-4 4" {...STROKE} />
    </>
  ),
  damaged: <path d="M7 1.5l6 11H1zM7 5.5v3M7 10.6v.2" {...STROKE} stroke-width={1.6} stroke-linejoin="round" />,
  queued: <path d="M2.5 7h8M7.5 3.5L11 7l-3.5 3.5" {...STROKE} />,
  waiting: CLOCK,
  scheduled: CLOCK,
  saved: <path d="M7 1.5l5.5 5.5L7 12.5 1.5 7z" {...STROKE} stroke-linejoin="round" />,
  unknown: <path d="M4.8 5a2.2 2.2 0 1 1 3 2.1C7.2 7.4 7 7.8 7 8.5M7 11.2v.1" {...STROKE} />,
} as const;

/** Returns `model · started 3 minutes ago` for a step that runs, otherwise a text such as `plan · 12 ms`. */
export function placeText({ text, startedAt }: NonNullable<TaskRow["step"]>, nowMs: number): string {
  return startedAt === undefined ? text : `${text} · started ${agoText(startedAt, nowMs)}`;
}

/** Returns a text such as `lease: 28 s left`, `its lease has expired` or `its process has ended`. */
export function leaseText({ state, at }: RunnerInfo, nowMs: number): string {
  if (state === "died") return "its process has ended";
  if (state === "expired") return "its lease has expired";
  const leftMs = Date.parse(at) - nowMs;
  return leftMs <= 0 ? "its lease is due" : `lease: ${durationText(Math.ceil(leftMs / 1000) * 1000)} left`;
}
