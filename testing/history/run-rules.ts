import { isReceived, NOTHING_RECEIVED, type ReceivedEvents } from "../../src/contract/run-note.js";
import { parseRunKey, type RunKey, stepTitle } from "../../src/contract/run-record.js";
import type { HistoryCall, SeenItem } from "./calls.js";
import { describeItem } from "./describe.js";
import type { Write } from "./written.js";

/** A fault in the records of a run, and the calls that show it. */
export interface RunFault {
  readonly rule: "step" | "event";
  readonly what: string;
  readonly calls: readonly HistoryCall[];
}

interface Stored {
  readonly item: SeenItem;
  readonly write: Write;
}

/**
 * Checks the rules for a run's records: a step's result stays until a `run` record drops it, and each event is received
 * at most once, after all events with the same name that were sent earlier.
 */
export function checkRuns(writes: readonly Write[]): readonly RunFault[] {
  const rules = new RunRules();
  for (const write of writes) for (const item of write.items) rules.take({ item, write });
  return rules.faults;
}

class RunRules {
  readonly faults: RunFault[] = [];
  #generation = "";
  #turn = 0;
  /** The results of steps, by generation, turn, name and occurrence. */
  readonly #steps = new Map<string, Stored>();
  #received: ReceivedEvents = NOTHING_RECEIVED;
  /** The receipts of the turn, by the sequences of their events. */
  readonly #receipts = new Map<number, Stored>();
  /** The refusals by schemas in the turn, by the sequences of their events. */
  readonly #refusals = new Map<number, RunKey>();
  readonly #events = new Map<number, Stored>();
  /** The pending events of each name, in the order of their sequences. */
  readonly #pending = new Map<string, Map<number, Stored>>();

  take(stored: Stored): void {
    const { item } = stored;
    if (item.kind === "event") {
      this.#events.set(item.sequence, stored);
      this.#addPending(stored);
    }
    if (item.run !== undefined) this.#begin(item.run, stored);
    if (item.kind !== "step" && item.kind !== "run") return;
    const key = parseRunKey(item);
    if (key === undefined) return;
    if (item.kind === "run") this.#drop(key, item);
    else this.#end(key, stored);
  }

  /** Handles a checkpoint of a run. If it begins a turn, its note lists the events that the run has received so far. */
  #begin({ generation, turn, received = NOTHING_RECEIVED }: NonNullable<SeenItem["run"]>, checkpoint: Stored): void {
    if (generation === this.#generation && turn === this.#turn) return;
    const isNewRun = generation !== this.#generation;
    for (const pending of isNewRun ? [] : this.#pending.values()) {
      const [first] = pending.values();
      if (first === undefined || !isReceived(received, first.item.sequence)) continue;
      const what = `${describeItem(first.item)} counts as received in turn ${turn}, but no wait has received it.`;
      this.#report("event", what, [first, checkpoint]);
    }
    [this.#generation, this.#turn, this.#received] = [generation, turn, received];
    for (const [event, { item }] of this.#receipts) {
      const key = parseRunKey(item);
      if (key?.generation === generation && key.turn === turn) continue;
      this.#receipts.delete(event);
      if (!this.#isSettled(event)) this.#restore(event);
    }
    for (const [event, key] of this.#refusals)
      if (key.generation !== generation || key.turn !== turn) this.#refusals.delete(event);
    if (!isNewRun) return;
    this.#pending.clear();
    for (const [event, stored] of this.#events) if (!this.#isSettled(event)) this.#addPending(stored);
  }

  #drop(key: RunKey, { name, dropped = [] }: SeenItem): void {
    const { event } = key;
    // A record with a name is a refusal. A fork or a rewind also copies the refusals of its turn.
    if (event !== undefined && name !== undefined) {
      this.#refusals.set(event, key);
      this.#pending.get(name)?.delete(event);
    }
    if (dropped === "unknown") {
      // It may have dropped anything, so earlier results and receipts prove nothing.
      this.#steps.clear();
      this.#receipts.clear();
      return;
    }
    for (const [first, last] of dropped) {
      const isDropped = ({ item: { sequence } }: Stored) => sequence >= first && sequence <= last;
      for (const [key, step] of this.#steps) if (isDropped(step)) this.#steps.delete(key);
      for (const [received, receipt] of this.#receipts) {
        if (!isDropped(receipt)) continue;
        this.#receipts.delete(received);
        this.#restore(received);
      }
    }
  }

  #end({ generation, turn, occurrence = 1, event }: RunKey, stored: Stored): void {
    const { item } = stored;
    const title = JSON.stringify(stepTitle(item.name ?? "", occurrence));
    const key = JSON.stringify([generation, turn, title]);
    const before = this.#steps.get(key);
    if (before !== undefined)
      this.#report("step", `${title} has a second result, though nothing has dropped the first one.`, [before, stored]);
    this.#steps.set(key, stored);
    if (event === undefined) return;
    // A fork or a rewind writes copies of its turn's receipts directly before its checkpoint.
    if (generation === this.#generation) this.#receive(event, stored);
    else this.#receipts.set(event, stored);
  }

  #receive(event: number, receipt: Stored): void {
    const sent = this.#events.get(event);
    // The event may have been sent before the history began.
    if (sent === undefined) return;
    const { name = "" } = sent.item;
    const other = this.#receipts.get(event);
    if (other !== undefined || isReceived(this.#received, event)) {
      this.#report("event", `${describeItem(sent.item)} was received twice.`, [
        sent,
        ...(other ? [other] : []),
        receipt,
      ]);
    }
    this.#receipts.set(event, receipt);
    const pending = this.#pending.get(name);
    pending?.delete(event);
    for (const [sequence, passed] of pending ?? []) {
      if (sequence > event) break;
      // An event with a `recordKey` is for one wait; other waits skip it.
      if (passed.item.recordKey !== undefined) continue;
      this.#report("event", `${describeItem(passed.item)} was passed over: a later one was received first.`, [
        passed,
        sent,
        receipt,
      ]);
      break;
    }
  }

  #isSettled(event: number): boolean {
    return this.#receipts.has(event) || this.#refusals.has(event) || isReceived(this.#received, event);
  }

  #addPending(stored: Stored): void {
    const { name = "", sequence } = stored.item;
    const pending = this.#pending.get(name) ?? new Map<number, Stored>();
    this.#pending.set(name, pending.set(sequence, stored));
  }

  /** Makes a received event pending again, at its place in the order. */
  #restore(event: number): void {
    const stored = this.#events.get(event);
    if (stored === undefined) return;
    this.#addPending(stored);
    const { name = "" } = stored.item;
    this.#pending.set(name, new Map([...(this.#pending.get(name) ?? [])].sort(([a], [b]) => a - b)));
  }

  #report(rule: RunFault["rule"], what: string, stored: readonly Stored[]): void {
    this.faults.push({ rule, what, calls: stored.flatMap(({ write }) => write.calls.slice(0, 1)) });
  }
}
