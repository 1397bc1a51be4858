// A wait's limit and a sleep's date are those with which it began, and neither ends earlier (docs/waiting.md).
import type { Seen } from "./seen.js";

export function waitViolations(seen: readonly Seen[]): readonly string[] {
  const violations: string[] = [];
  const ends = new Map<string, string>();
  const inputs = new Set(seen.flatMap((line) => (line.is === "body" ? (line.input ?? []) : [])));
  for (const line of seen) {
    // These drop the starts of waits, too.
    if (line.is === "dropped" || inputs.size > 1) ends.clear();
    if (line.is !== "waiting") continue;
    const { task, generation, turn, title, until } = line;
    const wait = `${task}, generation ${generation}, turn ${turn} of the run: "${title}"`;
    const before = ends.get(wait);
    if (before !== undefined && before !== until)
      violations.push(`${wait} waits until ${until}, and until ${before} before`);
    ends.set(wait, before ?? until);
  }
  return violations;
}
