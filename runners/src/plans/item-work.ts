import type { PlanItem } from "./plan.js";

/** One call of the coder, as recorded. */
export interface CoderCall {
  /** The end of the coder's message. */
  readonly text: string;
  readonly error?: string;
  /** When the usage limit ends, in ISO 8601; empty if the coder named no time. */
  readonly limitedUntil?: string;
  /** How it was found that the item was already finished, but not recorded. Set if the coder wasn't called. */
  readonly adopted?: string;
  readonly session?: string;
  readonly costUsd?: number;
  readonly tokens?: number;
  readonly minutes: number;
  readonly head?: string;
}

/** What the coder's calls have used, for one item or for all. */
export interface Spent {
  readonly calls: number;
  readonly costUsd: number;
  readonly tokens: number;
  readonly minutes: number;
}

export const NOTHING: Spent = { calls: 0, costUsd: 0, tokens: 0, minutes: 0 };

export function addSpent(one: Spent, other: Spent): Spent {
  return {
    calls: one.calls + other.calls,
    // Rounded, because sums of fractions of a cent aren't exact.
    costUsd: Math.round((one.costUsd + other.costUsd) * 1e6) / 1e6,
    tokens: one.tokens + other.tokens,
    minutes: Math.round((one.minutes + other.minutes) * 1e4) / 1e4,
  };
}

/** Returns a text such as `2 calls, $0.31, 12,300 tokens`. */
export function spentText({ calls, costUsd, tokens }: Spent): string {
  const money = costUsd === 0 ? "" : `, $${costUsd.toFixed(2)}`;
  const text = tokens === 0 ? "" : `, ${tokens.toLocaleString("en-US")} tokens`;
  return `${calls} ${calls === 1 ? "call" : "calls"}${money}${text}`;
}

/** Where an item is worked on: the project's folder, or the same folder in the item's own worktree. */
export interface WorkPlace {
  readonly cwd: string;
  /** The plan's file at this place. */
  readonly path: string;
  /** The folder of the item's worktree, if it has one. */
  readonly worktree?: string;
}

/** An item while it is worked on. All its data comes from recorded steps, so a resumed run rebuilds it. */
export class ItemWork {
  readonly item: PlanItem;
  readonly gates: readonly string[];
  readonly place: WorkPlace;
  readonly calls: CoderCall[] = [];
  /** How many times the coder was asked for a fix. */
  fixes = 0;
  /** The failure that the next call must fix. */
  failure: string | undefined;
  session: string | undefined;
  /** True if an earlier attempt was killed while the coder worked. */
  isRepeated = false;
  /** The newest commit at the item's start; `head` is the newest commit after the last call. */
  readonly startHead: string | undefined;
  head: string | undefined;
  /** The commit that the item's worktree is based on. */
  base: string | undefined;

  constructor(item: PlanItem, gates: readonly string[], place: WorkPlace, head: string | undefined) {
    this.item = item;
    this.gates = gates;
    this.place = place;
    this.startHead = head;
    this.head = head;
    this.base = head;
  }

  note(call: CoderCall): void {
    this.calls.push(call);
    this.head = call.head ?? this.head;
    // After an error that isn't a usage limit, the next call begins a new session: the old session may be the cause.
    if (call.error === undefined || call.limitedUntil !== undefined) this.session = call.session ?? this.session;
    else this.session = undefined;
    this.failure = call.limitedUntil === undefined ? (call.error ?? this.failure) : this.failure;
  }

  spent(): Spent {
    const spent = (call: CoderCall): Spent => ({
      calls: call.adopted === undefined ? 1 : 0,
      costUsd: call.costUsd ?? 0,
      tokens: call.tokens ?? 0,
      minutes: call.minutes,
    });
    return this.calls.map(spent).reduce(addSpent, NOTHING);
  }
}
