import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TimelineAnswer } from "../../src/ui/api-runs.js";
import { foldTurns, MOST_ROWS, type TimelineItem } from "./folds.js";
import { type TimelineRow, turnRows } from "./timeline-rows.js";

export interface TimelineState {
  readonly items: readonly TimelineItem[];
  /** The selected row; `undefined` if nothing or a fold is selected. */
  readonly row: TimelineRow | undefined;
  readonly selected: string | undefined;
  readonly select: (key: string) => void;
  /** Selects an item, and opens or closes a fold. */
  readonly press: (item: TimelineItem) => void;
  /** Moves the selection. Without a selection, selects the last item. */
  readonly move: (by: number) => void;
  readonly moveTo: (index: number) => void;
}

/**
 * Returns the lines of a timeline, and the selected line.
 *
 * @param failing - The record of the step that failed.
 * @param at - The sequence of the selected row, from the address.
 * @param onSelect - Called with the sequence to put into the address.
 */
export function useTimeline(
  timeline: TimelineAnswer | undefined,
  { failing, at, onSelect }: { failing: number | undefined; at: number | undefined; onSelect: (at?: number) => void },
): TimelineState {
  const [selected, setSelected] = useState(at === undefined ? undefined : `@${at}`);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [shown, setShown] = useState<ReadonlyMap<string, number>>(new Map());
  // A turn that was opened for a selection stays open when another row is selected.
  const [wanted, setWanted] = useState<readonly string[]>(selected === undefined ? [] : [selected]);
  const turns = useMemo(() => (timeline ? turnRows(timeline) : []), [timeline]);
  const items = useMemo(() => {
    const pinned = failing === undefined ? wanted : [...wanted, `@${failing}`];
    return foldTurns(turns, { toggled, shown, pinned });
  }, [turns, toggled, shown, wanted, failing]);

  const selectKey = (key: string) => {
    setSelected(key);
    const [, digits] = /^@(\d+)$/.exec(key) ?? [];
    onSelect(digits === undefined ? undefined : Number(digits));
  };
  const isShown = useRef(true);
  const select = (key: string) => {
    if (!items.some((item) => item.key === key)) setWanted((keys) => [...keys, key]);
    isShown.current = false;
    selectKey(key);
  };
  useEffect(() => {
    // The address now names another row of the same task.
    if (at !== undefined && `@${at}` !== selected) select(`@${at}`);
  }, [at]);

  useEffect(() => {
    if (isShown.current || selected === undefined) return;
    const button = [...document.querySelectorAll<HTMLElement>(".timeline button")].find(
      (one) => one.dataset["key"] === selected,
    );
    if (button === undefined) return;
    isShown.current = true;
    button.scrollIntoView({ block: "nearest" });
    // Enter presses the button that has the focus.
    if (document.activeElement?.closest(".timeline")) button.focus({ preventScroll: true });
  }, [selected, items]);

  const press = (item: TimelineItem) => {
    if (item.kind === "more") {
      setShown((before) => new Map(before).set(item.turn, (before.get(item.turn) ?? MOST_ROWS) + MOST_ROWS));
      return;
    }
    if (item.kind === "fold") {
      setToggled((before) => {
        const next = new Set(before);
        if (!next.delete(item.key)) next.add(item.key);
        return next;
      });
    }
    selectKey(item.key);
  };
  const here = items.findIndex((item) => item.key === selected);
  const moveTo = (index: number) => {
    const item = items[Math.max(0, Math.min(items.length - 1, index))];
    if (item) select(item.key);
  };
  const move = (by: number) => moveTo(here === -1 ? items.length - 1 : here + by);
  const item = items[here];
  const row = item?.kind === "step" || item?.kind === "event" ? item : undefined;
  return { items, row, selected, select, press, move, moveTo };
}
