import { CheckpointStaleError } from "../../src/contract/errors.js";
import type { OneshotCheckpoint } from "./schema.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A week: a run that stopped on a Friday is gone on with on a Monday. */
export const DEFAULT_MAX_AGE_MS = 7 * DAY;

/** Clocks differ, by a whole time zone where one is set wrong; not by more than that. */
const MOST_SKEW_MS = DAY;

/** @throws {TypeError | RangeError} Neither a number of milliseconds from 0 nor Infinity. */
export function checkMaxAge(what: string, maxAgeMs: number | undefined): void {
  if (maxAgeMs === undefined) return;
  if (typeof maxAgeMs !== "number") throw new TypeError(`${what} must be a number of milliseconds.`);
  if (!(maxAgeMs >= 0)) throw new RangeError(`${what} must be a number of milliseconds from 0; it is ${maxAgeMs}.`);
}

/**
 * @throws {CheckpointStaleError} Its last update is longer ago than `maxAgeMs`; or further ahead than that and than
 *   clocks differ, so that nobody knows how old it is.
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
      `${describeAge(mostMs)} are accepted. It was left untouched; force it to be used, accept more, or begin anew.`,
    ageMs,
  );
}

/** In the largest unit of which there is one: `3.5 days`. */
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
