import type { HistoryCall, SeenItem } from "./calls.js";
import { describeCall, describeItem, describeOrder } from "./describe.js";
import { type Moment, Order } from "./order.js";
import { countUpTo, isSelected, missingFrom } from "./reads.js";
import { type Claim, earliestExpiry, findWrongRefusals } from "./refusals.js";
import { Removals } from "./removals.js";
import { Replacements } from "./replacements.js";
import { checkRuns } from "./run-rules.js";
import { type ActionOf, firstOf, isRefused, type Timed, type Write, WrittenItems } from "./written.js";

/** Something in a history that no correct store could have done. */
export interface HistoryViolation {
  readonly taskId: string;
  /**
   * - `order`: each call of a chain must have come before the next, but the last call ended before the first one began;
   *   or a read returned its items in the wrong order.
   * - `twice`: the same sequence or fencing token was returned for two different things, or an item was stored twice.
   * - `unknown`: a read returned an item that no call has stored.
   * - `changed`: a read returned an item that differs from the stored one.
   * - `unasked`: a read returned an item outside its query, or more items than its limit.
   * - `missing`: a read lacks an item that was stored and never removed.
   * - `removed`: a read returned an item that had been removed.
   * - `condition`: a write succeeded although its condition didn't hold, or was refused although its condition held.
   * - `fencing`: a write succeeded under an older token than an earlier write, or under a token that no claim was given.
   * - `holders`: a task was claimed while another process held it, or its holder was refused.
   * - `step`: the recorded result of a step changed although no `run` record had dropped it.
   * - `event`: an event was received twice, or passed over.
   */
  readonly rule:
    | "order"
    | "twice"
    | "unknown"
    | "changed"
    | "unasked"
    | "missing"
    | "removed"
    | "condition"
    | "fencing"
    | "holders"
    | "step"
    | "event";
  /** Describes the violation and lists the calls that show it. */
  readonly message: string;
  /** The few calls of the history that show the violation. */
  readonly calls: readonly HistoryCall[];
}

/**
 * Decides whether a correct store could have produced a history. Pass the calls of all processes since the tasks were
 * new, in any order.
 *
 * The appends, reads and leases of each task must be linearizable: each call took effect at one moment between its
 * start and its end, and its answer agrees with the order of these moments. A call without an answer may or may not
 * have taken effect. For a task that was removed as a whole, only the leases are checked.
 *
 * @returns The violations of all tasks; an empty list if the history is possible.
 */
export function checkHistory(calls: Iterable<HistoryCall>): HistoryViolation[] {
  const tasks = new Map<string, HistoryCall[]>();
  /** The start of each process's last call. */
  const lastSeen = new Map<string, number>();
  const crashes: Moment[] = [];
  const removedPrefixes: HistoryCall[] = [];
  for (const call of calls) {
    if (call.action.is === "crash") {
      crashes.push({ beginMs: call.beginMs, endMs: call.endMs ?? call.beginMs });
      continue;
    }
    if (call.action.is === "remove" && call.action.isPrefix) removedPrefixes.push(call);
    const own = tasks.get(call.taskId);
    if (own === undefined) tasks.set(call.taskId, [call]);
    else own.push(call);
    lastSeen.set(call.process, Math.max(call.beginMs, lastSeen.get(call.process) ?? 0));
  }
  return [...tasks].flatMap(([taskId, own]) => {
    const removals = removedPrefixes.filter(({ taskId: prefix }) => taskId.startsWith(prefix));
    return new TaskHistory(taskId, [...own, ...removals], lastSeen, crashes).check();
  });
}

class TaskHistory {
  readonly #taskId: string;
  readonly #timed: readonly Timed[];
  readonly #lastSeen: ReadonlyMap<string, number>;
  readonly #crashes: readonly Moment[];
  readonly #violations: HistoryViolation[] = [];

