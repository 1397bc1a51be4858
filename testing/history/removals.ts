import type { SeenItem } from "./calls.js";
import type { Moment } from "./order.js";
import { type ActionOf, isRefused, type Timed } from "./written.js";

interface Removal extends Moment {
  readonly by: Timed;
}

/** The calls that removed checkpoints or records. */
export class Removals {
  readonly #ofIds = new Map<string, Removal[]>();
  readonly #selections: (Removal & { readonly what: Exclude<ActionOf<"remove">["what"], readonly string[]> })[] = [];

  constructor(calls: readonly Timed[]) {
    for (const by of calls) {
      const { action, beginMs, endMs, call } = by;
      if (isRefused(call)) continue;
      const removal = { by, beginMs, endMs };
      if (action.is === "append" && action.replaces !== undefined) this.#add(action.replaces, removal);
      if (action.is !== "remove") continue;
      const { what } = action;
      if (isList(what)) for (const id of what) this.#add(id, removal);
      else this.#selections.push({ ...removal, what });
    }
  }

  /** Whether the task was removed as a whole. */
  get hasAll(): boolean {
    return this.#selections.some(({ what }) => what === "all");
  }

  /** Whether the item may have been removed by this time. */
  mayHaveRemoved(item: SeenItem, untilMs: number): boolean {
    return this.#of(item).some(({ beginMs }) => beginMs <= untilMs);
  }

  /** Returns a call that began after `storedMs` and ended before `beforeMs` and that removed the item. */
  findRemoval(item: SeenItem, storedMs: number, beforeMs: number): Timed | undefined {
    return this.#of(item).find(({ beginMs, endMs }) => storedMs < beginMs && endMs < beforeMs)?.by;
  }

  #add(id: string, removal: Removal): void {
    const same = this.#ofIds.get(id);
    if (same === undefined) this.#ofIds.set(id, [removal]);
    else same.push(removal);
  }

  #of(item: SeenItem): readonly Removal[] {
    if (item.kind === "checkpoint") return (item.id === undefined ? undefined : this.#ofIds.get(item.id)) ?? [];
    // A removal removes only an event's value; the event itself stays with its id.
    if (item.kind === "event") return [];
    return this.#selections.filter(({ what }) => {
      if (what === "all") return true;
      const { afterSequence = 0, beforeSequence = Number.POSITIVE_INFINITY, kinds, name } = what;
      const isInRange = item.sequence > afterSequence && item.sequence < beforeSequence;
      return (
        isInRange && kinds?.some((kind) => kind === item.kind) !== false && (name === undefined || name === item.name)
      );
    });
  }
}

function isList(what: ActionOf<"remove">["what"]): what is readonly string[] {
  return Array.isArray(what);
}
