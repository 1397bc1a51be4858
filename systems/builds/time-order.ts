/**
 * SQL for the second that a column's text names, since 1970; NULL where it names none. (SQLite by itself would also take
 * `now`, and any number, for a time.)
 */
export function secondOf(column: string): string {
  return `CASE WHEN ${column} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN unixepoch(${column}) END`;
}

/**
 * SQL that puts the newest first, of rows that are inserted and never updated: by their second, and within one in the
 * order in which they came. Their texts don't tell that order, since those of `datetime('now')` have no fraction: they
 * would come before all that Waymark has written in the same second. (Waymark's own texts grow from row to row, so for
 * them both orders are the same.) Between seconds the time counts, not the order. What names no time comes last.
 */
export function newestFirst(column: string): string {
  return `ORDER BY ${secondOf(column)} DESC, rowid DESC`;
}

/**
 * SQL that puts the latest time first: that which the next one has to come after, whoever wrote it last. It is the order
 * of rows that are updated, too, whose rowids tell nothing.
 */
export function latestFirst(column: string): string {
  return `ORDER BY ${secondOf(column)} DESC, ${column} DESC, rowid DESC`;
}

/** The latest time in a table: its second, and the text that names it. */
export interface LatestTime {
  readonly second: unknown;
  readonly text: unknown;
}

/**
 * A text for this moment, which comes after the latest one so far: by its time and as a text, beside those of
 * `datetime('now')` too. Where the clock stands still or was set back, it is a microsecond later than the latest one.
 */
export function nextTimestamp(nowMs: number, latest: LatestTime | undefined): string {
  const now = BigInt(Math.floor(nowMs)) * 1000n;
  const after = microsAfter(latest);
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

function microsAfter(latest: LatestTime | undefined): bigint {
  if (typeof latest?.second !== "number") return 0n;
  const micros = microsOf(latest.text);
  // Of another form (ISO 8601 with its T and Z), so within one second the texts don't tell which is later.
  return micros === undefined ? BigInt(latest.second + 1) * 1_000_000n : micros + 1n;
}

/** Of a text such as SQLite writes. */
function microsOf(text: unknown): bigint | undefined {
  const parts = typeof text === "string" ? /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?$/.exec(text) : null;
  if (parts === null) return undefined;
  const [, date, time, fraction = ""] = parts;
  const ms = Date.parse(`${date}T${time}Z`);
  return Number.isNaN(ms) ? undefined : BigInt(ms) * 1000n + BigInt(fraction.padEnd(6, "0").slice(0, 6));
}
