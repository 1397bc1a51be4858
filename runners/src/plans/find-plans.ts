import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Matches the file names of plans. */
const NAMES = /^(?:tasks\.md|@?(?:implementation|fix)_plan\.md|prd\.json|tasks\.json|.*\.story\.md)$/i;
const LEFT_OUT = /^(?:node_modules|\.git|dist|vendor|archive|templates?)$/i;
/** Matches documents that may have check boxes, but no items. */
const OTHERS = /^(?:readme|changelog|contributing|spec|requirements|design|proposal|plan|checklist.*)\.md$/i;

/**
 * Yields the plans in a folder and its subfolders, in the order of their names: files with the name of a plan, and
 * Markdown files with check boxes in the folder itself. Hidden folders such as `.kiro` are also searched.
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
