import { findCommand, hasCommand } from "./commands.js";
import {
  type CodeBlock,
  type Heading,
  hasCode,
  highestDepth,
  LIST_DEPTH,
  type NumberedText,
  numberIn,
  type OutlineItem,
  plain,
  sectionAt,
  withoutEnd,
} from "./outline.js";
import type { Section } from "./validation-section.js";

/** A level of the validation section: one gate. */
export interface Level {
  readonly number: number;
  readonly title: string;
  /** The line of the heading in the Markdown, from 1. */
  readonly line: number;
  readonly items: readonly OutlineItem[];
}

/** Returns the levels of the sections with the gates, in the order of their numbers. */
export function levelsIn(sections: readonly Section[]): Level[] {
  const levels: Level[] = [];
  for (const section of sections) {
    const numbered = numberedHeadings(section.items);
    for (const level of numbered.size > 0 ? byNumbers(section, numbered) : inOrder(section, levels.length))
      levels.push(level);
  }
  return levels.toSorted((a, b) => a.number - b.number);
}

/**
 * Returns the numbered headings that are the levels: the headings of the highest depth at which one has code below it.
 * If one with code has a named number (`Level 1`), only headings with a named number count.
 */
function numberedHeadings(items: readonly OutlineItem[]): ReadonlySet<OutlineItem> {
  const numbered = items.flatMap((item, index) => {
    const number = item.kind === "heading" ? numberIn(item.text) : undefined;
    return item.kind === "heading" && number !== undefined
      ? [{ item, number, hasCode: hasCode(sectionAt(items, index)) }]
      : [];
  });
  const depth = highestDepth(numbered.filter((each) => each.hasCode).map(({ item }) => item));
  const highest = numbered.filter(({ item }) => item.depth === depth);
  const named = highest.filter(({ number }) => number.isNamed);
  return new Set((named.some((each) => each.hasCode) ? named : highest).map(({ item }) => item));
}

/**
 * Returns the numbered levels. An unnumbered part with commands is also a gate: of the previous level, or of the first.
 */
function byNumbers(section: Section, numbered: ReadonlySet<OutlineItem>): Level[] {
  const levels: Level[] = [];
  for (const part of splitParts(section, numbered)) {
    const number = numbered.has(part.heading) ? numberIn(part.heading.text) : undefined;
    if (number !== undefined) levels.push(toLevel(part, number.number, number.rest));
    else if (hasCommand([part.heading, ...part.items]))
      levels.push(toLevel(part, levels.at(-1)?.number ?? Number.NEGATIVE_INFINITY));
  }
  const first = levels.find((level) => level.number >= 0)?.number ?? 1;
  return levels.map((level) => (level.number < 0 ? { ...level, number: first } : level));
}

/**
 * Returns the unnumbered parts of a section as levels, numbered consecutively. If comments in the code name levels,
 * returns those levels.
 */
function inOrder(section: Section, counted: number): Level[] {
  const parts = splitParts(section, headingsAboveCode(section.items)).filter(({ items }) => hasCode(items));
  const gates = parts.length === 1 ? parts : parts.filter((part) => !isAboutFailure(part));
  const levels = gates.map((part, index) => toLevel(part, counted + index + 1));
  const [only] = levels;
  return only !== undefined && levels.length === 1 ? byComments(only) : levels;
}

/**
 * Splits the section at the given headings, and at every other heading of the same depth. Each part includes its
 * heading.
 */
function splitParts({ heading, items }: Section, starts: ReadonlySet<OutlineItem>): Section[] {
  const depth = [...starts].reduce((deepest, item) => Math.max(deepest, item.kind === "heading" ? item.depth : 0), 0);
  const isStart = (item: OutlineItem): item is Heading =>
    item.kind === "heading" && (starts.has(item) || item.depth <= depth);
  const at = items.flatMap((item, index) => (isStart(item) ? [{ heading: item, index }] : []));
  const own = { heading, items: items.slice(0, at[0]?.index) };
  return [
    own,
    ...at.map((start, i) => ({ heading: start.heading, items: items.slice(start.index + 1, at[i + 1]?.index) })),
  ];
}

/**
 * Returns the headings directly above code, but only the headings of the highest depth, which include the deeper ones.
 */
function headingsAboveCode(items: readonly OutlineItem[]): ReadonlySet<OutlineItem> {
  const notProse = items.filter((item, index) => item.kind !== "prose" || endsList(item, items[index - 1]));
  const above = notProse.filter(
    (item, index): item is Heading => item.kind === "heading" && notProse[index + 1]?.kind === "code",
  );
  const depth = highestDepth(above);
  return new Set(above.filter((heading) => heading.depth === depth));
}

/** Whether prose ends a list, so that code below the prose doesn't belong to the list item above it. */
function endsList(item: OutlineItem, before: OutlineItem | undefined): boolean {
  const isItem = before?.kind === "prose" ? before.isInList : before?.kind === "heading" && before.depth === LIST_DEPTH;
  return item.kind === "prose" && !item.isInList && isItem;
}

function toLevel({ heading, items }: Section, number: number, title = ""): Level {
  return {
    number,
    title: title || withoutEnd(heading.text, /[\s:：]/),
    line: heading.line,
    items: [heading, ...items],
  };
}

function isAboutFailure({ heading, items }: Section): boolean {
  const { lines, left } = findCommand([heading, ...items]);
  return lines.length === 0 && left.every(({ why }) => why === "after a failure");
}

/**
 * Returns the levels that comments in the code name, if the code begins with such a comment. If it doesn't, returns the
 * level itself.
 */
function byComments(level: Level): Level[] {
  const pieces = level.items.flatMap((item) => (item.kind === "code" ? cutAtLevels(item) : [{ item }]));
  const names = pieces.flatMap(({ name }) => name ?? []);
  const words = new Set(names.map(({ word }) => word));
  if (names.length < 2 || words.size > 1 || pieces.find(({ item }) => item.kind === "code")?.name === undefined)
    return [level];
  const levels: { number: number; title: string; line: number; items: OutlineItem[] }[] = [];
  for (const { item, name } of pieces) {
    if (name !== undefined)
      levels.push({ number: name.number, title: name.rest || level.title, line: name.line, items: [] });
    levels.at(-1)?.items.push(item);
  }
  return levels;
}

interface Piece {
  readonly item: OutlineItem;
  readonly name?: NumberedText & { readonly word: string; readonly line: number };
}

/** Splits a block of code before the comments that name a level: `# Level 1: style`, not `# Python 3 is needed`. */
function cutAtLevels(code: CodeBlock): Piece[] {
  const pieces: { lines: string[]; line: number; name?: Piece["name"] }[] = [];
  let isBlank = true;
  for (const [index, text] of code.text.split("\n").entries()) {
    const line = code.line + index;
    const [, comment, word] = /^\s*#+[\s=-]*((\p{L}+)\s*\d+(?:\.\d+)?\s*(?:[:：.)–—-].*)?)$/u.exec(text) ?? [];
    const number = comment === undefined ? undefined : numberIn(comment);
    if (number !== undefined && word !== undefined) {
      const blank = isBlank ? pieces.splice(0).flatMap(({ lines }) => lines) : [];
      pieces.push({ lines: [...blank, text], line: line - blank.length, name: { ...number, word: plain(word), line } });
    } else if (pieces.length === 0) pieces.push({ lines: [text], line });
    else pieces.at(-1)?.lines.push(text);
    isBlank &&= text.trim() === "";
  }
  return pieces.map(({ lines, line, name }) => {
    const item = { ...code, text: lines.join("\n"), line };
    return name === undefined ? { item } : { item, name };
  });
}
