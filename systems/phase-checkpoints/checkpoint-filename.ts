import { toFileName } from "../../adapters/files/names.js";

/**
 * The name of a checkpoint's file: `ckpt-2026-02-01T12-00-00-000Z-build.json`. A phase is data and never a path: its
 * letters, digits, `.`, `_` and `-` stay, other bytes become `%XX`, and a long name is cut and followed by a hash.
 *
 * @param timestamp - ISO 8601. Characters other than letters and digits become `-`.
 */
export function checkpointFilename(timestamp: string, phase: string): string {
  return `${timePart(timestamp)}${toFileName(phase)}.json`;
}

/** Whether a file of that name should hold a checkpoint, whichever program wrote it. */
export function isCheckpointFilename(name: string): boolean {
  return name.startsWith("ckpt-") && name.endsWith(".json");
}

/**
 * The first unused millisecond at or after `nowMs`, in ISO 8601. Each checkpoint of a folder has its own
 * time, so each has its own file, and `createdAt` orders them.
 */
export function freeTimestamp(names: readonly string[], nowMs: number): string {
  const length = timePart(new Date(nowMs).toISOString()).length;
  const taken = new Set(names.map((name) => name.slice(0, length)));
  for (let ms = nowMs; ; ms++) {
    const timestamp = new Date(ms).toISOString();
    if (!taken.has(timePart(timestamp))) return timestamp;
  }
}

function timePart(timestamp: string): string {
  return `ckpt-${timestamp.replace(/[^0-9A-Za-z]/g, "-")}-`;
}
