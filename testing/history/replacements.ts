import type { SeenItem } from "./calls.js";
import { isRefused, type Timed } from "./written.js";

interface Replacement {
  readonly sha256: string;
  readonly expectedSha256: string;
  readonly beginMs: number;
}

/** The calls that replaced payloads. */
export class Replacements {
  /** The replacements of each checkpoint (by id) and each record (by sequence), newest first. */
  readonly #of = new Map<string | number, Replacement[]>();

  constructor(calls: readonly Timed[]) {
    for (const { action, beginMs, call } of calls) {
      if (action.is !== "replace" || isRefused(call)) continue;
      for (const { of, sha256, expectedSha256 } of action.changes) {
        const same = this.#of.get(of) ?? [];
        this.#of.set(of, same);
        same.push({ sha256, expectedSha256, beginMs });
      }
    }
    for (const same of this.#of.values()) same.sort((a, b) => b.beginMs - a.beginMs);
  }

  /** Returns the item with its original payload if calls that began by `untilMs` may have replaced the payload. */
  undo(item: SeenItem, untilMs: number): SeenItem {
    const of = item.kind === "checkpoint" ? item.id : item.sequence;
    const known = (of === undefined ? undefined : this.#of.get(of)) ?? [];
    let { sha256 } = item;
    // Each replacement names the payload that it replaced.
    for (const replacement of known) {
      if (replacement.sha256 === sha256 && replacement.beginMs <= untilMs) sha256 = replacement.expectedSha256;
    }
    return sha256 === undefined ? item : { ...item, sha256 };
  }
}
