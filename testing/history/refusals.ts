import type { HistoryCall, SeenItem } from "./calls.js";
import type { Moment } from "./order.js";
import type { Removals } from "./removals.js";
import type { ActionOf, Timed, Write } from "./written.js";

/** A claim that was granted. */
export type Claim = Timed<ActionOf<"claim">> & { readonly token: number };

export type Renewal = Timed<ActionOf<"renew">>;

/** A call that was refused although no correct store could have had a reason to refuse it. */
interface WrongRefusal {
  readonly rule: "condition" | "holders";
  readonly what: string;
  readonly calls: readonly HistoryCall[];
}

/** The calls and writes that may explain a refusal. */
export interface Known {
  readonly timed: readonly Timed[];
  /** In the order of their sequences. */
  readonly writes: readonly Write[];
  readonly removals: Removals;
  /** In the order of their tokens. */
  readonly claims: readonly Claim[];
  readonly renewals: readonly Renewal[];
}

/**
 * Returns the earliest time at which a lease may have expired for a call. The last renewal counts, even if it made the
 * lease shorter. A renewal without an answer may or may not have taken effect.
 */
export function earliestExpiry(claim: Claim, renewals: readonly Renewal[], call: Moment): number {
  const own = renewals.filter(
    ({ action, beginMs }) => action.token === claim.token && action.isRenewed !== false && beginMs <= call.endMs,
  );
  const tried = [claim, ...own];
  // A claim or renewal no longer counts if another one began after its end and ended before the call began.
  const lastMs = Math.max(...tried.filter(({ endMs }) => endMs < call.beginMs).map(({ beginMs }) => beginMs));
  const untilMs = tried.filter(({ endMs }) => endMs >= lastMs).map((one) => one.beginMs + one.action.ttlMs);
  return Math.min(...untilMs) - ROUNDING_MS;
}

/** Storages store the end of a lease in whole milliseconds. */
const ROUNDING_MS = 1;

/**
 * Finds the refusals that had no reason at any moment of the call: refused writes whose condition held, and refused
 * calls under a lease that hadn't ended.
 */
export function* findWrongRefusals(known: Known): Generator<WrongRefusal, void, void> {
  const reasons = new Reasons(known);
  for (const one of known.timed) {
    const { call, action } = one;
    // A refused `setStatus` isn't checked: it may have been refused because its checkpoint was completed.
    if (action.is === "append" && call.error === "CHECKPOINT_CONFLICT" && !reasons.mayConflict(one, action)) {
      const what = "A write was refused although its condition held.";
      yield { rule: "condition", what, calls: [...reasons.newestFor(action), call] };
    }
    const token = lostToken(one);
    const holder = token === undefined ? undefined : reasons.holding(token, one);
    if (holder !== undefined) {
      const what = `A call under token ${token} was refused although its lease hadn't ended.`;
      yield { rule: "holders", what, calls: [holder.call, call] };
    }
  }
}

class Reasons {
  readonly #known: Known;
  readonly #checkpoints: readonly { readonly item: SeenItem; readonly write: Write }[];
  /** The index of each checkpoint in `#checkpoints`, by its sequence. */
  readonly #places: ReadonlyMap<number, number>;
  /** The number of items with each id, in all calls. */
  readonly #ids = new Map<string, number>();
  /** The claims, renewals and releases. */
  readonly #leases: readonly Timed[];
  /** The appends without an answer whose items no read has returned. */
  readonly #unknown: readonly Timed<ActionOf<"append" | "setStatus">>[];

