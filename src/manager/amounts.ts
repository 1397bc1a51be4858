const TIME_UNITS = [
  ["day", 24 * 60 * 60 * 1000],
  ["hour", 60 * 60 * 1000],
  ["minute", 60 * 1000],
  ["second", 1000],
] as const;

const BYTE_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

/** Formats a duration in the largest unit that divides it: `30 days`, `36 hours`, `1 minute`. */
export function formatDuration(ms: number): string {
  const [unit, size] = TIME_UNITS.find(([, size]) => ms % size === 0) ?? ["millisecond", 1];
  return formatCount(ms / size, unit);
}

/** Formats a size in its largest unit, to two decimals: `10 MiB`, `1.5 KiB`, `999 bytes`. */
export function formatBytes(bytes: number): string {
  const [unit, size] = BYTE_UNITS.find(([, size]) => bytes >= size) ?? ["byte", 1];
  return size === 1 ? formatCount(bytes, unit) : `${Number((bytes / size).toFixed(2))} ${unit}`;
}

function formatCount(count: number, unit: string): string {
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}
