import type { TimelineStep } from "../../src/ui/api-runs.js";
import { usageText } from "../../src/usage.js";
import type { TimelineItem } from "./folds.js";
import { useNow } from "./queries.js";
import { StoredText } from "./stored-text.js";
import { type TimeScale, timeScale } from "./time-scale.js";
import { tookText, triesOf } from "./timeline-rows.js";
import { offsetText } from "./times.js";

interface TimelineProps {
  readonly items: readonly TimelineItem[];
  /** The key of the selected item. */
  readonly selected: string | undefined;
  readonly onSelect: (item: TimelineItem) => void;
}

/** Shows a task's turns and steps over time. Each turn has its own scale. */
export function Timeline({ items, selected, onSelect }: TimelineProps) {
  const nowMs = useNow(1000);
  const isLive = items.some((item) => item.kind === "step" && item.isRunning);
  if (items.length === 0) {
    return <p class="empty">No run is recorded. Tasks that manager.run runs show their steps here.</p>;
  }
  return (
    <ol class={`timeline${items.some((item) => item.kind === "step" && item.step.usage) ? " has-usage" : ""}`}>
      {withScales(isLive ? items.map((item) => endingNow(item, nowMs)) : items).map(({ item, scale }) => (
        <li key={item.key} class={toneOf(item)}>
          <button
            type="button"
            data-key={item.key}
            aria-current={item.key === selected ? "true" : undefined}
            aria-expanded={item.kind === "fold" ? item.isOpen : undefined}
            onClick={() => onSelect(item)}
          >
            <Content item={item} scale={scale} />
          </button>
        </li>
      ))}
    </ol>
  );
}

function Content({ item, scale }: { readonly item: TimelineItem; readonly scale: TimeScale }) {
  if (item.kind === "more") return <span class="soft">{item.title}</span>;
  if (item.kind === "fold") {
    return (
      <>
        <strong class="what">
          {item.isOpen ? "▾" : "▸"} {item.title}
          {item.hasFailed && !item.isOpen && <span class="bad"> ✗</span>}
        </strong>
        <span class="totals soft">{item.totals}</span>
      </>
    );
  }
  if (item.kind === "event") {
    return (
      <>
        <span class="what">
          {item.title}
          {item.more !== undefined && (
            <span class="soft">
              {" "}
              <StoredText text={item.more} />
            </span>
          )}
        </span>
        <span class="usage" />
        <span class="took soft">{offsetText(item.atMs - scale.startMs)}</span>
        <span class="lane" aria-hidden="true" style={{ background: drawFolds(scale) }}>
          <i class="mark" style={{ left: percent(scale.at(item.atMs)) }} />
        </span>
      </>
    );
  }
  const { step, isOpen } = item;
  const note = noteOf(step, isOpen);
  return (
    <>
      <span class="what">
        <StoredText text={step.title} />
        {note !== "" && <span class="soft"> {note}</span>}
      </span>
      <span class="usage soft">{step.usage && usageText(step.usage)}</span>
      <span class="took soft">{tookText(item)}</span>
      <span class="lane" aria-hidden="true" style={{ background: drawFolds(scale) }}>
        {triesOf(item).map(({ startMs, endMs }) => (
          <i
            key={startMs}
            class={`bar-of-step${isOpen ? " open" : ""}${step.from === "storage" ? " kept" : ""}`}
            style={{ left: percent(scale.at(startMs)), width: percent(scale.at(endMs) - scale.at(startMs)) }}
          />
        ))}
      </span>
    </>
  );
}

/**
 * Returns a note such as `failed`, `waited · from storage` or `waits · attempt 2`; empty for a step that ran in attempt
 * 1.
 */
function noteOf({ status, from, waitsFor, hasTimedOut, runAttempt }: TimelineStep, isOpen: boolean): string {
  const wait = isOpen ? "waits" : hasTimedOut ? "timed out" : "waited";
  const state = status === "failed" ? "failed" : waitsFor !== undefined ? wait : "";
  const origin = from === "storage" && status !== "failed" ? "from storage" : "";
  return [state, origin, runAttempt > 1 ? `attempt ${runAttempt}` : ""].filter((part) => part !== "").join(" · ");
}

function toneOf(item: TimelineItem): string {
  if (item.kind === "fold" || item.kind === "more") return item.kind;
  if (item.kind === "event") return `event ${item.tone}`;
  const { status, from } = item.step;
  if (status === "failed" || status === "interrupted") return "failed";
  if (item.isRunning && item.step.waitsFor === undefined) return "running";
  return item.isOpen ? "paused" : from === "storage" ? "saved" : "completed";
}

/** Moves the end of a running step to the current time. */
function endingNow(item: TimelineItem, nowMs: number): TimelineItem {
  return item.kind === "step" && item.isRunning ? { ...item, endMs: Math.max(item.endMs, nowMs) } : item;
}

/** Adds the time scales: the rows below each fold share one. */
function withScales(items: readonly TimelineItem[]) {
  let scale = timeScale([]);
  return items.map((item, index) => {
    const isFirst = index === 0 || items[index - 1]?.kind === "fold";
    if (isFirst && item.kind !== "fold") {
      const next = items.findIndex(({ kind }, other) => other > index && kind === "fold");
      scale = timeScale(items.slice(index, next === -1 ? undefined : next).flatMap(spanOf));
    }
    return { item, scale };
  });
}

function spanOf(item: TimelineItem): readonly { readonly startMs: number; readonly endMs: number }[] {
  if (item.kind === "step") return [{ startMs: item.atMs, endMs: item.endMs }];
  return item.kind === "event" ? [{ startMs: item.atMs, endMs: item.atMs }] : [];
}

/** Returns a background that marks the long pauses that the scale leaves out. */
function drawFolds({ folds }: TimeScale): string {
  const lines = "repeating-linear-gradient(90deg, var(--line) 0 1px, transparent 1px 4px)";
  // A background position of 100 % puts the background's end at the end of the box.
  return folds
    .map(({ left, width }) => `${lines} ${percent(left / (1 - width))} / ${percent(width)} 100% no-repeat`)
    .join();
}

function percent(part: number): string {
  return `${(part * 100).toFixed(2)}%`;
}
