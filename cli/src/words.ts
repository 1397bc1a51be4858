import { InvalidArgumentError } from "@commander-js/extra-typings";

/** `1 checkpoint`, `12 checkpoints`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** `12,000` */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** `1.5 KiB`, `999 B`. */
export function bytesText(bytes: number): string {
  for (const [unit, size] of BINARY_UNITS) if (bytes >= size) return `${Number((bytes / size).toFixed(1))} ${unit}`;
  return `${bytes} B`;
}

/** `3 hours ago`. A future time becomes `in 3 hours`; an invalid date stays unchanged. */
export function agoText(isoDate: string, nowMs: number): string {
  const ageMs = nowMs - Date.parse(isoDate);
  if (Number.isNaN(ageMs)) return isoDate;
  if (Math.abs(ageMs) < SECOND) return "just now";
  return ageMs < 0 ? `in ${ageText(-ageMs)}` : `${ageText(ageMs)} ago`;
}

/** `for 3 hours`, `for less than a second`. */
export function forText(isoDate: string, nowMs: number): string {
  const ageMs = nowMs - Date.parse(isoDate);
  return `for ${ageMs < SECOND ? "less than a second" : ageText(ageMs)}`;
}

function ageText(ms: number): string {
  const [unit, size] = AGE_UNITS.find(([, unitMs]) => ms >= unitMs) ?? ["second", SECOND];
  return counted(Math.trunc(ms / size), unit);
}

/** `12.3 s`. */
export function secondsText(durationMs: number): string {
  return `${(durationMs / SECOND).toFixed(1)} s`;
}

/** `2026-11-21 10:00:05`, in UTC. */
export function timeText(isoDate: string): string {
  return isoDate.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/, "$1 $2");
}

/** Parses a whole number of at least `min`. */
export function countArgument(min: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(count) && count >= min) return count;
    throw new InvalidArgumentError(`It must be a whole number from ${min}.`);
  };
}

/** Parses `30d`, `12h`, `90m`, `45s`, `500ms` into milliseconds. */
export function durationArgument(text: string): number {
  const [, count, unit = ""] = /^(\d+)(ms|s|m|h|d|w)$/.exec(text) ?? [];
  const ms = Number(count) * (DURATION_UNITS[unit] ?? Number.NaN);
  if (Number.isSafeInteger(ms)) return ms;
  throw new InvalidArgumentError("It must be a duration: 30d, 12h, 90m, 45s or 500ms.");
}

/** A duration for {@link durationArgument}, in the largest unit that gives a whole number: `30d`, `90m`. */
export function durationFlag(ms: number): string {
  const [unit, size] = FLAG_UNITS.find(([, unitMs]) => ms % unitMs === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** Parses `10MiB`, `500KB`, `4096` into bytes. */
export function sizeArgument(text: string): number {
  const [, count, unit = ""] = /^(\d+) *(|b|[kmgt]b|[kmgt]ib|[kmgt])$/i.exec(text) ?? [];
  const bytes = Number(count) * (SIZE_UNITS[unit.toLowerCase()] ?? Number.NaN);
  if (Number.isSafeInteger(bytes)) return bytes;
  throw new InvalidArgumentError("It must be a size: 10MiB, 500KB or 4096.");
}

const BINARY_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const AGE_UNITS = [
  ["day", DAY],
  ["hour", HOUR],
  ["minute", MINUTE],
  ["second", SECOND],
] as const;

const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND,
  m: MINUTE,
  h: HOUR,
  d: DAY,
  w: 7 * DAY,
};

const FLAG_UNITS = [
  ["d", DAY],
  ["h", HOUR],
  ["m", MINUTE],
  ["s", SECOND],
] as const;

const SIZE_UNITS: Readonly<Record<string, number>> = Object.fromEntries([
  ["", 1],
  ["b", 1],
  ...["k", "m", "g", "t"].flatMap((letter, i) => [
    [`${letter}b`, 1000 ** (i + 1)],
    [`${letter}ib`, 1024 ** (i + 1)],
    [letter, 1024 ** (i + 1)],
  ]),
]);
