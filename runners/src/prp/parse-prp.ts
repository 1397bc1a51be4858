import { PrpError } from "./errors.js";
import type { GateShell } from "./gates/gate-script.js";
import { findCommand, type LeftBlock } from "./reading/commands.js";
import { type Level, levelsIn } from "./reading/levels.js";
import { type OutlineItem, parseOutline, plain } from "./reading/outline.js";
import { idsIn, type TextIds, withoutFrontMatter } from "./reading/prp-id.js";
import { chooseSection, type Section } from "./reading/validation-section.js";

/** The id and gates that a PRP's Markdown names. */
export interface ParsedPrp {
  readonly ids: TextIds;
  /** The heading of the section with the gates. */
  readonly section: string;
  readonly gates: readonly ParsedGate[];
}

/** A level of the validation section. Levels are in the order of their numbers. */
export interface ParsedGate {
  readonly level: number;
  readonly description: string;
  /** Null if the level has no command. */
  readonly command: string | null;
  readonly shell: GateShell;
  /** The line of the heading, from 1. */
  readonly line: number;
  /** For each line of the command, its line in the Markdown, from 1. */
  readonly lines: readonly number[];
  /** The code blocks that aren't run. */
  readonly left: readonly LeftBlock[];
}

/**
 * Reads a PRP's id and its gates. The gates are the levels of the section whose heading says validation, with the
 * commands of their shell blocks. The reader relies on the text's structure and on numbers, not on English words.
 *
 * @param path - For messages.
 * @param name - The heading of the section with the gates, if its own words don't identify it.
 * @throws {PrpError} `PRP_INVALID`: no section holds the gates, or several could.
 */
export function parsePrp(markdown: string, path: string, name?: string): ParsedPrp {
  const { text, frontMatter } = withoutFrontMatter(markdown);
  const items = parseOutline(text);
  if (items === undefined) {
    throw new PrpError(
      "PRP_INVALID",
      `${path} can't be read as a PRP: it nests more than 9 lists or 18 quotes. Nothing was run; write it flatter.`,
    );
  }
  const [section, sections] = findSections(items, path, name);
  return { ids: idsIn(items, frontMatter), section, gates: levelsIn(sections).map(toGate) };
}

function findSections(
  items: readonly OutlineItem[],
  path: string,
  name: string | undefined,
): [name: string, Section[]] {
  const { chosen, others } = chooseSection(items, name);
  const [section, another] = chosen;
  const isClear = chosen.every(
    ({ heading }) => section !== undefined && plain(heading.text) === plain(section.heading.text),
  );
  if (section !== undefined && isClear) return [section.heading.text, [...chosen]];
  const candidates = another === undefined ? others : chosen;
  const list = candidates.map(({ heading }) => `"${heading.text}" (line ${heading.line})`).join(", ");
  const why =
    another !== undefined
      ? "more than one section could hold its gates"
      : name === undefined
        ? "no section with code has a heading that says validation"
        : `no section with code has the heading ${JSON.stringify(name)}`;
  const advice =
    list === "" ? "It has no section with commands." : `Name the one that holds the gates (--section): ${list}.`;
  throw new PrpError(
    "PRP_INVALID",
    `${path} names no validation gates: ${why}, so nothing can show that its work is done. ${advice}`,
  );
}

function toGate({ number, title, line, items }: Level): ParsedGate {
  const { lines, shell, left } = findCommand(items);
  return {
    level: number,
    description: title,
    command: lines.length > 0 ? lines.map(({ text }) => text).join("\n") : null,
    shell,
    line,
    lines: lines.map((each) => each.line),
    left,
  };
}
