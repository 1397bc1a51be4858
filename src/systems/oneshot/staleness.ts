import { CheckpointStaleError } from "../../errors.js";
import type { OneshotCheckpoint } from "./schema.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A week: a run that stopped on a Friday is gone on with on a Monday. */
export const DEFAULT_MAX_AGE_MS = 7 * DAY;

/** @throws {TypeError | RangeError} Neither a number of milliseconds from 0 nor Infinity. */
export function checkMaxAge(what: string, maxAgeMs: number | undefined): void {
  if (maxAgeMs === undefined) return;
  if (typeof maxAgeMs !== "number") throw new TypeError(`${what} must be a number of milliseconds.`);
  if (!(maxAgeMs >= 0)) throw new RangeError(`${what} must be a number of milliseconds from 0; it is ${maxAgeMs}.`);
}

/** @throws {CheckpointStaleError} Its last update is longer ago than `maxAgeMs`. */
export function assertFresh({ featureId, lastUpdate }: OneshotCheckpoint, maxAgeMs: number, nowMs: number): void {
  const ageMs = nowMs - lastUpdate.getTime();
  if (ageMs <= maxAgeMs) return;
  throw new CheckpointStaleError(
    `The checkpoint of feature ${JSON.stringify(featureId)} is stale: its last update was ${describeAge(ageMs)} ago ` +
      `(${lastUpdate.toISOString()}), and at most ${describeAge(maxAgeMs)} are accepted. It was left untouched. ` +
      "Use it all the same with force: true or a larger maxAgeMs, or begin anew.",
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
