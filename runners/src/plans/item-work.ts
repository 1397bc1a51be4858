import type { PlanItem } from "./plan.js";

/** One call of the coder, as it is recorded. */
export interface CoderCall {
  /** The end of what it said. */
  readonly text: string;
  readonly error?: string;
  /** In ISO 8601, or empty if the coder named no time. */
  readonly limitedUntil?: string;
  /** Why the coder wasn't called: the item was finished before, but not recorded. */
  readonly adopted?: string;
  readonly session?: string;
  readonly costUsd?: number;
  readonly tokens?: number;
  readonly minutes: number;
  readonly head?: string;
}

/** What the calls for an item, or for all, have used. */
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
    // Cents and their parts don't add up exactly.
    costUsd: Math.round((one.costUsd + other.costUsd) * 1e6) / 1e6,
    tokens: one.tokens + other.tokens,
    minutes: Math.round((one.minutes + other.minutes) * 1e4) / 1e4,
  };
}

/** `2 calls, $0.31, 12,300 tokens` */
export function spentText({ calls, costUsd, tokens }: Spent): string {
  const money = costUsd === 0 ? "" : `, $${costUsd.toFixed(2)}`;
  const text = tokens === 0 ? "" : `, ${tokens.toLocaleString("en-US")} tokens`;
  return `${calls} ${calls === 1 ? "call" : "calls"}${money}${text}`;
}

/** Where an item is worked on: the project's folder, or the same folder in a worktree of its own. */
export interface WorkPlace {
  readonly cwd: string;
  /** The plan's file there. */
  readonly path: string;
  /** The worktree, if it is one. */
  readonly worktree?: string;
}

/** An item while it is worked on. Everything in it comes from recorded steps, so a resume makes it again. */
export class ItemWork {
  readonly item: PlanItem;
  readonly gates: readonly string[];
  readonly place: WorkPlace;
  readonly calls: CoderCall[] = [];
  /** How often the coder was asked again. */
  fixes = 0;
  /** What the next call is to fix. */
  failure: string | undefined;
  session: string | undefined;
  /** An earlier attempt was killed while the coder worked. */
  isRepeated = false;
  /** The newest commit at its start, and after the last call. */
  readonly startHead: string | undefined;
  head: string | undefined;
  /** The commit that its worktree is based on. */
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
    // A session that failed may be what failed.
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
