/** A limit that a coder has reached: it has used up what its subscription allows for now. */
export interface UsageLimit {
  /** The coder's own message. */
  readonly message: string;
  /** When the coder can be called again; absent if it doesn't say. */
  readonly resetsAt?: Date;
}

/**
 * Matches how Claude Code and Codex begin the message. In the middle of an answer, the same words may be about
 * anything.
 */
const BEGINNING =
  /^\W*(?:claude (?:ai |code )?usage limit reached|(?:you've|you have) (?:hit|reached) your\b.*\blimit|(?:\w+[- ]?)?(?:hour|weekly|daily|session|opus|sonnet)\b.* limit reached|usage limit reached|the usage limit has been reached)/i;
/** Matches the words for a limit in a text that the coder reports as an error. */
const IN_ERROR =
  /usage limit|(?:hit|reached) your\b.*\blimit|limit reached|usage_limit_reached|rate_limit_error|rate limit (?:reached|exceeded)|too many requests|api_error_status"?: ?429|out of (?:extra )?usage|insufficient_quota/i;

/**
 * Finds the usage limit in a coder's text.
 *
 * @param isError - Whether the coder reports the text as an error.
 */
export function findUsageLimit(text: string, isError: boolean, now: Date): UsageLimit | undefined {
  if (!(isError ? IN_ERROR : BEGINNING).test(text)) return undefined;
  const lines = text.split("\n");
  const line = lines.find((each) => (isError ? IN_ERROR : BEGINNING).test(each)) ?? text;
  const resetsAt = findTime(text, now);
  return { message: line.trim().slice(0, 300), ...(resetsAt && { resetsAt }) };
}

const UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];

/**
 * Reads `|1755615600`, `"resets_at":1777936568`, `in 2 days 17 hours`, `3:28 PM`, `Aug 8th, 2026 12:30 PM` and
 * `3am (Asia/Tokyo)`.
 */
function findTime(text: string, now: Date): Date | undefined {
  const [, epoch] = /(?:\||resets?_?at\W{1,4})(\d{10}(?:\d{3})?)(?!\d)/i.exec(text) ?? [];
  if (epoch !== undefined) return new Date(Number(epoch.padEnd(13, "0")));
  const [, seconds] = /resets?_?in_?seconds\W{1,4}(\d+)/i.exec(text) ?? [];
  if (seconds !== undefined) return new Date(now.getTime() + Number(seconds) * 1_000);
  const [, span = ""] =
    /\bin ((?:\d+ ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b[ ,]*(?:and )?)+)/i.exec(text) ?? [];
  const spans = [...span.matchAll(/(\d+) ?([dhms])/gi)];
  if (spans.length > 0) {
    const sizeOf = (unit = "") => UNITS.find(([name]) => name === unit.toLowerCase())?.[1] ?? 0;
    return new Date(spans.reduce((ms, [, count, unit]) => ms + Number(count) * sizeOf(unit), now.getTime()));
  }
  return findClockTime(text, now);
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const CLOCK =
  /(?:resets?|again|until)\b(?: at| on|:)? *(?:([a-z]{3})[a-z]*\.?,? (?:(\d{1,2})(?:st|nd|rd|th)?,?(?: (\d{4}),?)?(?= ))?(?: ?at )? *)?(\d{1,2})(?::(\d\d))? ?(am|pm)?\b(?: ?\(([\w/+-]+)\))?/i;

/** A time of day that passed less than this long ago doesn't mean tomorrow: the message may be a minute old. */
const JUST_PASSED_MS = 15 * 60_000;

function findClockTime(text: string, now: Date): Date | undefined {
  const [all, name = "", day, year, hour, minute = "0", half, zone] = CLOCK.exec(text) ?? [];
  if (all === undefined || (half === undefined && !all.includes(":"))) return undefined;
  const hours = (Number(hour) % (half === undefined ? 24 : 12)) + (half?.toLowerCase() === "pm" ? 12 : 0);
  const today = wallClock(now, zone);
  const month = MONTHS.indexOf(name.toLowerCase());
  const local = new Date(today.getTime());
  local.setUTCHours(hours, Number(minute), 0, 0);
  if (month >= 0) local.setUTCFullYear(Number(year ?? today.getUTCFullYear()), month, Number(day ?? 1));
  const weekday = DAYS.indexOf(name.toLowerCase());
  if (weekday >= 0) local.setUTCDate(local.getUTCDate() + ((weekday - local.getUTCDay() + 7) % 7));
  const isPast = local.getTime() < today.getTime() - JUST_PASSED_MS;
  if (isPast && month < 0) local.setUTCDate(local.getUTCDate() + (weekday < 0 ? 1 : 7));
  if (isPast && month >= 0 && year === undefined) local.setUTCFullYear(local.getUTCFullYear() + 1);
  // On that day, the zone's offset may be different from today's.
  const guess = new Date(now.getTime() + local.getTime() - today.getTime());
  return new Date(guess.getTime() + local.getTime() - wallClock(guess, zone).getTime());
}

/** Returns the local time in the zone, as if it were UTC. */
function wallClock(at: Date, zone: string | undefined): Date {
  try {
    const options = { timeZone: zone, hourCycle: "h23", dateStyle: "short", timeStyle: "medium" } as const;
    return new Date(`${new Intl.DateTimeFormat("sv-SE", options).format(at).replace(" ", "T")}Z`);
  } catch {
    // The zone's name is unknown, so this machine's zone is used.
    return wallClock(at, undefined);
  }
}
