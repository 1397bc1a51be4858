import { readFile, writeFile } from "node:fs/promises";

/**
 * Ticks the PRP's success criteria, as agents do when they believe that their work is done. Only the gates can prove
 * it.
 */
export async function tickCriteria(path: string): Promise<void> {
  const sections = (await readFile(path, "utf8")).split(/(?=^#+ )/m);
  const ticked = sections.map((section) =>
    section.startsWith("### Success Criteria") ? section.replaceAll("- [ ] ", "- [x] ") : section,
  );
  await writeFile(path, ticked.join(""));
}