  constructor(known: Known) {
    this.#known = known;
    this.#checkpoints = known.writes.flatMap((write) => {
      const item = write.items.find(({ kind }) => kind === "checkpoint");
      return item ? [{ item, write }] : [];
    });
    this.#places = new Map(this.#checkpoints.map(({ item }, at) => [item.sequence, at]));
    this.#leases = known.timed.filter(({ action: { is } }) => is === "claim" || is === "renew" || is === "release");
    const seen = new Set(known.writes.flatMap(({ calls }) => calls));
    const appends = known.timed.filter(
      (one): one is Timed<ActionOf<"append" | "setStatus">> => "items" in one.action && one.action.is !== "read",
    );
    this.#unknown = appends.filter(({ call, endMs }) => endMs === Number.POSITIVE_INFINITY && !seen.has(call));
    for (const { action } of appends)
      for (const { id } of action.items) if (id !== undefined) this.#ids.set(id, (this.#ids.get(id) ?? 0) + 1);
  }

  /** Whether a write may have been refused with a conflict. */
  mayConflict(refused: Timed, action: ActionOf<"append">): boolean {
    const { expectedSequence, noEventAfter } = action.condition ?? {};
    if (action.isExact) return true;
    // Another form of the same checkpoint or event may be stored.
    if (action.items.some(({ id }) => id !== undefined && (this.#ids.get(id) ?? 0) > 1)) return true;
    if (expectedSequence !== undefined && this.#mayDiffer(expectedSequence, refused)) return true;
    return noEventAfter !== undefined && this.#mayHaveEvent(noEventAfter, refused);
  }

  /** Returns the calls that stored the checkpoint that a write expected to be the newest. */
  newestFor({ condition }: ActionOf<"append">): readonly HistoryCall[] {
    const at = this.#places.get(condition?.expectedSequence ?? 0);
    return at === undefined ? [] : (this.#checkpoints[at]?.write.calls ?? []);
  }

  /** Returns the claim of this token if its lease was certainly held during the whole call. */
  holding(token: number, { beginMs, call: { process, endMs = Number.POSITIVE_INFINITY } }: Timed): Claim | undefined {
    const claim = this.#known.claims.find((one) => one.token === token);
    // The lease of a process that has died ends at once.
    if (claim === undefined || claim.endMs >= beginMs || claim.call.process !== process) return undefined;
    for (const one of this.#leases) {
      if (one.beginMs > endMs) continue;
      const { action } = one;
      if (action.is === "claim" && one.call !== claim.call && (action.token ?? token + 1) > token && !wasDenied(one))
        return undefined;
      if (action.is === "release" && action.token === token) return undefined;
    }
    const untilMs = earliestExpiry(claim, this.#known.renewals, { beginMs, endMs });
    return untilMs > endMs ? claim : undefined;
  }

  /** Whether a checkpoint other than the expected one may have been the newest. */
  #mayDiffer(expected: number, { beginMs, call: { endMs = Number.POSITIVE_INFINITY } }: Timed): boolean {
    const at = expected === 0 ? -1 : this.#places.get(expected);
    if (at === undefined) return true;
    const [newest, next] = [this.#checkpoints[at], this.#checkpoints[at + 1]];
    if (newest && (newest.write.endMs >= beginMs || this.#known.removals.mayHaveRemoved(newest.item, endMs)))
      return true;
    return (next !== undefined && next.write.beginMs <= endMs) || this.#mayBeStored("checkpoint", endMs);
  }

  #mayHaveEvent(after: number, { call: { endMs = Number.POSITIVE_INFINITY } }: Timed): boolean {
    const isLater = ({ kind, sequence }: SeenItem) => kind === "event" && sequence > after;
    const found = this.#known.writes.some(({ items, beginMs }) => beginMs <= endMs && items.some(isLater));
    return found || this.#mayBeStored("event", endMs);
  }

  #mayBeStored(kind: SeenItem["kind"], untilMs: number): boolean {
    return this.#unknown.some(
      ({ action, beginMs }) => beginMs <= untilMs && action.items.some((item) => item.kind === kind),
    );
  }
}

/** Returns the token of a call that was refused because the token's lease had ended. */
function lostToken({ call, action }: Timed): number | undefined {
  if (action.is === "renew") return action.isRenewed === false ? action.token : undefined;
  return call.error === "LEASE_LOST" && "condition" in action ? action.condition?.fencingToken : undefined;
}

/** Whether a claim was certainly not granted. */
function wasDenied({ action, call: { endMs, error } }: Timed): boolean {
  return endMs !== undefined && error === undefined && action.is === "claim" && action.token === undefined;
}
