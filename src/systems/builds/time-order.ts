/**
 * SQL for the second that a column's text names, since 1970; NULL where it names none. (SQLite by itself would also take
 * `now`, and any number, for a time.)
 */
export function secondOf(column: string): string {
  return `CASE WHEN ${column} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN unixepoch(${column}) END`;
}

/**
 * SQL that puts the newest first. Among what `datetime('now')` and Waymark write, this is the order of the texts; rows
 * of one text are in the order in which they came. What names no time comes last.
 */
export function newestFirst(column: string): string {
  return `ORDER BY ${secondOf(column)} DESC, ${column} DESC, rowid DESC`;
}

/** The newest time in a table: its second, and the text that names it. */
export interface NewestTime {
  readonly second: unknown;
  readonly text: unknown;
}

/**
 * A text for this moment, which comes after the newest one so far: by its time and as a text, beside those of
 * `datetime('now')` too. Where the clock stands still or was set back, it is a microsecond later than the newest one.
 */
export function nextTimestamp(nowMs: number, newest: NewestTime | undefined): string {
  const micros = Math.max(Math.floor(nowMs) * 1000, microsAfter(newest));
  const iso = new Date(Math.floor(micros / 1000)).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 23)}${String(micros % 1000).padStart(3, "0")}`;
}

/** The time that {@link secondOf} has found, in ISO 8601; `""` where it has found none. */
export function isoOf(second: unknown, text: unknown): string {
  if (typeof second !== "number") return "";
  const micros = microsOf(text);
  return new Date(micros === undefined ? second * 1000 : Math.floor(micros / 1000)).toISOString();
}

function microsAfter(newest: NewestTime | undefined): number {
  if (typeof newest?.second !== "number") return 0;
  const micros = microsOf(newest.text);
  // Of another form (ISO 8601 with its T and Z), so within one second the texts don't tell which is later.
  return micros === undefined ? (newest.second + 1) * 1_000_000 : micros + 1;
}

/** Microseconds since 1970, of a text such as SQLite writes. */
function microsOf(text: unknown): number | undefined {
  const parts = typeof text === "string" ? /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?$/.exec(text) : null;
  if (parts === null) return undefined;
  const [, date, time, fraction = ""] = parts;
  const ms = Date.parse(`${date}T${time}Z`);
  return Number.isNaN(ms) ? undefined : ms * 1000 + Number(fraction.padEnd(6, "0").slice(0, 6));
}
