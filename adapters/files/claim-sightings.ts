import { RecentMap } from "./recent-map.js";

/** A holder renews its claim every half of this; one that didn't is taken for dead. */
export const STALE_MS = 5_000;

interface Sighting {
  readonly modifiedMs: number;
  /** By this process's own clock, which nobody sets. */
  readonly sinceMs: number;
}

/** What this process saw of each lock's claims when it looked last. */
const lastSeen = new RecentMap<ReadonlyMap<string, Sighting>>();

/**
 * Which of a lock's claims this process has seen for so long without a renewal that they are stale, whatever time they
 * bear: another machine's clock, or one that was set back, or whoever has put a file there may have dated them ahead.
 *
 * @param claims - All there are now, by name, with the time of their last renewal.
 */
export function unrenewedClaims(lockFolder: string, claims: ReadonlyMap<string, number>): ReadonlySet<string> {
  const nowMs = performance.now();
  const before = lastSeen.get(lockFolder);
  const seen = new Map<string, Sighting>();
  const unrenewed = new Set<string>();
  for (const [name, modifiedMs] of claims) {
    const last = before?.get(name);
    const sighting = last?.modifiedMs === modifiedMs ? last : { modifiedMs, sinceMs: nowMs };
    seen.set(name, sighting);
    if (nowMs - sighting.sinceMs > STALE_MS) unrenewed.add(name);
  }
  lastSeen.set(lockFolder, seen);
  return unrenewed;
}
