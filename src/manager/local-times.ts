/** A local time: a Date whose UTC fields are those of the time zone. */
export type LocalTime = Date;

/**
 * The last zone that was used. It is kept because making a formatter takes a millisecond, and each save may make a
 * plan.
 */
let known = { timeZone: "UTC", localTime: (ms: number): LocalTime => new Date(ms) };

/**
 * Returns a function from milliseconds since 1970 to local time.
 *
 * @param timeZone - An IANA name. Default `UTC`.
 * @throws {RangeError} There is no such time zone.
 */
export function localTimes(timeZone = "UTC"): (ms: number) => LocalTime {
  if (timeZone !== known.timeZone) {
    known = { timeZone, localTime: timeZone === "UTC" ? (ms) => new Date(ms) : zoneTimes(timeZone) };
  }
  return known.localTime;
}

/**
 * @param name - For the message.
 * @throws {TypeError | RangeError} The time zone isn't text, or this version of Node doesn't know it.
 */
export function checkTimeZone(name: string, timeZone: string): void {
  if (typeof timeZone !== "string") throw new TypeError(`${name} must be the name of a time zone, as text.`);
  try {
    localTimes(timeZone);
  } catch (cause) {
    throw new RangeError(
      `${name} must be an IANA name of a time zone, such as "Europe/Berlin"; it is ${JSON.stringify(timeZone)}.`,
      { cause },
    );
  }
}

function zoneTimes(timeZone: string): (ms: number) => LocalTime {
  // Formatting only the hour and the offset, as "15 GMT+13:00", takes a quarter of the time of a whole date.
  const format = new Intl.DateTimeFormat("en-US", { timeZone, hour: "numeric", timeZoneName: "longOffset" });
  return (ms) => {
    const [, sign, ...parts] = /GMT(?:([+-])(\d+):(\d+)(?::(\d+))?)?/.exec(format.format(ms)) ?? [];
    const [hours = 0, minutes = 0, seconds = 0] = parts.map((part = "0") => Number(part));
    const offsetMs = ((hours * 60 + minutes) * 60 + seconds) * 1000;
    return new Date(sign === "-" ? ms - offsetMs : ms + offsetMs);
  };
}

/** `2026-W47`. A week belongs to the year of its Thursday: 2027-01-01 is in 2026-W53. */
export function formatWeek(time: LocalTime): string {
  const daysSinceMonday = (time.getUTCDay() + 6) % 7;
  const thursday = new Date(time.getTime() + (3 - daysSinceMonday) * DAY);
  const year = thursday.toISOString().slice(0, 4);
  const week = 1 + Math.floor((thursday.getTime() - Date.parse(`${year}-01-01`)) / (7 * DAY));
  return `${year}-W${String(week).padStart(2, "0")}`;
}

const DAY = 86_400_000;