  constructor(
    taskId: string,
    calls: readonly HistoryCall[],
    lastSeen: ReadonlyMap<string, number>,
    crashes: readonly Moment[],
  ) {
    this.#taskId = taskId;
    this.#crashes = crashes;
    this.#lastSeen = lastSeen;
    this.#timed = calls.map((call) => {
      const { beginMs, endMs, action, error } = call;
      // A failed call may have taken effect, even after it failed.
      const isUncertain = endMs === undefined || (error !== undefined && !isRefused(call));
      return { call, action, beginMs, endMs: isUncertain ? Number.POSITIVE_INFINITY : endMs };
    });
  }

  check(): readonly HistoryViolation[] {
    const claims = this.#grantedClaims();
    this.#checkHolders(claims);
    const removals = new Removals(this.#timed);
    if (removals.hasAll) return this.#violations;
    const reads = this.#select("read").filter(({ call }) => call.error === undefined && call.endMs !== undefined);
    const replacements = new Replacements(this.#timed);
    const undo = replacements.undo.bind(replacements);
    const written = new WrittenItems(this.#timed, reads, this.#crashes, undo);
    for (const { rule, item, calls } of written.disputes) {
      const what = {
        twice: `Sequence ${item.sequence} was returned for two different writes.`,
        unknown: `A read returned ${describeItem(item)}, which no call has stored.`,
        changed: `A read returned ${describeItem(item)}, which was stored in another form.`,
      };
      this.#report(rule, what[rule], calls);
    }
    if (this.#violations.length > 0) return this.#violations;
    const writes = written.all();
    const order = new Order<Timed | Write>();
    for (const [at, write] of writes.entries()) order.require(write, writes[at + 1]);
    this.#checkFencing(writes, claims, order);
    this.#checkConditions(writes, removals);
    this.#checkIds(writes, removals);
    for (const read of reads) this.#checkRead(read, written, writes, removals, order);
    for (const { rule, what, calls } of findWrongRefusals({
      timed: this.#timed,
      writes,
      removals,
      claims,
      renewals: this.#select("renew"),
    }))
      this.#report(rule, what, calls);
    if (this.#violations.length === 0) this.#checkOrder(order);
    for (const { rule, what, calls } of checkRuns(writes)) this.#report(rule, what, calls);
    return this.#violations;
  }

  #select<Is extends Timed["action"]["is"]>(is: Is): Timed<ActionOf<Is>>[] {
    return this.#timed.filter((one): one is Timed<ActionOf<Is>> => one.action.is === is);
  }

  /** Returns the granted claims in the order of their tokens. */
  #grantedClaims(): readonly Claim[] {
    const granted = this.#select("claim").flatMap((claim) =>
      claim.action.token === undefined ? [] : { ...claim, token: claim.action.token },
    );
    return granted.sort((a, b) => a.token - b.token);
  }

  /** Checks that tokens ascend, and that each lease ended before the next one began, unless the next one was forced. */
  #checkHolders(claims: readonly Claim[]): void {
    const renewals = groupByToken(this.#select("renew"));
    const releases = groupByToken(this.#select("release"));
    for (const [at, claim] of claims.slice(1).entries()) {
      const before = claims[at];
      if (before === undefined) continue;
      if (before.token === claim.token) {
        this.#report("twice", `Token ${claim.token} was given twice.`, [before.call, claim.call]);
        continue;
      }
      if (claim.beginMs > before.endMs || before.beginMs <= claim.endMs) {
        const isReleased = releases.get(before.token)?.some(({ beginMs }) => beginMs <= claim.endMs) ?? false;
        const own = renewals.get(before.token) ?? [];
        const hasExpired = earliestExpiry(before, own, claim) <= claim.endMs;
        // A lease is free as soon as its process has ended. A process that made later calls hadn't ended.
        const isAlive = (this.#lastSeen.get(before.call.process) ?? 0) > claim.endMs;
        if (isReleased || hasExpired || !isAlive || claim.action.isForced) continue;
        const renewed = own.filter(({ action, endMs }) => action.isRenewed === true && endMs < claim.beginMs);
        this.#report(
          "holders",
          `Token ${claim.token} was given while ${before.call.process} held the task under token ${before.token}.`,
          [before.call, ...renewed.slice(-1).map(({ call }) => call), claim.call],
        );
      } else {
        this.#report("order", `Token ${before.token} was given after token ${claim.token}.`, [claim.call, before.call]);
      }
    }
  }

  /** Checks that writes under a token come after the token's claim and before the next claim. */
  #checkFencing(writes: readonly Write[], claims: readonly Claim[], order: Order<Timed | Write>): void {
    let last: Write | undefined;
    for (const write of writes) {
      if (write.token === undefined) continue;
      if (last?.token !== undefined && last.token > write.token) {
        this.#report(
          "fencing",
          `Sequence ${firstOf(write)} was stored under token ${write.token}, after sequence ${firstOf(last)} under token ${last.token}.`,
          [...last.calls, ...write.calls],
        );
      }
      last = write;
    }
    if (this.#violations.length > 0) return;
    const between = (token: number, moment: Timed | Write) => {
      const next = countUpTo(claims, (claim) => claim.token <= token);
      order.require(claims[next - 1], moment);
      order.require(moment, claims[next]);
    };
    for (const write of writes) if (write.token !== undefined) between(write.token, write);
    for (const one of this.#timed) {
      const token = changingToken(one);
      if (token === undefined) continue;
      between(token, one);
      if (!claims.some((claim) => claim.token === token))
        this.#report("fencing", `A call succeeded under token ${token}, which no claim was given.`, [one.call]);
    }
    for (const [at, claim] of claims.entries()) order.require(claim, claims[at + 1]);
    for (const renewal of this.#select("renew")) if (renewal.action.isRenewed) between(renewal.action.token, renewal);
  }

  /** Checks that the conditions of successful writes held: the expected newest checkpoint, and no later event. */
  #checkConditions(writes: readonly Write[], removals: Removals): void {
    let newest: { readonly item: SeenItem; readonly write: Write } | undefined;
    let lastEvent: { readonly item: SeenItem; readonly write: Write } | undefined;
    for (const write of writes) {
      const expected = conditionOf(write, "expectedSequence");
      const isRemoved = newest !== undefined && removals.mayHaveRemoved(newest.item, write.endMs);
      const found = newest?.item.sequence ?? 0;
      if (expected !== undefined && found !== expected && !isRemoved) {
        this.#report(
          "condition",
          `Sequence ${firstOf(write)} was stored on the condition that the newest checkpoint had sequence ${expected}, but it had ${found}.`,
          [...(newest?.write.calls ?? []), ...write.calls],
        );
      }
      const noEventAfter = conditionOf(write, "noEventAfter");
      if (lastEvent !== undefined && noEventAfter !== undefined && lastEvent.item.sequence > noEventAfter) {
        this.#report(
          "condition",
          `Sequence ${firstOf(write)} was stored on the condition that no event came after sequence ${noEventAfter}, but there was ${describeItem(lastEvent.item)}.`,
          [...lastEvent.write.calls, ...write.calls],
        );
      }
      for (const item of write.items) {
        if (item.kind === "checkpoint") newest = { item, write };
        if (item.kind === "event") lastEvent = { item, write };
      }
    }
  }

  /** Checks that no checkpoint or event is stored twice. */
  #checkIds(writes: readonly Write[], removals: Removals): void {
    const stored = new Map<string, { readonly item: SeenItem; readonly write: Write }>();
    for (const write of writes) {
      for (const item of write.items) {
        if (item.id === undefined) continue;
        const key = JSON.stringify([item.kind, item.id]);
        const other = stored.get(key);
        stored.set(key, { item, write });
        if (other === undefined || other.write.mayBeLost || removals.mayHaveRemoved(other.item, write.endMs)) continue;
        this.#report("twice", `${describeItem(other.item)} was stored again at sequence ${item.sequence}.`, [
          ...other.write.calls,
          ...write.calls,
        ]);
      }
    }
  }

  /** Checks that a read returned all items of its query that were stored before it, and no later or removed ones. */
  #checkRead(
    read: Timed<ActionOf<"read">>,
    written: WrittenItems,
    writes: readonly Write[],
    removals: Removals,
    order: Order<Timed | Write>,
  ): void {
    const items = (read.action.items ?? []).filter((item) => !written.isLost(item));
    const seen = new Set(items.map(({ sequence }) => sequence));
    const last = Math.max(0, ...seen);
    const sequences = items.map(({ sequence }) => sequence);
    if (read.action.query.order === "newest") sequences.reverse();
    if (sequences.some((sequence, at) => sequence <= (sequences[at - 1] ?? 0)))
      this.#report("order", "A read returned its items in the wrong order, or an item twice.", [read.call]);
    const { limit = Number.POSITIVE_INFINITY } = read.action.query;
    const unasked = items.find((item) => !isSelected(read.action, item)) ?? items[limit];
    if (unasked !== undefined)
      this.#report("unasked", `A read returned ${describeItem(unasked)}, which it didn't ask for.`, [read.call]);
    order.require(written.at(last), read);
    for (const item of items) {
      const write = written.at(item.sequence);
      const removal = removals.findRemoval(item, write?.endMs ?? 0, read.beginMs);
      if (removal === undefined || write === undefined) continue;
      this.#report("removed", `A read returned ${describeItem(item)}, which had been removed.`, [
        ...write.calls,
        removal.call,
        read.call,
      ]);
    }
    for (const item of missingFrom(read.action, seen, writes)) {
      const write = written.at(item.sequence);
      if (write === undefined || write.mayBeLost || removals.mayHaveRemoved(item, read.endMs)) continue;
      if (item.sequence > last) {
        // All later items are also missing, so the read came before this write.
        order.require(read, write);
        return;
      }
      this.#report(
        "missing",
        `A read returned sequence ${last}, but not ${describeItem(item)}, which was stored earlier.`,
        [...write.calls, ...(written.at(last)?.calls ?? []), read.call],
      );
    }
  }

  #checkOrder(order: Order<Timed | Write>): void {
    const conflict = order.findConflict();
    if (conflict === undefined) return;
    const shown = withoutSteps(conflict);
    const calls = shown.flatMap((one) => ("call" in one ? one.call : one.calls.slice(0, 1)));
    const why = shown.slice(1).map((one, at) => describeOrder(shown[at], one));
    const but = shown[0] === shown.at(-1) ? "they form a cycle" : "the last one ended before the first one began";
    this.#report("order", `${why.join(". ")}. So each of these calls came before the next one, but ${but}.`, calls);
  }

  #report(rule: HistoryViolation["rule"], what: string, calls: readonly HistoryCall[]): void {
    const distinct = [...new Set(calls)];
    const message = [`Task ${JSON.stringify(this.#taskId)}: ${what}`, ...distinct.map(describeCall)].join("\n  ");
    this.#violations.push({ taskId: this.#taskId, rule, message, calls: distinct });
  }
}

