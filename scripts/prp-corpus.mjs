// @ts-check
// node scripts/prp-corpus.mjs FOLDER…: checks the PRPs below each folder with `checkPrp`. Needs a build. Prints how
// many PRPs have commands, how many of these can be read, the number of their gates, and the refused PRPs with the
// reasons. `--list` also prints the gates of each PRP, to compare them with its text.
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { checkPrp } from "waymark-runners/prp";

/** Headings of the usual template. */
const USUAL =
  /^#{1,6}[^\p{L}\n]*(goal|why|what|purpose|feature|success criteria|all needed context|implementation)\b/gimu;

const isListing = process.argv.includes("--list");
const folders = process.argv.slice(2).filter((argument) => argument !== "--list");
const all = { prps: 0, read: 0, gates: 0, runnable: 0 };

for (const folder of folders) {
  const prps = filesBelow(folder).filter((path) => looksLikePrp(path, folder));
  const of = { prps: 0, read: 0, gates: 0, runnable: 0 };
  /** @type {string[]} */
  const refused = [];
  for (const path of prps) {
    of.prps += 1;
    try {
      const { gates, problems } = await checkPrp(path);
      const runs = gates.filter(({ skipped }) => skipped === undefined);
      if (runs.length === 0) throw new Error(problems.join(" "));
      of.read += 1;
      of.gates += runs.length;
      if (problems.length === 0) of.runnable += 1;
      if (isListing) list(relative(folder, path), gates);
    } catch (error) {
      const reason = error instanceof Error ? error.message.replace(path, "It").slice(0, 240) : String(error);
      refused.push(`  ${relative(folder, path)}\n    ${reason.replaceAll("\n", " ")}`);
    }
  }
  for (const key of /** @type {const} */ (["prps", "read", "gates", "runnable"])) all[key] += of[key];
  console.log(
    `${basename(folder)}: ${of.prps} PRPs with commands, ${of.read} read, ${of.gates} gates, ${of.runnable} can be run as they are`,
  );
  for (const line of refused) console.log(line);
}
const share = ((100 * all.read) / Math.max(all.prps, 1)).toFixed(1);
console.log(
  `\nIn all: ${all.prps} PRPs with commands, ${all.read} read (${share} of 100), ${all.gates} gates, ${all.runnable} can be run as they are`,
);

/** @param {string} name @param {Awaited<ReturnType<typeof checkPrp>>["gates"]} gates */
function list(name, gates) {
  console.log(`== ${name}`);
  for (const { level, description, line, skipped, statements } of gates) {
    console.log(`Level ${level}: ${description} (line ${line})${skipped === undefined ? "" : `: skipped, ${skipped}`}`);
    for (const statement of statements) console.log(`  ${statement.line}  ${statement.text.split("\n")[0]}`);
  }
}

/** @param {string} folder @returns {string[]} */
function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:md|markdown)$/i.test(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
}

/**
 * Whether a file is a PRP with commands: its name or a heading contains "PRP", it has headings of the usual template, and it
 * has a code fence of a shell. Headings about validation aren't required.
 *
 * @param {string} path @param {string} folder
 */
function looksLikePrp(path, folder) {
  const text = readFileSync(path, "utf8");
  const name = relative(folder, path);
  if (
    /template|readme|claude\.md|agents\.md|(?:^|\/)(?:commands|skills|docs|ai_docs|research|architecture)\/|(?:^|\/)[^/]*prd[^/]*$/i.test(
      name,
    )
  )
    return false;
  const isPrp = /(?:^|[^a-z])prps?(?:[^a-z]|$)/i.test(name) || /^#.*\bPRP\b|\bPRP ID\b/m.test(text.slice(0, 2_000));
  const headings = new Set([...text.matchAll(USUAL)].map(([, heading = ""]) => heading.toLowerCase()));
  return isPrp && headings.size >= 2 && /^\s*(?:`{3,}|~{3,})\s*(?:bash|sh|shell|zsh|console|terminal)\b/im.test(text);
}
