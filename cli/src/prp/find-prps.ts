import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";

/** A file in a folder. */
export interface FoundPrp {
  readonly path: string;
  /** False if only the file's gates can show that it is a PRP. */
  readonly isCertain: boolean;
}

/**
 * Yields the Markdown and JSON files below a folder that look like PRPs, in order. Hidden folders and node_modules are
 * left out.
 */
export async function* prpsBelow(folder: string): AsyncGenerator<FoundPrp> {
  const above = dirname(resolve(folder));
  for await (const path of filesBelow(folder)) {
    const isCertain = looksLikePrp(relative(above, path), await readFile(path, "utf8"));
    if (isCertain !== undefined) yield { path, isCertain };
  }
}

async function* filesBelow(folder: string): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && !entry.name.startsWith(".") && entry.name !== "node_modules") yield* filesBelow(path);
    if (entry.isFile() && /\.(?:md|markdown|json)$/i.test(entry.name)) yield path;
  }
}

/** Returns `undefined` if the file doesn't look like a PRP. */
function looksLikePrp(path: string, text: string): boolean | undefined {
  if (/\.json$/i.test(path)) return text.includes('"validationGates"') || undefined;
  const top = text.slice(0, TOP);
  if (/^prp\./i.test(basename(path)) || PRP_ID.test(top)) return true;
  const headings = new Set([...text.matchAll(USUAL)].map(([, heading = ""]) => heading.toLowerCase()));
  const namesGates = GATES.test(text);
  if (headings.size + (namesGates ? 1 : 0) >= 2 && (namesGates || NAME.test(path) || NAME.test(top))) return true;
  return NAME.test(path) ? false : undefined;
}

/** How many characters at the start of a text are searched. */
const TOP = 2_000;
const PRP_ID = /^[^\p{L}\r\n\u2028\u2029]*PRP[\s_-]*ID[\s*_`]*[:：]/imu;
const GATES = /^(?:#{1,6} .*|\*\*.*)\bvalidation (?:loops?|gates?)\b/im;
const NAME = /(?:^|[^a-z])prps?(?:[^a-z]|$)|product requirements? prompt/i;
/** Headings of the usual template. */
const USUAL =
  /^#{1,6}[^\p{L}\r\n\u2028\u2029]*(goal|why|what|success criteria|all needed context|implementation (?:blueprint|tasks|steps|plan)|final validation)\b/gimu;
