import { formatPath, type PathStep } from "../../src/codec/path.js";

/** A text that is longer than what a checkpoint is for. */
export interface LargeText {
  /** A JSON path. */
  readonly path: string;
  /** In UTF-8. */
  readonly bytes: number;
}

/** The texts in a value that take more than so many bytes, the largest first. The value is plain JSON. */
export function largeTextsIn(value: unknown, aboveBytes: number): readonly LargeText[] {
  const found: LargeText[] = [];
  collect(value, [], aboveBytes, found);
  return found.sort((a, b) => b.bytes - a.bytes);
}

function collect(value: unknown, steps: PathStep[], aboveBytes: number, found: LargeText[]): void {
  if (typeof value === "string") {
    // No UTF-16 unit takes more than three bytes: most texts needn't be counted.
    const bytes = value.length * 3 > aboveBytes ? Buffer.byteLength(value) : 0;
    if (bytes > aboveBytes) found.push({ path: formatPath(steps), bytes });
    return;
  }
  if (typeof value !== "object" || value === null) return;
  const entries = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [key, item] of entries) {
    steps.push(key);
    collect(item, steps, aboveBytes, found);
    steps.pop();
  }
}
