import type { Policy } from "../../src/ui/api-storage.js";
import { bytesText, counted } from "../../src/words.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

type RuleName = Exclude<keyof Policy, "keepStages" | "timeZone">;

/** A rule of a policy that a slider changes. */
export interface Rule {
  readonly name: RuleName;
  readonly title: string;
  /** The slider's values, the strictest first. */
  readonly values: readonly number[];
  /** The slider's value when the rule is switched on. */
  readonly start: number;
  readonly text: (value: number) => string;
}

const COUNTS = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 200, 500, 1000];
const TIMES = [
  ...[1, 5, 15, 30].map((count) => count * MINUTE),
  ...[1, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 3, 7, 14, 30, 60, 90, 180, 365].map((count) => count * DAY),
];
const SIZES = [10, 12, 14, 16, 18, 20, 21, 22, 23, 24, 25, 26, 28, 30].map((power) => 2 ** power);

/** The rules that a slider changes. Stages and the time zone come from the configuration and stay unchanged. */
export const RULES: readonly Rule[] = [
  { name: "keepLast", title: "Keep the last", values: COUNTS, start: 5, text: (value) => counted(value, "checkpoint") },
  { name: "keepWithinMs", title: "Keep those newer than", values: TIMES, start: DAY, text: ageText },
  {
    name: "keepHourly",
    title: "Keep one per hour, for",
    values: COUNTS,
    start: 10,
    text: (value) => counted(value, "hour"),
  },
  {
    name: "keepDaily",
    title: "Keep one per day, for",
    values: COUNTS,
    start: 7,
    text: (value) => counted(value, "day"),
  },
  {
    name: "keepWeekly",
    title: "Keep one per week, for",
    values: COUNTS,
    start: 4,
    text: (value) => counted(value, "week"),
  },
  {
    name: "keepMonthly",
    title: "Keep one per month, for",
    values: COUNTS,
    start: 10,
    text: (value) => counted(value, "month"),
  },
  { name: "maxAgeMs", title: "Remove those older than", values: TIMES, start: 30 * DAY, text: ageText },
  { name: "maxBytes", title: "Remove above", values: SIZES, start: 2 ** 20, text: bytesText },
];

/** Returns the slider's values, including the value that is set. */
export function readValues(rule: Rule, value: number | undefined): readonly number[] {
  if (value === undefined || rule.values.includes(value)) return rule.values;
  return [...rule.values, value].sort((a, b) => a - b);
}

/** Returns the policy with a changed rule; `undefined` switches the rule off. */
export function withRule(policy: Policy, name: RuleName, value: number | undefined): Policy {
  const { [name]: _before, ...rest } = policy;
  return value === undefined ? rest : { ...rest, [name]: value };
}

/** Whether a policy has any rule: an empty policy is refused. */
export function isPolicy({ timeZone: _zone, ...rules }: Policy): boolean {
  return Object.keys(rules).length > 0;
}

function ageText(ms: number): string {
  if (ms % DAY === 0) return counted(ms / DAY, "day");
  if (ms % HOUR === 0) return counted(ms / HOUR, "hour");
  return counted(Math.round(ms / MINUTE), "minute");
}
