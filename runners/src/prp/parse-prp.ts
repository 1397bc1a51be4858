import { RunnerError } from "../runner-error.js";
import { findCommand, type LeftBlock } from "./reading/commands.js";
import { type Level, levelsIn } from "./reading/levels.js";
import { type CodeBlock, numberIn, type OutlineItem, parseOutline, plain } from "./reading/outline.js";
import { idsIn, type TextIds, withoutFrontMatter } from "./reading/prp-id.js";
import { chooseSection, type Section, saysValidation } from "./reading/validation-section.js";

/** The id and gates that a PRP's Markdown names. */
export interface ParsedPrp {
  readonly ids: TextIds;
  /** The heading of the section with the gates. */
  readonly section: string;
  /** The gates in the order of their levels. */
  readonly gates: readonly ParsedGate[];
}

/** A gate of a PRP: a level of the validation section, or an entry of a JSON document's `validationGates`. */
export interface ParsedGate {
  readonly level: number;
  readonly description: string;
  /** Null if the level has no command. */
  readonly command: string | null;
  /** The line of the heading, from 1; absent if the PRP is JSON. */
  readonly line?: number;
  /** For each line of the command, its line in the PRP, from 1. Empty if the PRP is JSON. */
  readonly lines: readonly number[];
  /** The code blocks of the level that aren't run. */
  readonly left: readonly LeftBlock[];
  /** The reason why the gate isn't run. */
  readonly skipped?: string | undefined;
}

/**
 * Reads a PRP's id and its gates. The gates are the levels of the section whose heading says validation, with the
 * commands of their shell blocks. The reader relies on the text's structure and on numbers, not on English words.
 *
 * @param path - For messages.
 * @param name - The heading of the section with the gates, if the heading's words don't identify it.
 * @throws {RunnerError} `PRP_INVALID`: no section holds the gates, or several could.
 */
export function parsePrp(markdown: string, path: string, name?: string): ParsedPrp {
  const { text, frontMatter } = withoutFrontMatter(markdown);
  const items = parseOutline(text);
  if (items === undefined) {
    throw new RunnerError(
      "PRP_INVALID",
      `${path} can't be read as a PRP: it nests more than 9 lists or 18 quotes. Nothing was run; write it flatter.`,
    );
  }
  assertClosed(
    items.filter((item) => item.kind === "code" && item.isOpen),
    path,
  );
  if (name === undefined && isStory(items)) throw new RunnerError("PRP_INVALID", `${path} ${STORY}`);
  const [section, sections] = findSections(items, text, path, name);
  return { ids: idsIn(items, frontMatter), section, gates: levelsIn(sections).map(toGate) };
}

/** @throws {RunnerError} One of the code blocks contains a heading. */
function assertClosed(items: readonly OutlineItem[], path: string): void {
  for (const item of items) {
    const swallowed = item.kind === "code" ? swallowedHeading(item) : undefined;
    if (swallowed !== undefined) throw new RunnerError("PRP_INVALID", `${path} can't be read as a PRP: ${swallowed}`);
  }
}

/** Describes a heading that is read as code because the fence above it isn't closed; `undefined` if there is none. */
function swallowedHeading({ text, line, marks, isOpen }: CodeBlock): string | undefined {
  const lines = text.split("\n");
  const headings = lines.flatMap((each, at) =>
    /^#{2,6} \S/.test(each) ? [{ at, title: each.replace(/^#+ /, "") }] : [],
  );
  const closing = lines.findIndex((each) => each.trimStart().startsWith(marks));
  const saysGates = ({ title }: { readonly title: string }): boolean => saysValidation({ text: title, depth: 2 });
  // In shell code, a line that looks like a heading may be a comment.
  const isSure = ({ title }: { readonly title: string }): boolean =>
    closing !== -1 || numberIn(title)?.isNamed === true;
  const heading = headings.find(saysGates) ?? (isOpen ? headings.find(isSure) : undefined);
  if (heading === undefined || (!isOpen && closing === -1)) return undefined;
  const why = closing === -1 || closing > heading.at ? "" : `: line ${line + closing} has text after its marks`;
  return (
    `the fence of line ${line - 1} isn't closed${why}. So the heading ` +
    `${JSON.stringify(heading.title)} of line ${line + heading.at} is read as code. Nothing was run; close the fence.`
  );
}

/** Whether the text is a story of the BMAD method, whose blocks set up services. */
function isStory(items: readonly OutlineItem[]): boolean {
  const [title, ...others] = items.filter((item) => item.kind === "heading");
  return (
    /^story \d+([.-]\d+)*\b/i.test(title?.text ?? "") && others.some(({ text }) => /^acceptance criteria\b/i.test(text))
  );
}

const STORY =
  "is a story of the BMAD method, not a PRP: its code sets things up, and no section holds validation gates. Nothing was " +
  "run. Name the section whose code checks the work (--section).";

function findSections(
  items: readonly OutlineItem[],
  markdown: string,
  path: string,
  name: string | undefined,
): [name: string, Section[]] {
  const { chosen, others, withoutCode } = chooseSection(items, name);
  const [section, another] = chosen;
  const isClear = chosen.every(
    ({ heading }) => section !== undefined && plain(heading.text) === plain(section.heading.text),
  );
  if (section !== undefined && isClear) return [section.heading.text, [...chosen]];
  // An unclosed block may also end at the fence of a later block.
  if (section === undefined && name === undefined) assertClosed(items, path);
  const candidates = another === undefined ? others : chosen;
  const list = candidates.map(({ heading }) => `"${heading.text}" (line ${heading.line})`).join(", ");
  const why =
    another !== undefined
      ? "more than one section could hold its gates"
      : name === undefined
        ? "no section with code has a heading that says validation"
        : `no section with code has the heading ${JSON.stringify(name)}`;
  const named = withoutCode.map((section) => describeWithoutCode(section, markdown)).join("");
  const advice =
    list === "" ? "It has no section with commands." : `Name the one that holds the gates (--section): ${list}.`;
  throw new RunnerError(
    "PRP_INVALID",
    `${path} names no validation gates: ${why}, so nothing can show that its work is done. ${named}${advice}`,
  );
}

function describeWithoutCode({ heading, items }: Section, markdown: string): string {
  const named = `"${heading.text}" (line ${heading.line}) has no block of commands`;
  const lines = markdown.split("\n");
  const commands = items.flatMap(({ line }) => lines[line - 1]?.match(/`[^`]+`/g) ?? []);
  return `${named}${commands.length === 0 ? "" : `, only ${commands.slice(0, 3).join(", ")} in its text`}. `;
}

function toGate({ number, title, line, items }: Level): ParsedGate {
  const { lines, left } = findCommand(items);
  const languages = [...new Set(left.filter(({ why }) => why.startsWith("other")).map(({ language }) => language))];
  const whyNone =
    languages.length === 0
      ? "it has no command: a person checks it"
      : `it only has ${languages.join(" and ")}, which no shell runs`;
  return {
    level: number,
    description: title,
    command: lines.length > 0 ? lines.map(({ text }) => text).join("\n") : null,
    line,
    lines: lines.map((each) => each.line),
    left,
    skipped: lines.length > 0 ? undefined : whyNone,
  };
}
