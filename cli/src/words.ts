/** `1 checkpoint`, `12,000 checkpoints`. */
export function counted(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** `3 checkpoints`, `3 checkpoints and 4 records`. */
export function checkpointsText(checkpoints: number, records: number): string {
  return `${counted(checkpoints, "checkpoint")}${records === 0 ? "" : ` and ${counted(records, "record")}`}`;
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

const BINARY_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const AGE_UNITS = [
  ["day", DAY],
  ["hour", HOUR],
  ["minute", MINUTE],
  ["second", SECOND],
] as const;
