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
  const now = BigInt(Math.floor(nowMs)) * 1000n;
  const after = microsAfter(newest);
  const micros = now > after ? now : after;
  // A later one would have five digits for the year, and come before all others as a text.
  return textOf(micros < LAST_MICROS ? micros : LAST_MICROS);
}

/** The time that {@link secondOf} has found, in ISO 8601; `""` where it has found none. */
export function isoOf(second: unknown, text: unknown): string {
  if (typeof second !== "number") return "";
  const micros = microsOf(text);
  return new Date(micros === undefined ? second * 1000 : Number(micros / 1000n)).toISOString();
}

/** In microseconds since 1970, as all of these: whole numbers that a double can't hold from the year 2255 on. */
const LAST_MICROS = BigInt(Date.UTC(9999, 11, 31, 23, 59, 59, 999)) * 1000n + 999n;

function textOf(micros: bigint): string {
  const iso = new Date(Number(micros / 1000n)).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, 23)}${String(micros % 1000n).padStart(3, "0")}`;
}

function microsAfter(newest: NewestTime | undefined): bigint {
  if (typeof newest?.second !== "number") return 0n;
  const micros = microsOf(newest.text);
  // Of another form (ISO 8601 with its T and Z), so within one second the texts don't tell which is later.
  return micros === undefined ? BigInt(newest.second + 1) * 1_000_000n : micros + 1n;
}

/** Of a text such as SQLite writes. */
function microsOf(text: unknown): bigint | undefined {
  const parts = typeof text === "string" ? /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?$/.exec(text) : null;
  if (parts === null) return undefined;
  const [, date, time, fraction = ""] = parts;
  const ms = Date.parse(`${date}T${time}Z`);
  return Number.isNaN(ms) ? undefined : BigInt(ms) * 1000n + BigInt(fraction.padEnd(6, "0").slice(0, 6));
}
