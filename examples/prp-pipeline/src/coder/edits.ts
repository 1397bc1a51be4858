import { readFile, writeFile } from "node:fs/promises";

/** A change to one file: to its whole content, or to one place in it. */
export type Edit =
  | { readonly path: string; readonly content: string }
  | { readonly path: string; readonly find: string; readonly replaceBy: string };

/**
 * Makes the edits in order in the working folder. Skips edits that were already made, because a coder that was killed
 * halfway is called again.
 *
 * @throws {Error} A file doesn't have exactly one place for an edit.
 */
export async function applyEdits(edits: readonly Edit[]): Promise<void> {
  for (const edit of edits) await writeFile(edit.path, "content" in edit ? edit.content : await edited(edit));
}

async function edited({ path, find, replaceBy }: { path: string; find: string; replaceBy: string }): Promise<string> {
  const text = await readFile(path, "utf8");
  if (text.includes(replaceBy)) return text;
  const [before, after, ...more] = text.split(find);
  if (before === undefined || after === undefined || more.length > 0)
    throw new Error(`${path} doesn't have exactly one place that reads ${JSON.stringify(find)}`);
  return before + replaceBy + after;
}