/** Returns the chain without the writes between two other writes, whose sequences already show the order. */
function withoutSteps(chain: readonly (Timed | Write)[]): readonly (Timed | Write)[] {
  const isWrite = (one: Timed | Write | undefined) => one !== undefined && "items" in one;
  return chain.filter((one, at) => !(isWrite(chain[at - 1]) && isWrite(one) && isWrite(chain[at + 1])));
}

/** Returns a condition of a write; `undefined` if the write has no such condition or its calls disagree. */
function conditionOf({ calls }: Write, key: "expectedSequence" | "noEventAfter"): number | undefined {
  const conditions = calls.map(({ action }) => ("condition" in action ? action.condition?.[key] : undefined));
  const [condition, ...others] = new Set(conditions);
  return others.length === 0 ? condition : undefined;
}

/** Returns the fencing token of a call other than an append that changed something; `undefined` if there is none. */
function changingToken({ action, endMs }: Timed): number | undefined {
  if (!Number.isFinite(endMs)) return undefined;
  if (action.is === "setStatus" && action.isChanged) return action.condition?.fencingToken;
  return action.is === "remove" && (action.count ?? 0) > 0 ? action.condition?.fencingToken : undefined;
}

function groupByToken<Call extends Timed<{ readonly token: number }>>(calls: readonly Call[]): Map<number, Call[]> {
  const groups = new Map<number, Call[]>();
  for (const call of calls) {
    const group = groups.get(call.action.token);
    if (group === undefined) groups.set(call.action.token, [call]);
    else group.push(call);
  }
  return groups;
}
