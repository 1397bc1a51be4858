/** An ordered list of items, each with a mark that shows whether the item is done. */
export interface Plan {
  /** The absolute path. */
  readonly path: string;
  /** The format's name, for messages: `spec-kit`, `Kiro`, `prd.json`. */
  readonly format: string;
  /** In the order of work. */
  readonly items: readonly PlanItem[];
}

export type ItemStatus = "open" | "begun" | "done" | "deferred";

/** One item of a plan. */
export interface PlanItem {
  /** Unique within the plan. If the file has no id for the item, the id is made from the title. */
  readonly id: string;
  readonly title: string;
  /** The rest of the file's text about the item. */
  readonly text: string;
  /** The headings and items around the item, outermost first. */
  readonly within: readonly string[];
  readonly status: ItemStatus;
  /** Items with the same value may be worked on in parallel, once the items in their `after` are done. */
  readonly beside?: string;
  /** An optional item is only run if the caller names its id. */
  readonly isOptional: boolean;
  /** A group has no work of its own: it is done once the items inside it are done. */
  readonly isGroup: boolean;
  /** The ids of the items that must be done first. */
  readonly after: readonly string[];
  /** Commands that the item itself names as its checks. */
  readonly gates: readonly string[];
  /** Checks that the item names without a command: `Typecheck passes`. They may mean a script of the project. */
  readonly checks: readonly string[];
  /** The item's mark in the file, then the marks of its parts without an id. */
  readonly marks: readonly Mark[];
}

/** A place in the file that shows whether an item is done. */
export interface Mark {
  /** The mark's bytes in the file are those from `start` up to, but not including, `end`. */
  readonly start: number;
  readonly end: number;
  readonly done: string;
  readonly open: string;
  readonly isDone: boolean;
}

/** Returns an id that isn't taken yet: a second `2.1` becomes `2.1~2`. */
export function uniqueId(id: string, taken: Set<string>): string {
  let unique = id;
  for (let n = 2; taken.has(unique); n++) unique = `${id}~${n}`;
  taken.add(unique);
  return unique;
}
