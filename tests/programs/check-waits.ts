// A wait's limit and a sleep's date are those with which it began (docs/waiting.md).
import type { Seen } from "./seen.js";

export function waitViolations(seen: readonly Seen[]): readonly string[] {
  const violations: string[] = [];
  const begun = new Map<string, { readonly turn: number; readonly until: string }>();
  const inputs = new Set(seen.flatMap((line) => (line.is === "body" ? (line.input ?? []) : [])));
  for (const line of seen) {
    // These drop the starts of waits, too.
    if (line.is === "dropped" || inputs.size > 1) begun.clear();
    if (line.is !== "waiting" && line.is !== "got") continue;
    const wait = `${line.task}, generation ${line.generation}: "${line.title}"`;
    // If a wait that has ended begins again, its end was dropped.
    if (line.is === "got") begun.delete(wait);
    else {
      const { turn, until } = line;
      const before = begun.get(wait);
      if (before?.turn === turn && before.until !== until)
        violations.push(`${wait} waits until ${until}, and until ${before.until} before`);
      begun.set(wait, line);
    }
  }
  return violations;
}
