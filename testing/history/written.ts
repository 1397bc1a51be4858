import type { HistoryAction, HistoryCall, HistoryItem, SeenItem } from "./calls.js";
import type { Moment } from "./order.js";

/** A call with its action and the time span in which it took effect. */
export interface Timed<Action = HistoryAction> extends Moment {
  readonly call: HistoryCall;
  readonly action: Action;
}

/** The action type with this name. */
export type ActionOf<Is extends HistoryAction["is"]> = Extract<HistoryAction, { readonly is: Is }>;

/** Items that were stored together. */
export interface Write extends Moment {
  /** The calls that may have stored the items: the answered call, and earlier tries. */
  readonly calls: HistoryCall[];
  readonly items: readonly SeenItem[];
  readonly token: number | undefined;
  /** Whether a crash may have lost the items. */
  readonly mayBeLost: boolean;
}

/** Two calls that disagree about an item. */
export interface Dispute {
  readonly rule: "twice" | "unknown" | "changed";
  readonly item: SeenItem;
  readonly calls: readonly HistoryCall[];
}

/**
 * The items of a task that are known to have been stored: those of answered calls, and those of unanswered calls that
 * reads have returned.
 */
export class WrittenItems {
  /** The writes, by the sequence of each of their items. */
  readonly #writes = new Map<number, Write>();
  readonly #calls = new Map<string, Timed<ActionOf<"append" | "setStatus">>[]>();
  /** The items that a crash has lost: other items have their sequences now. */
  readonly #lost = new Set<string>();
  readonly disputes: Dispute[] = [];

  /** @param undo - Returns an item that a read returned, with its original payload. */
  constructor(
    calls: readonly Timed[],
    reads: readonly Timed<ActionOf<"read">>[],
    crashes: readonly Moment[],
    undo: (item: SeenItem, readMs: number) => SeenItem,
  ) {
    for (const { call, action, ...moment } of calls) {
      if ((action.is !== "append" && action.is !== "setStatus") || isRefused(call)) continue;
      const timed = { ...moment, call, action };
      for (const item of action.items) {
        const key = identify(item);
        const same = this.#calls.get(key) ?? [];
        this.#calls.set(key, same);
        if (!same.some(({ call: known }) => known === call)) same.push(timed);
      }
    }
    const answered = calls.filter(
      (one): one is Timed<ActionOf<"append">> => one.action.is === "append" && one.action.sequence !== undefined,
    );
    const losable = findLosable(answered, crashes);
    // Writes that a crash can't have lost are placed first, because they win a disputed sequence.
    const sorted = [
      ...answered.filter(({ call }) => !losable.has(call)),
      ...answered.filter(({ call }) => losable.has(call)),
    ];
    for (const { call, action } of sorted)
      this.#place(call, action.items, (action.sequence ?? 0) - action.items.length + 1, losable.has(call));
    for (const { call, action, endMs } of reads)
      for (const item of action.items ?? []) this.#see(call, undo(item, endMs));
  }

  /** Returns the writes in the order of their sequences. */
  all(): readonly Write[] {
    return [...new Set(this.#writes.values())].sort((a, b) => firstOf(a) - firstOf(b));
  }

  at(sequence: number): Write | undefined {
    return this.#writes.get(sequence);
  }

  /** Whether a crash has lost the item. A lost item proves nothing about other items. */
  isLost(item: SeenItem): boolean {
    return this.#lost.has(withSequence(item));
  }

  #see(reader: HistoryCall, item: SeenItem): void {
    const key = identify(item);
    const known = this.#itemAt(item.sequence);
    if (this.isLost(item)) return;
    if (known !== undefined) {
      const isDisputed = this.disputes.some((dispute) => dispute.item.sequence === item.sequence);
      if (isSame(known, item) || isDisputed) return;
      const calls = [...(this.at(item.sequence)?.calls ?? []), reader];
      this.disputes.push({ rule: "changed", item, calls });
      return;
    }
    const places = (this.#calls.get(key) ?? []).map(({ call, action }) => {
      const index = action.items.findIndex((one) => identify(one) === key);
      const first = item.sequence - index;
      return { call, action, own: action.items[index], first, last: first + action.items.length - 1 };
    });
    const possible = places.filter(({ action, last }) => !isAnsweredElsewhere(action, last));
    // Two senders of an event may have drafted it in different forms.
    const writer = possible.find(({ own }) => own !== undefined && isSame(own, item)) ?? possible[0] ?? places[0];
    if (writer === undefined) this.disputes.push({ rule: "unknown", item, calls: [reader] });
    else this.#place(writer.call, writer.action.items, writer.first);
  }

