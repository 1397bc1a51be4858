import { useEffect, useState } from "preact/hooks";
import { usePage } from "./page.js";
import { formatRoute } from "./route.js";

/** A checkpoint that a comparison or a command begins at. */
export interface Point {
  readonly id: string;
  readonly sequence: number;
}

export interface Comparison {
  /** The checkpoints that the user marked, oldest first: at most two. */
  readonly marked: readonly Point[];
  /** Marks a checkpoint, or removes its mark. A third mark replaces the oldest one. */
  readonly toggle: (point: Point) => void;
  /**
   * Returns the address of a comparison: of the two marked checkpoints, or of the marked one with `point`. Without a
   * mark, of `point` with the checkpoint before it.
   */
  readonly address: (point: Point) => string;
}

/** The checkpoints that were marked last, in the order of their marks. They stay while their task is viewed. */
let marks: { readonly taskId: string; readonly points: readonly Point[] } = { taskId: "", points: [] };

export function useComparison(taskId: string): Comparison {
  const { say } = usePage();
  const [points, setPoints] = useState(() => (marks.taskId === taskId ? marks.points : []));
  useEffect(() => {
    if (marks.taskId === taskId) return;
    if (marks.points.length > 0) say("The mark is gone: it was in another task.");
    marks = { taskId, points: [] };
  }, [taskId]);
  const marked = bySequence(points);
  return {
    marked,
    toggle: ({ id, sequence }) => {
      const others = points.filter((other) => other.id !== id);
      const next = others.length < points.length ? others : [...others.slice(-1), { id, sequence }];
      marks = { taskId, points: next };
      setPoints(next);
    },
    address: (point) => {
      const others = marked.filter(({ id }) => id !== point.id);
      const [from, to] = marked.length === 2 ? marked : bySequence([...others, point]);
      if (from === undefined || to === undefined) return formatRoute({ view: "diff", taskId, to: point.id });
      return formatRoute({ view: "diff", taskId, from: from.id, to: to.id });
    },
  };
}

function bySequence(points: readonly Point[]): readonly Point[] {
  return [...points].sort((a, b) => a.sequence - b.sequence);
}

/** Shows how to compare two checkpoints, and a button once two are marked. */
export function CompareMarked({ comparison }: { readonly comparison: Comparison }) {
  const [from, to] = comparison.marked;
  if (from === undefined) return <>Tick two to compare them</>;
  if (to === undefined)
    return (
      <>
        Tick another one, or <kbd>d</kbd> compares with @{from.sequence}
      </>
    );
  return (
    <a class="button" href={comparison.address(to)}>
      Compare @{from.sequence} with @{to.sequence} <kbd>d</kbd>
    </a>
  );
}

interface PointButtonsProps {
  readonly taskId: string;
  readonly point: Point;
  readonly comparison: Comparison;
  readonly isFirst: boolean;
  readonly isThread: boolean;
  readonly onFork: (point: Point) => void;
  readonly onRewind: (point: Point) => void;
}

/** The buttons of a selected checkpoint. */
export function PointButtons({ taskId, point, comparison, isFirst, isThread, onFork, onRewind }: PointButtonsProps) {
  const { session } = usePage();
  const [marked, second] = comparison.marked;
  const other = second === undefined && marked?.id !== point.id ? marked : undefined;
  return (
    <>
      {(other !== undefined || !isFirst) && (
        <a
          class="button"
          href={other ? comparison.address(point) : formatRoute({ view: "diff", taskId, to: point.id })}
        >
          {other ? `Compare with @${other.sequence}` : "Changes"}
        </a>
      )}
      <label class="check">
        <input
          type="checkbox"
          checked={comparison.marked.some(({ id }) => id === point.id)}
          onChange={() => comparison.toggle(point)}
        />
        Mark to compare <kbd>m</kbd>
      </label>
      {session.canWrite && (
        <button type="button" onClick={() => onFork(point)}>
          Fork @{point.sequence} …
        </button>
      )}
      {session.canWrite && !isThread && (
        <button type="button" onClick={() => onRewind(point)}>
          Rewind to @{point.sequence} …
        </button>
      )}
    </>
  );
}
