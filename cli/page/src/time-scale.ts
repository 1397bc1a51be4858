/** A long pause that a scale leaves out, because nothing happened. */
export interface Fold {
  /** The place of the fold's left end, from 0 to 1. */
  readonly left: number;
  readonly width: number;
  readonly ms: number;
}

export interface TimeScale {
  readonly startMs: number;
  readonly endMs: number;
  readonly folds: readonly Fold[];
  /** Returns the place of a time, from 0 to 1. */
  at(ms: number): number;
}

interface Span {
  readonly startMs: number;
  readonly endMs: number;
}

/** A pause longer than this fraction of all work is folded: a night between two attempts would hide the work. */
const LONG_PAUSE = 0.2;
const MANY_PAUSES = 20;
/** The width of a fold, as a fraction of the scale. All folds together take at most a third. */
const FOLD_WIDTH = 0.05;
const MOST_FOLDED = 1 / 3;

/** Returns a scale that shows work by its length and folds long pauses. */
export function timeScale(spans: readonly Span[]): TimeScale {
  const busy = merged(spans);
  const [first, last] = [busy[0], busy.at(-1)];
  if (first === undefined || last === undefined) return { startMs: 0, endMs: 0, folds: [], at: () => 0 };
  const workMs = busy.reduce((sum, span) => sum + lengthOf(span), 0);
  const pauses = busy
    .slice(1)
    .map(({ startMs }, index) => ({ startMs: busy[index]?.endMs ?? startMs, endMs: startMs }));
  // Without steps there are only moments, so a pause is long compared with the median pause between them.
  const longMs = workMs > 0 ? workMs * LONG_PAUSE : MANY_PAUSES * median(pauses.map(lengthOf));
  const folded = pauses.filter((pause) => lengthOf(pause) > Math.max(1, longMs));
  const foldWidth = folded.length === 0 ? 0 : Math.min(FOLD_WIDTH, MOST_FOLDED / folded.length);
  const shownMs = last.endMs - first.startMs - folded.reduce((sum, fold) => sum + fold.endMs - fold.startMs, 0);
  const perMs = shownMs === 0 ? 0 : (1 - foldWidth * folded.length) / shownMs;

  const at = (ms: number): number => {
    let place = 0;
    let fromMs = first.startMs;
    for (const fold of folded) {
      if (ms <= fold.startMs) break;
      place += (fold.startMs - fromMs) * perMs;
      place += foldWidth * Math.min(1, (ms - fold.startMs) / (fold.endMs - fold.startMs));
      if (ms < fold.endMs) return place;
      fromMs = fold.endMs;
    }
    return Math.max(0, Math.min(1, place + (ms - fromMs) * perMs));
  };
  return {
    startMs: first.startMs,
    endMs: last.endMs,
    folds: folded.map(({ startMs, endMs }) => ({ left: at(startMs), width: foldWidth, ms: endMs - startMs })),
    at,
  };
}

function lengthOf({ startMs, endMs }: Span): number {
  return endMs - startMs;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

function merged(spans: readonly Span[]): Span[] {
  const result: { startMs: number; endMs: number }[] = [];
  for (const { startMs, endMs } of [...spans].sort((a, b) => a.startMs - b.startMs)) {
    const before = result.at(-1);
    if (before !== undefined && startMs <= before.endMs) before.endMs = Math.max(before.endMs, endMs);
    else result.push({ startMs, endMs });
  }
  return result;
}