  #place(call: HistoryCall, items: readonly HistoryItem[], first: number, mayBeLost = false): void {
    const seen = items.map((item, at) => ({ ...item, sequence: first + at }));
    for (const item of seen) {
      const other = this.#itemAt(item.sequence);
      if (other === undefined || isSame(other, item)) continue;
      if (mayBeLost) {
        for (const one of seen) this.#lost.add(withSequence(one));
        return;
      }
      this.disputes.push({ rule: "twice", item, calls: [...(this.at(item.sequence)?.calls ?? []), call] });
      return;
    }
    const [item] = seen;
    if (item === undefined || this.#writes.has(item.sequence)) return;
    // An earlier try that failed, or whose answer was lost, may have stored the items.
    const tries = (this.#calls.get(identify(item)) ?? []).filter(
      ({ action }) =>
        !isAnsweredElsewhere(action, first + items.length - 1) && action.items.some((one) => isSame(one, item)),
    );
    const answered = tries.filter(({ action }) => "sequence" in action && action.sequence !== undefined);
    const token = tries.find((one) => one.call === call)?.action.condition?.fencingToken;
    const write = {
      calls: tries.map((one) => one.call),
      items: seen,
      token,
      mayBeLost,
      beginMs: Math.min(...tries.map(({ beginMs }) => beginMs)),
      endMs: Math.min(...answered.map(({ endMs }) => endMs)),
    };
    for (const { sequence } of seen) this.#writes.set(sequence, write);
  }

  #itemAt(sequence: number): SeenItem | undefined {
    return this.at(sequence)?.items.find((item) => item.sequence === sequence);
  }
}

/** Whether the call was refused, which means that it changed nothing. */
export function isRefused({ error }: HistoryCall): boolean {
  return error === "LEASE_LOST" || error === "CHECKPOINT_CONFLICT";
}

export function firstOf({ items: [first] }: Write): number {
  return first?.sequence ?? 0;
}

/** Whether the call's answer names another last sequence. This happens if several records of a task look the same. */
function isAnsweredElsewhere(action: ActionOf<"append" | "setStatus">, last: number): boolean {
  return action.is === "append" && action.sequence !== undefined && action.sequence !== last;
}

/** Returns the appends of lazy records that no durable append followed before a crash. */
function findLosable(
  answered: readonly Timed<ActionOf<"append">>[],
  crashes: readonly Moment[],
): ReadonlySet<HistoryCall> {
  const losable = new Set<HistoryCall>();
  for (const crash of crashes) {
    const before = answered.filter(({ beginMs }) => beginMs < crash.endMs);
    const durable = before.filter(({ action, endMs }) => !action.isLazy && endMs < crash.beginMs);
    const safe = Math.max(0, ...durable.map(({ action }) => action.sequence ?? 0));
    for (const { call, action } of before) if (action.isLazy && (action.sequence ?? 0) > safe) losable.add(call);
  }
  return losable;
}

function withSequence(item: SeenItem): string {
  return `${item.sequence} ${identify(item)}`;
}

/** Returns a key that distinguishes an item from the task's other items. Two records without an id may share a key. */
function identify({ kind, id, name, recordKey, createdAt, sha256 }: HistoryItem): string {
  return JSON.stringify(id === undefined ? [kind, name, recordKey, createdAt, sha256] : [kind, id]);
}

function isSame(one: HistoryItem, other: HistoryItem): boolean {
  if (identify(one) !== identify(other)) return false;
  return one.sha256 === undefined || other.sha256 === undefined || one.sha256 === other.sha256;
}
