import { InvalidArgumentError } from "@commander-js/extra-typings";
import { DAY, HOUR, MINUTE, SECOND } from "./words.js";

/** Parses a whole number of at least `min`. */
export function countArgument(min: number): (text: string) => number {
  return (text) => {
    const count = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(count) && count >= min) return count;
    throw new InvalidArgumentError(`It must be a whole number from ${min}.`);
  };
}

/** Parses an amount above 0, such as `2.50`. */
export function amountArgument(text: string): number {
  const amount = Number(text);
  if (/^\d*\.?\d+$/.test(text) && amount > 0) return amount;
  throw new InvalidArgumentError("It must be a number above 0.");
}

/** Parses `30d`, `12h`, `90m`, `45s`, `500ms` into milliseconds. */
export function durationArgument(text: string): number {
  const [, count, unit = ""] = /^(\d+)(ms|s|m|h|d|w)$/.exec(text) ?? [];
  const ms = Number(count) * (DURATION_UNITS[unit] ?? Number.NaN);
  if (Number.isSafeInteger(ms)) return ms;
  throw new InvalidArgumentError("It must be a duration: 30d, 12h, 90m, 45s or 500ms.");
}

/** Formats a duration for {@link durationArgument}, in the largest unit that divides it: `30d`, `90m`. */
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
