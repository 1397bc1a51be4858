import MarkdownIt, { type Token } from "markdown-it";

/** An item of a Markdown text's outline: a heading, code below it, or text between. Quotes are left out. */
export type OutlineItem = Heading | CodeBlock | Prose;

/** A heading, or text that is used as one. */
export interface Heading {
  readonly kind: "heading";
  /** 1 to 6; {@link BOLD_DEPTH} for a line that begins in bold, {@link LIST_DEPTH} for a list item. */
  readonly depth: number;
  readonly text: string;
  /** The line in the Markdown, from 1. */
  readonly line: number;
}

export interface CodeBlock {
  readonly kind: "code";
  /** In lower case. Empty if the fence names no language. */
  readonly language: string;
  readonly text: string;
  /** The line where the code begins, from 1. */
  readonly line: number;
  /** The characters of the block's fence. */
  readonly marks: string;
  /** True if no fence closes the block, so that it contains the rest of the text. */
  readonly isOpen: boolean;
}

export interface Prose {
  readonly kind: "prose";
  readonly text: string;
  readonly line: number;
  readonly isInList: boolean;
}

export const BOLD_DEPTH = 7;
export const LIST_DEPTH = 8;

/**
 * A text whose quotes and lists are nested deeper than this is refused: for each level, the parser reads all lines
 * inside again. A quote is one level, a list two.
 */
const MAX_NESTING = 20;

/** The parser's time grows with the length of a text, even if the text consists of marks only. */
const MARKDOWN = new MarkdownIt("commonmark", { maxNesting: MAX_NESTING });

/** Returns the outline of a Markdown text, in its order; `undefined` if its quotes or lists are nested too deeply. */
export function parseOutline(markdown: string): OutlineItem[] | undefined {
  const tokens = MARKDOWN.parse(markdown, {});
  // The parser leaves out the content of a block at this level.
  if (tokens.some(({ nesting, level }) => nesting === 1 && level >= MAX_NESTING - 1)) return undefined;
  const items: OutlineItem[] = [];
  /** The number of the next item of each list around the token; `undefined` if the list isn't numbered. */
  const lists: (number | undefined)[] = [];
  let quotes = 0;
  for (const [index, token] of tokens.entries()) {
    if (token.type === "blockquote_open") quotes += 1;
    if (token.type === "blockquote_close") quotes -= 1;
    if (quotes > 0) continue;
    const line = (token.map?.[0] ?? 0) + 1;
    switch (token.type) {
      case "heading_open":
        items.push({ kind: "heading", depth: Number(token.tag.slice(1)), text: readText(tokens[index + 1]), line });
        break;
      // Four spaces also make a code block, but usually by accident, so only fenced blocks count.
      case "fence":
        items.push({
          kind: "code",
          language: readLanguage(token),
          text: token.content.replace(/\n$/, ""),
          line: line + 1,
          marks: token.markup,
          isOpen: isOpen(token),
        });
        break;
      case "ordered_list_open":
        lists.push(Number(token.attrGet("start") ?? 1));
        break;
      case "bullet_list_open":
        lists.push(undefined);
        break;
      case "ordered_list_close":
      case "bullet_list_close":
        lists.pop();
        break;
      case "paragraph_open": {
        const [item, content] = [tokens[index - 1]?.type === "list_item_open", tokens[index + 1]];
        const text = readText(content);
        if (item) items.push(...headed(LIST_DEPTH, `${formatNumber(lists)}${text}`, line));
        else
          items.push(
            ...(beginsInBold(content)
              ? headed(BOLD_DEPTH, text, line)
              : [{ kind: "prose", text, line, isInList: lists.length > 0 } as const]),
          );
        break;
      }
      case "list_item_close": {
        const number = lists.pop();
        lists.push(number === undefined ? undefined : number + 1);
      }
    }
  }
  return items;
}

/** Whether a fenced block isn't closed. A closed block covers two lines more than its content. */
function isOpen({ map, content }: Token): boolean {
  return map !== null && map !== undefined && map[1] - map[0] < content.split("\n").length + 1;
}

/** Returns `2. ` for the second item of a numbered list. */
function formatNumber(lists: readonly (number | undefined)[]): string {
  const number = lists.at(-1);
  return number === undefined ? "" : `${number}. `;
}

/** Returns the first word after the fence. */
function readLanguage({ info }: Token): string {
  return info.trim().split(/\s/, 1)[0]?.toLowerCase() ?? "";
}

function beginsInBold(content: Token | undefined): boolean {
  return content?.children?.find(({ type, content }) => type !== "text" || content !== "")?.type === "strong_open";
}

/** Returns a text without its marks. */
function readText(content: Token | undefined): string {
  return (content?.children ?? [])
    .map((token) => {
      if (token.type === "softbreak" || token.type === "hardbreak") return "\n";
      return token.type === "image" ? readText(token) : token.content;
    })
    .join("");
}

/** Returns a one-line heading, and the rest of its paragraph as prose. */
function headed(depth: number, text: string, line: number): OutlineItem[] {
  const [first = "", ...rest] = text.split("\n");
  const heading: Heading = { kind: "heading", depth, text: first, line };
  return rest.length === 0
    ? [heading]
    : [heading, { kind: "prose", text: rest.join("\n"), line: line + 1, isInList: depth === LIST_DEPTH }];
}

/** Returns the items under the heading at `index`, up to the next heading of the same or a higher level. */
export function sectionAt(items: readonly OutlineItem[], index: number): readonly OutlineItem[] {
  const heading = items[index];
  if (heading?.kind !== "heading") return [];
  let end = index + 1;
  for (let item = items[end]; item !== undefined; item = items[++end]) {
    if (item.kind === "heading" && item.depth <= heading.depth) break;
  }
  return items.slice(index + 1, end);
}

export function hasCode(items: readonly OutlineItem[]): boolean {
  return items.some(({ kind }) => kind === "code");
}

/** Returns the least depth; infinite if there are no headings. */
export function highestDepth(headings: readonly Heading[]): number {
  return headings.reduce((highest, { depth }) => Math.min(highest, depth), Number.POSITIVE_INFINITY);
}

/** Returns the text in lower case, without accents and without a colon at the end. */
export function plain(text: string): string {
  const base = text.normalize("NFKD").replace(/\p{M}/gu, "").normalize("NFC");
  return withoutEnd(base.toLowerCase(), /[\s:：]/).trim();
}

/** Returns the text without the unwanted characters at its end. */
export function withoutEnd(text: string, unwanted: RegExp): string {
  // `/[…]+$/` would scan a run of such characters again from each position in the run.
  let end = text.length;
  while (end > 0 && unwanted.test(text.charAt(end - 1))) end -= 1;
  return text.slice(0, end);
}

/** The number at the beginning of a heading. */
export interface NumberedText {
  readonly number: number;
  /** True if a word precedes the number: `Level 1`, `级别 1`. */
  readonly isNamed: boolean;
  /** The text after the number. */
  readonly rest: string;
}

const NUMBERED = /^[^\p{L}\p{N}]*(?:(\p{L}+)[\s.:#-]*)?(\d+(?:\.\d+)?)(?![\p{N}%])\p{Lo}?[\s.:：、)\]*_–—-]*(.*)$/su;

/** Returns `undefined` unless the text, or the text after its first word, begins with a number. */
export function numberIn(text: string): NumberedText | undefined {
  const [, word, number, rest = ""] = NUMBERED.exec(text) ?? [];
  return number === undefined ? undefined : { number: Number(number), isNamed: word !== undefined, rest: rest.trim() };
}
