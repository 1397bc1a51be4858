import { fromMarkdown } from "mdast-util-from-markdown";
import { toString as textOf } from "mdast-util-to-string";

/** An item of a Markdown text's outline: a heading, code below it, or text between. Quotes are left out. */
export type OutlineItem = Heading | CodeBlock | Prose;

/** A heading, or text that people write in place of one. */
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
}

export interface Prose {
  readonly kind: "prose";
  readonly text: string;
  readonly line: number;
}

export const BOLD_DEPTH = 7;
export const LIST_DEPTH = 8;

/** Returns the outline of a Markdown text, in its order. */
export function outlineOf(markdown: string): OutlineItem[] {
  return fromMarkdown(markdown).children.flatMap((block) => itemsOf(block, markdown));
}

type Block = ReturnType<typeof fromMarkdown>["children"][number];

function itemsOf(block: Block, markdown: string): OutlineItem[] {
  const line = block.position?.start.line ?? 0;
  switch (block.type) {
    case "heading":
      return [{ kind: "heading", depth: block.depth, text: textOf(block), line }];
    case "code":
      // Four blanks also make a code block, but mostly by accident. So only fenced blocks count.
      if (!/^[`~]/.test(markdown.slice(block.position?.start.offset))) return [];
      return [{ kind: "code", language: (block.lang ?? "").toLowerCase(), text: block.value, line: line + 1 }];
    case "paragraph": {
      const text = textOf(block);
      return block.children[0]?.type === "strong" ? headed(BOLD_DEPTH, text, line) : [{ kind: "prose", text, line }];
    }
    case "list":
      return block.children.flatMap(({ children: [first, ...rest] }, index) => {
        const number = block.ordered === true ? `${(block.start ?? 1) + index}. ` : "";
        const at = first?.position?.start.line ?? line;
        const own = first?.type === "paragraph" ? headed(LIST_DEPTH, number + textOf(first), at) : [];
        const inner = first?.type === "paragraph" ? rest : [first, ...rest];
        return [...own, ...inner.flatMap((child) => (child === undefined ? [] : itemsOf(child, markdown)))];
      });
    case "blockquote":
      return [];
    default:
      return "children" in block ? [{ kind: "prose", text: textOf(block), line }] : [];
  }
}

/** Returns a one-line heading, and the rest of its paragraph. */
function headed(depth: number, text: string, line: number): OutlineItem[] {
  const [first = "", ...rest] = text.split("\n");
  const heading: Heading = { kind: "heading", depth, text: first, line };
  return rest.length === 0 ? [heading] : [heading, { kind: "prose", text: rest.join("\n"), line: line + 1 }];
}

/** Returns the items under the heading at `index`, up to the next heading of the same or a higher level. */
export function sectionAt(items: readonly OutlineItem[], index: number): readonly OutlineItem[] {
  const heading = items[index];
  if (heading?.kind !== "heading") return [];
  const after = items.slice(index + 1);
  const end = after.findIndex((item) => item.kind === "heading" && item.depth <= heading.depth);
  return end === -1 ? after : after.slice(0, end);
}

/** Returns the text in lower case, without accents and without a colon at the end. */
export function plain(text: string): string {
  const base = text.normalize("NFKD").replace(/\p{M}/gu, "").normalize("NFC");
  return base
    .toLowerCase()
    .replace(/[\s:：]+$/u, "")
    .trim();
}
