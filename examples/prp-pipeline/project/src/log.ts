/** One line of a work log: the time, the project, and a note. */
export interface Entry {
  /** `2026-11-16`: the day on which the work began. */
  readonly day: string;
  /** Minutes after midnight. */
  readonly start: number;
  /** Minutes after midnight. */
  readonly end: number;
  readonly project: string;
  readonly note: string;
}

/** Thrown for a log that can't be parsed. The message begins with the number of the line. */
export class LogError extends Error {
  override readonly name = "LogError";
}

/** Parses a work log. Skips empty lines and lines that begin with `#`. */
export function parseLog(text: string): Entry[] {
  const entries: Entry[] = [];
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    entries.push(parseLine(line, index + 1));
  }
  return entries;
}

/** Formats minutes: 570 as `9:30`. */
export function clock(minutes: number): string {
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}`;
}

const LINE = /^(\d{4}-\d\d-\d\d)\s+(\S+)-(\S+)\s+([a-z][a-z0-9-]*)(?:\s+(.*))?$/;

function parseLine(line: string, number: number): Entry {
  const [, day, start, end, project, note = ""] = LINE.exec(line) ?? [];
  if (day === undefined || start === undefined || end === undefined || project === undefined)
    throw new LogError(`${number}: expected "2026-11-16 09:00-12:15 project note", found ${JSON.stringify(line)}`);
  return { day, start: parseTime(start, number), end: parseTime(end, number), project, note: note.trim() };
}

function parseTime(text: string, number: number): number {
  const [, hours, minutes] = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  if (hours === undefined || minutes === undefined)
    throw new LogError(`${number}: ${JSON.stringify(text)} is no time of day between 00:00 and 23:59`);
  return Number(hours) * 60 + Number(minutes);
}
