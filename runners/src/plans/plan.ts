/** An ordered list of items, each with a mark that says whether it is done. */
export interface Plan {
  /** The absolute path. */
  readonly path: string;
  /** For people: `spec-kit`, `Kiro`, `prd.json`. */
  readonly format: string;
  /** In the order of work. */
  readonly items: readonly PlanItem[];
}

export type ItemStatus = "open" | "begun" | "done" | "deferred";

/** One item of a plan. */
export interface PlanItem {
  /** Unique within the plan. Made of the title if the file gives the item none. */
  readonly id: string;
  readonly title: string;
  /** What else the file says about the item. */
  readonly text: string;
  /** The headings and items around it, the outermost first. */
  readonly within: readonly string[];
  readonly status: ItemStatus;
  /** Items with the same text here may be worked on side by side, once those that they come after are done. */
  readonly beside?: string;
  /** It is run only if it is asked for by its id. */
  readonly isOptional: boolean;
  /** It has no work of its own: it is done once the items in it are. */
  readonly isGroup: boolean;
  /** The ids of the items that must be done first. */
  readonly after: readonly string[];
  /** Commands that the item itself names as its checks. */
  readonly gates: readonly string[];
  /** Checks that the item names without a command: `Typecheck passes`. A script of the project may be meant. */
  readonly checks: readonly string[];
  /** Where the file has the item's mark, then those of its parts without an id. */
  readonly marks: readonly Mark[];
}

/** A place in the file that says whether an item is done. */
export interface Mark {
  /** Its bytes, from `start` up to `end`. */
  readonly start: number;
  readonly end: number;
  readonly done: string;
  readonly open: string;
  readonly isDone: boolean;
}

/** Gives each item an id of its own: a second `2.1` becomes `2.1~2`. */
export function uniqueId(id: string, taken: Set<string>): string {
  let unique = id;
  for (let n = 2; taken.has(unique); n++) unique = `${id}~${n}`;
  taken.add(unique);
  return unique;
}
