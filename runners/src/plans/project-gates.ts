import { findScript } from "./item-gates.js";
import type { PlanItem } from "./plan.js";

/** The commands that must succeed for an item: those that it names itself, then the common ones. */
export function gatesFor(
  item: PlanItem,
  common: readonly string[],
  scripts: Readonly<Record<string, unknown>>,
): readonly string[] {
  const named = item.checks.flatMap((check) => findScript(check, scripts) ?? []);
  // The items within a group have passed the common gates just before.
  return [...new Set([...item.gates, ...named, ...(item.isGroup ? [] : common)])];
}
