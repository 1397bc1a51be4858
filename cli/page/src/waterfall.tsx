import { useState } from "preact/hooks";
import type { TimelineAnswer, TimelineStep } from "../../src/ui/api-runs.js";
import { countText } from "../../src/words.js";
import { formatRoute } from "./route.js";
import { StoredText } from "./stored-text.js";
import { type TimeScale, timeScale } from "./time-scale.js";
import { durationText, offsetText, timeText } from "./times.js";
import { tookText, type WaterfallRow, waterfallRows } from "./waterfall-rows.js";

/** Rows that are drawn at first: the newest ones. */
const AT_FIRST = 300;

/** A task's runs and their steps over time. */
export function Waterfall({ taskId, timeline }: { readonly taskId: string; readonly timeline: TimelineAnswer }) {
  const [isWhole, setIsWhole] = useState(false);
  const all = waterfallRows(timeline);
  const rows = isWhole ? all : all.slice(-AT_FIRST);
  if (rows.length === 0) {
    return <p class="empty">No run is recorded. Tasks that manager.run runs show their steps here.</p>;
  }
  const scale = timeScale(
    rows.map((row) => ({ startMs: row.atMs, endMs: row.kind === "step" ? row.endMs : row.atMs })),
  );
  return (
    <>
      <p class="small soft waterfall-when">
        From {timeText(new Date(scale.startMs).toISOString()).slice(0, 19)} UTC,{" "}
        {durationText(scale.endMs - scale.startMs)}
        {scale.folds.length > 0 && "; long pauses are folded"}
      </p>
      {rows.length < all.length && (
        <p class="empty">
          <button type="button" onClick={() => setIsWhole(true)}>
            Show the {countText(all.length - rows.length)} rows before
          </button>
        </p>
      )}
      <table class="waterfall">
        <thead>
          <tr>
            <th scope="col" class="what">
              Step
            </th>
            <th scope="col" class="number took">
              Took
            </th>
            <th scope="col" class="from">
              Result
            </th>
            <th scope="col" class="number when">
              Began
            </th>
            <th scope="col" class="lane-cell">
              <span class="only-read">Drawn</span>
              <Axis scale={scale} />
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={row.key} row={row} scale={scale} taskId={taskId} />
          ))}
        </tbody>
      </table>
    </>
  );
}

interface RowProps {
  readonly row: WaterfallRow;
  readonly scale: TimeScale;
  readonly taskId: string;
}

function Row({ row, scale, taskId }: RowProps) {
  if (row.kind === "turn") {
    return (
      <tr class="turn">
        <th scope="rowgroup" colSpan={5}>
          {row.title}
        </th>
      </tr>
    );
  }
  const when = (
    <td class="number when small soft" title={`${timeText(new Date(row.atMs).toISOString())} UTC`}>
      {offsetText(row.atMs - scale.startMs)}
    </td>
  );
  if (row.kind === "event") {
    const link = row.checkpointId && formatRoute({ view: "checkpoint", taskId, id: row.checkpointId });
    return (
      <tr class={`event ${row.tone}`}>
        <td class="what" colSpan={3}>
          {link ? <a href={link}>{row.title}</a> : <strong>{row.title}</strong>}
          {row.more !== undefined && (
            <>
              {" "}
              <span class="soft">
                <StoredText text={row.more} />
              </span>
            </>
          )}
        </td>
        {when}
        <td class="lane-cell">
          <div class="lane" aria-hidden="true">
            <Folds scale={scale} />
            <span class="mark" style={{ left: percent(scale.at(row.atMs)) }} />
          </div>
        </td>
      </tr>
    );
  }
  const { step, isOpen } = row;
  const tone =
    step.status === "failed" ? "failed" : isOpen ? "paused" : step.from === "storage" ? "saved" : "completed";
  const left = scale.at(row.atMs);
  return (
    <tr class={tone}>
      <td class="what">
        <a
          class="step-name"
          href={formatRoute({
            view: "checkpoint",
            taskId,
            id: step.checkpointId,
            step: { name: step.name, occurrence: step.occurrence, at: step.record },
          })}
        >
          <StoredText text={step.title} />
        </a>
        {step.error !== undefined && (
          <div class="small failed">
            <StoredText text={step.error} />
          </div>
        )}
      </td>
      <td class="number took">{tookText(row)}</td>
      <td class="from small soft">
        {describeState(step, isOpen)}attempt {step.runAttempt}
      </td>
      {when}
      <td class="lane-cell">
        <div class="lane" aria-hidden="true">
          <Folds scale={scale} />
          <span
            class={`bar-of-step${isOpen ? " open" : ""}${step.from === "storage" ? " kept" : ""}`}
            style={{ left: percent(left), width: percent(scale.at(row.endMs) - left) }}
          />
        </div>
      </td>
    </tr>
  );
}

/** `from storage · `; empty for a step that never finished. */
function describeState({ status, from, waitsFor, hasTimedOut }: TimelineStep, isOpen: boolean): string {
  if (status === "failed") return "failed · ";
  if (waitsFor !== undefined) return isOpen ? "waits · " : hasTimedOut ? "timed out · " : "waited · ";
  if (isOpen) return "";
  return from === "storage" ? "from storage · " : "ran · ";
}

function Folds({ scale }: { readonly scale: TimeScale }) {
  return (
    <>
      {scale.folds.map(({ left, width }) => (
        <span key={left} class="fold" style={{ left: percent(left), width: percent(width) }} />
      ))}
    </>
  );
}

function Axis({ scale: { startMs, endMs, folds } }: { readonly scale: TimeScale }) {
  return (
    <div class="axis" aria-hidden="true">
      <span>0</span>
      {withRoom(folds).map(({ left, width, ms }) => (
        <span key={left} class="fold-text" style={{ left: percent(left + width / 2) }}>
          {durationText(ms)}
        </span>
      ))}
      <span class="end">{durationText(endMs - startMs)}</span>
    </div>
  );
}

/** The part of an axis that a label takes: about that of `12 h 30 min` in a narrow one. */
const LABEL = 0.2;

/** The folds whose labels don't overlap those before them, or the ends of the axis. */
function withRoom(folds: TimeScale["folds"]): TimeScale["folds"] {
  let free = LABEL / 2;
  return folds.filter(({ left, width }) => {
    const middle = left + width / 2;
    if (middle - LABEL / 2 < free || middle + LABEL / 2 > 1 - LABEL / 2) return false;
    free = middle + LABEL / 2;
    return true;
  });
}

function percent(part: number): string {
  return `${(part * 100).toFixed(3)}%`;
}
