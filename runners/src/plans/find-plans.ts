import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** The names of plans. */
const NAMES = /^(?:tasks\.md|@?(?:implementation|fix)_plan\.md|prd\.json|tasks\.json|.*\.story\.md)$/i;
const LEFT_OUT = /^(?:node_modules|\.git|dist|vendor|archive|templates?)$/i;
/** Documents that may have check boxes, but no items. */
const OTHERS = /^(?:readme|changelog|contributing|spec|requirements|design|proposal|plan|checklist.*)\.md$/i;

/**
 * Yields the plans in a folder and below, in order: files that are named as plans are, and Markdown of the folder itself that has
 * check boxes. Also looks into hidden folders, such as `.kiro`.
 */
export async function* findPlans(folder: string, isBelow = false): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const { name } = entry;
    const path = join(folder, name);
    if (entry.isDirectory() && !LEFT_OUT.test(name)) yield* findPlans(path, true);
    else if (entry.isFile() && (NAMES.test(name) || (!isBelow && (await hasBoxes(path, name))))) yield path;
  }
}

async function hasBoxes(path: string, name: string): Promise<boolean> {
  if (!/\.md$/i.test(name) || OTHERS.test(name)) return false;
  return /^\s*[-*+] \[.?\]/mu.test(await readFile(path, "utf8"));
}
