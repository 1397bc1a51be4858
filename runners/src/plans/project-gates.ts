import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isRecord } from "waymark/kit";
import { findScript } from "./item-gates.js";
import type { PlanItem } from "./plan.js";

/** The scripts of the folder's package.json. */
export async function readScripts(folder: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const manifest: unknown = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    return isRecord(manifest) && isRecord(manifest["scripts"]) ? manifest["scripts"] : {};
  } catch {
    // Without a readable package.json there are no scripts.
    return {};
  }
}

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
