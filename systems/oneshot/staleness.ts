import { CheckpointStaleError } from "../../src/contract/errors.js";
import type { OneshotCheckpoint } from "./schema.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A week, so that a run that stopped on a Friday can be resumed on Monday. */
export const DEFAULT_MAX_AGE_MS = 7 * DAY;

/** If a clock is set to a wrong time zone, clocks differ by at most a day. */
const MOST_SKEW_MS = DAY;

/** @throws {TypeError | RangeError} The value is not a number of milliseconds from 0. Infinity is allowed. */
export function checkMaxAge(what: string, maxAgeMs: number | undefined): void {
  if (maxAgeMs === undefined) return;
  if (typeof maxAgeMs !== "number") throw new TypeError(`${what} must be a number of milliseconds.`);
  if (!(maxAgeMs >= 0)) throw new RangeError(`${what} must be a number of milliseconds from 0; it is ${maxAgeMs}.`);
}

/**
 * @throws {CheckpointStaleError} The last update is longer ago than `maxAgeMs`. Or it lies further ahead than both
 *   `maxAgeMs` and a day, so the checkpoint's age is unknown.
 */
export function assertFresh({ featureId, lastUpdate }: OneshotCheckpoint, maxAgeMs: number, nowMs: number): void {
  const ageMs = nowMs - lastUpdate.getTime();
  const isAhead = ageMs < 0;
  const mostMs = isAhead ? Math.max(maxAgeMs, MOST_SKEW_MS) : maxAgeMs;
  if (Math.abs(ageMs) <= mostMs) return;
  const by = describeAge(Math.abs(ageMs));
  const what = isAhead
    ? `may be stale: its last update is ${by} ahead of this machine's clock`
    : `is stale: its last update was ${by} ago`;
  throw new CheckpointStaleError(
    `The checkpoint of feature ${JSON.stringify(featureId)} ${what} (${lastUpdate.toISOString()}), and at most ` +
      `${describeAge(mostMs)} are accepted. It was left untouched. Use force, accept a greater age, or start anew.`,
    ageMs,
  );
}

/** Shows an age in the largest unit that fits: `3.5 days`. */
export function describeAge(ms: number): string {
  const [size, unit] = UNITS.find(([unitMs]) => ms >= unitMs) ?? [1, "ms"];
  const count = Math.floor((ms / size) * 10) / 10;
  return `${count} ${unit}${unit === "ms" || count === 1 ? "" : "s"}`;
}

const UNITS = [
  [DAY, "day"],
  [HOUR, "hour"],
  [MINUTE, "minute"],
  [SECOND, "second"],
] as const;
