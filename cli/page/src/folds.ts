import { sumUsage, usageText } from "../../src/usage.js";
import { counted, countText } from "../../src/words.js";
import type { TimelineRow, TurnRows } from "./timeline-rows.js";
import { durationText } from "./times.js";

/** A line of the timeline. */
export type TimelineItem =
  | TimelineRow
  | {
      readonly kind: "fold";
      readonly key: string;
      /** A text such as `Turns 1–24` or `Turn 25`. */
      readonly title: string;
      /** A text such as `69 steps · 3.4 s`. */
      readonly totals: string;
      readonly isOpen: boolean;
      readonly hasFailed: boolean;
    }
  /** The rows of a long turn that aren't drawn yet. */
  | { readonly kind: "more"; readonly key: string; readonly turn: string; readonly title: string };

export interface Opened {
  /** The keys of the folds that the user opened or closed. */
  readonly toggled: ReadonlySet<string>;
  /** How many rows are drawn of the turns for which the user asked for more. */
  readonly shown: ReadonlyMap<string, number>;
  /** The keys of rows whose turns are open at first, in addition to the last turn. */
  readonly pinned: readonly string[];
}

/** How many rows of a turn are drawn at first, and how many each "more" adds. */
export const MOST_ROWS = 60;
const MOST_ITEMS = 10;

/** Returns the lines of a timeline. Turns are folded, except the last turn and the turns of pinned rows. */
export function foldTurns(turns: readonly TurnRows[], opened: Opened): TimelineItem[] {
  const [only] = turns;
  if (only === undefined) return [];
  if (turns.length === 1) return rowsOf(only, opened);
  const items: TimelineItem[] = [];
  let closed: TurnRows[] = [];
  const endFold = () => {
    items.push(...foldRange(closed, opened));
    closed = [];
  };
  for (const turn of turns) {
    if (turn !== turns.at(-1) && !isPinned(turn, opened)) {
      // A restarted run begins at turn 1 again, so a new fold begins.
      if (turn.turn <= (closed.at(-1)?.turn ?? 0)) endFold();
      closed.push(turn);
      continue;
    }
    endFold();
    items.push(...foldOne(turn, opened, true));
  }
  endFold();
  return items;
}

/**
 * Folds turns. Long ranges open to shorter ones, so each of 1,000 turns is three clicks away, and few are drawn at
 * once.
 */
function foldRange(turns: readonly TurnRows[], opened: Opened): TimelineItem[] {
  const [first] = turns;
  if (first === undefined) return [];
  if (turns.length === 1) return foldOne(first, opened, false);
  const last = turns.at(-1) ?? first;
  const size = MOST_ITEMS ** Math.floor(Math.log10(turns.length - 1));
  // The key leaves out the range's end, so that the last range stays open while it grows with a running task.
  const key = `${first.key} by ${size}`;
  const isOpen = opened.toggled.has(key);
  const item = foldItem(key, `Turns ${countText(first.turn)}–${countText(last.turn)}`, turns, isOpen);
  if (!isOpen) return [item];
  const parts = Array.from({ length: Math.ceil(turns.length / size) }, (_, part) =>
    turns.slice(part * size, (part + 1) * size),
  );
  return [item, ...parts.flatMap((part) => foldRange(part, opened))];
}

function foldOne(turn: TurnRows, opened: Opened, isOpenAtFirst: boolean): TimelineItem[] {
  const isOpen = opened.toggled.has(turn.key) !== isOpenAtFirst;
  const item = foldItem(turn.key, `Turn ${countText(turn.turn)}`, [turn], isOpen);
  return isOpen ? [item, ...rowsOf(turn, opened)] : [item];
}

function foldItem(key: string, title: string, turns: readonly TurnRows[], isOpen: boolean): TimelineItem {
  const steps = turns.reduce((sum, turn) => sum + turn.steps, 0);
  const ms = turns.reduce((sum, turn) => sum + turn.ms, 0);
  const hasFailed = turns.some(({ rows }) => rows.some((row) => row.kind === "step" && row.step.status === "failed"));
  const usage = sumUsage(turns.map((turn) => turn.usage));
  const totals = [counted(steps, "step"), durationText(ms), ...(usage ? [usageText(usage)] : [])].join(" · ");
  return { kind: "fold", key, title, totals, isOpen, hasFailed };
}

function rowsOf({ key: turn, rows }: TurnRows, { shown, pinned }: Opened): TimelineItem[] {
  const left = rows.length - (shown.get(turn) ?? MOST_ROWS);
  if (left <= 0) return [...rows];
  const title = `Show ${counted(Math.min(left, MOST_ROWS), "row")} before these; ${countText(left)} are left`;
  // A pinned row among the rows that aren't drawn yet is shown with the rows around it.
  const around = rows.slice(0, left).flatMap((row, index) => (pinned.includes(row.key) ? [index] : []));
  const above = rows.slice(0, left).filter((_row, index) => around.some((one) => Math.abs(one - index) <= MOST_ITEMS));
  return [...above, { kind: "more", key: `more of ${turn}`, turn, title }, ...rows.slice(left)];
}

function isPinned({ rows }: TurnRows, { pinned }: Opened): boolean {
  return pinned.length > 0 && rows.some(({ key }) => pinned.includes(key));
}
