const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `1 checkpoint`, `12,000 checkpoints`. */
export function counted(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
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

/** `3 minutes ago`, `in 3 hours`. An invalid date stays unchanged. */
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

/** `840 ms`, `3.1 s`, `4 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function durationText(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${Number((ms / SECOND).toFixed(1))} s`;
  const [[big, bigMs], [small, smallMs]] =
    ms < HOUR
      ? ([
          ["min", MINUTE],
          ["s", SECOND],
        ] as const)
      : ms < DAY
        ? ([
            ["h", HOUR],
            ["min", MINUTE],
          ] as const)
        : ([
            ["d", DAY],
            ["h", HOUR],
          ] as const);
  const rest = Math.floor((ms % bigMs) / smallMs);
  return `${Math.floor(ms / bigMs)} ${big}${rest === 0 ? "" : ` ${rest} ${small}`}`;
}

/** `+0 ms`, `+1.07 s`, `+2 h 10 min`: how long after the beginning. */
export function offsetText(ms: number): string {
  return `+${ms >= SECOND && ms < 10 * SECOND ? `${Number((ms / SECOND).toFixed(2))} s` : durationText(ms)}`;
}

/** `2026-11-21 10:00:05.120`, in UTC as in the command's answers. An invalid date stays unchanged. */
export function timeText(isoDate: string): string {
  return isoDate.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z$/, "$1 $2");
}

const BINARY_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

const AGE_UNITS = [
  ["day", DAY],
  ["hour", HOUR],
  ["minute", MINUTE],
  ["second", SECOND],
] as const;
