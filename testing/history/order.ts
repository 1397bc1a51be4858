/** Something that happened at one moment between `beginMs` and `endMs`. */
export interface Moment {
  readonly beginMs: number;
  /** Infinity if there is no upper limit: any time after `beginMs` is possible. */
  readonly endMs: number;
}

/**
 * A partial order of moments. Each moment can be placed within its time span, in the required order, if and only if
 * there is no cycle and no moment has to come after one that began when it had already ended. Checking this takes time
 * in proportion to the number of moments and pairs, because sequences and tokens in the answers show the order that a
 * checker such as Porcupine (Wing and Gong 1993, Lowe 2017) has to search for.
 */
export class Order<Of extends Moment> {
  readonly #after = new Map<Of, Of[]>();
  readonly #before = new Map<Of, number>();

  add(moment: Of): void {
    if (!this.#after.has(moment)) this.#after.set(moment, []);
  }

  /** Requires `one` to come before `other`. */
  require(one: Of | undefined, other: Of | undefined): void {
    if (one === undefined || other === undefined || one === other) return;
    this.add(one);
    this.add(other);
    this.#after.get(one)?.push(other);
    this.#before.set(other, (this.#before.get(other) ?? 0) + 1);
  }

  /**
   * Returns a chain of moments that can't be put in order, each of which must come before the next: either the first
   * one began too late for the last one, or the first and the last are the same. `undefined` if there is no such chain.
   */
  findConflict(): readonly Of[] | undefined {
    const earliest = new Map<Of, { readonly ms: number; readonly because: Of | undefined }>();
    const left = new Map(this.#before);
    const ready = [...this.#after.keys()].filter((moment) => !left.has(moment));
    let done = 0;
    for (let moment = ready.pop(); moment !== undefined; moment = ready.pop()) {
      done += 1;
      const known = earliest.get(moment);
      const isLate = known !== undefined && known.ms > moment.beginMs;
      const at = isLate ? known : { ms: moment.beginMs, because: undefined };
      earliest.set(moment, at);
      if (at.ms > moment.endMs) return chainTo(moment, (one) => earliest.get(one)?.because);
      for (const next of this.#after.get(moment) ?? []) {
        const other = earliest.get(next);
        if (other === undefined || other.ms < at.ms) earliest.set(next, { ms: at.ms, because: moment });
        const rest = (left.get(next) ?? 1) - 1;
        left.set(next, rest);
        if (rest === 0) ready.push(next);
      }
    }
    return done === this.#after.size
      ? undefined
      : this.#findCycle(new Set([...left].flatMap(([one, rest]) => (rest > 0 ? [one] : []))));
  }

  /** @param among - The moments that are in a cycle, or that come after a moment of a cycle. */
  #findCycle(among: ReadonlySet<Of>): readonly Of[] {
    const before = new Map<Of, Of>();
    for (const one of among) for (const next of this.#after.get(one) ?? []) if (among.has(next)) before.set(next, one);
    const seen = new Set<Of>();
    let [at] = among;
    // Each moment of `among` has a predecessor in `among`, so this walk back ends at a moment that it has seen.
    for (; at !== undefined && !seen.has(at); at = before.get(at)) seen.add(at);
    const cycle: Of[] = [];
    for (let one = at; one !== undefined; one = before.get(one)) {
      cycle.unshift(one);
      if (cycle.length > 1 && one === at) break;
    }
    return cycle;
  }
}

function chainTo<Of>(last: Of, because: (one: Of) => Of | undefined): readonly Of[] {
  const chain = [last];
  for (let one = because(last); one !== undefined; one = because(one)) chain.unshift(one);
  return chain;
}
