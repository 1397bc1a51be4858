import type { TimelineAnswer } from "../../src/ui/api-runs.js";
import { bytesText } from "../../src/words.js";
import { durationText } from "./times.js";

/** The maximum number of bars in a plot: more would be hard to point at. */
const MOST_BARS = 80;

/** The maximum width of a bar, in px. */
const WIDEST_BAR = 24;

interface PlotsProps {
  readonly saves: TimelineAnswer["saves"];
  readonly onOpen: (sequence: number) => void;
}

/** The minimum number of saves for plots. Fewer saves are easier to read in the list. */
export const LEAST_SAVES = 8;

/** Plots the bytes of each save, and the time since the previous save. */
export function Plots({ saves, onOpen }: PlotsProps) {
  const sizes = saves.map(([sequence, , bytes]) => ({ sequence, value: bytes }));
  const times = saves.slice(1).map(([sequence, atMs], index) => ({
    sequence,
    value: Math.max(0, atMs - (saves[index]?.[1] ?? atMs)),
  }));
  return (
    <div class="plots">
      <Plot title="Bytes of each save" points={sizes} text={bytesText} height={(value) => value} onOpen={onOpen} />
      {/* If some pauses last seconds and others a night, a linear scale shows only the nights. */}
      <Plot
        title="Time between saves"
        note="logarithmic"
        points={times}
        text={durationText}
        height={(value) => Math.log10(1 + value)}
        onOpen={onOpen}
      />
    </div>
  );
}

interface Point {
  readonly sequence: number;
  readonly value: number;
}

interface PlotProps {
  readonly title: string;
  readonly note?: string;
  readonly points: readonly Point[];
  readonly text: (value: number) => string;
  readonly height: (value: number) => number;
  readonly onOpen: (sequence: number) => void;
}

function Plot({ title, note, points, text, height, onOpen }: PlotProps) {
  const bars = gathered(points);
  const values = points.map(({ value }) => value).sort((a, b) => a - b);
  const [least, middle, most] = [values[0] ?? 0, values[Math.floor(values.length / 2)] ?? 0, values.at(-1) ?? 0];
  const top = Math.max(...bars.map(({ value }) => height(value)), Number.MIN_VALUE);
  const summary = `median ${text(middle)}, from ${text(least)} to ${text(most)}`;
  return (
    <figure class="plot">
      <figcaption>
        <strong>{title}</strong>
        <span class="soft">
          {summary}
          {note === undefined ? "" : `, ${note}`}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${bars.length} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${summary}`}
        style={{ maxWidth: `${bars.length * WIDEST_BAR}px` }}
      >
        {bars.map(({ sequence, value }, index) => {
          const tall = Math.max(1, (height(value) / top) * 100);
          return (
            <g key={sequence}>
              <rect x={index + 0.1} y={100 - tall} width={0.8} height={tall} />
              {/* biome-ignore lint/a11y/noStaticElementInteractions: the list of checkpoints opens them by keyboard. */}
              <rect class="hit" x={index} y={0} width={1} height={100} onClick={() => onOpen(sequence)}>
                <title>
                  @{sequence}: {text(value)}
                </title>
              </rect>
            </g>
          );
        })}
      </svg>
    </figure>
  );
}

/** Returns at most {@link MOST_BARS} points: the largest of each group of neighbours. */
function gathered(points: readonly Point[]): Point[] {
  const per = Math.ceil(points.length / MOST_BARS);
  const bars: Point[] = [];
  for (let start = 0; start < points.length; start += per) {
    bars.push(points.slice(start, start + per).reduce((most, point) => (point.value > most.value ? point : most)));
  }
  return bars;
}
