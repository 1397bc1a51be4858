import { parseYaml } from "../../yaml-text.js";
import { type OutlineItem, withoutEnd } from "./outline.js";

/** How many items of the outline count as the top. */
const TOP = 20;
const BEFORE_ID = /^[^\p{L}]*prp[\s_-]*id[\s*_`]*[:：][\s*_`]*/iu;
const BEFORE_WORK_ITEM = /^[^\p{L}]*(?:work[\s_-]*item|(?:sub)?task)(?:[\s_-]*id)?[\s*_`]*[:：]/iu;
/** A work item's number: `P1.M2.T1.S1`. */
const WORK_ITEM = /\bP\d+(?:\.[MTS]\d+)+\b/;

/** The task ids in the PRP's own text. */
export interface TextIds {
  /** From the front matter, or from a line `PRP ID: …` near the top. */
  readonly own?: string | undefined;
  /** The work item in the title, or in a line `Work Item: …` near the top. Another PRP may have the same work item. */
  readonly workItem?: string | undefined;
}

export function idsIn(items: readonly OutlineItem[], frontMatter: string | undefined): TextIds {
  const fields = frontMatter === undefined ? [] : parseFields(frontMatter);
  const title = items.find((item) => item.kind === "heading");
  const titles = [
    field(fields, /^(?:name|title)$/i),
    title?.kind === "heading" ? title.text : undefined,
    topLines(items).find((line) => BEFORE_WORK_ITEM.test(line)),
  ];
  return {
    own: field(fields, /^(?:prp[ _-]?id|id)$/i) ?? idLine(items),
    workItem: titles.map(workItemIn).find((id) => id !== undefined),
  };
}

/**
 * Returns the text without its front matter. The front matter's lines are kept empty, so that line numbers stay the
 * same.
 */
export function withoutFrontMatter(markdown: string): { readonly text: string; readonly frontMatter?: string } {
  const [whole, frontMatter] = /^---[ \t]*\n([\s\S]*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|$)/.exec(markdown) ?? [];
  // A divider as the first line doesn't begin front matter: a field or a comment must be directly below.
  if (
    whole === undefined ||
    frontMatter === undefined ||
    !/^(?:#.*\n)*["']?[\w \t-]+(?:["'][ \t]*)?:/.test(frontMatter)
  )
    return { text: markdown };
  return { text: "\n".repeat(whole.split("\n").length - 1) + markdown.slice(whole.length), frontMatter };
}

function field(fields: readonly [name: string, value: unknown][], name: RegExp): string | undefined {
  const value = fields.find(([key]) => name.test(key))?.[1];
  return typeof value === "string" || typeof value === "number" ? String(value).trim() || undefined : undefined;
}

function parseFields(frontMatter: string): [string, unknown][] {
  try {
    const value: unknown = parseYaml(frontMatter);
    return typeof value === "object" && value !== null ? Object.entries(value) : [];
  } catch {
    // Front matter that isn't YAML has no id.
    return [];
  }
}

function idLine(items: readonly OutlineItem[]): string | undefined {
  for (const line of topLines(items)) {
    const [before] = BEFORE_ID.exec(line) ?? [];
    const id = before === undefined ? "" : withoutEnd(line.slice(before.length), /[\s*_`]/);
    if (id !== "" && !/[*`|]/.test(id)) return id;
  }
  return undefined;
}

function topLines(items: readonly OutlineItem[]): string[] {
  return items.slice(0, TOP).flatMap((item) => (item.kind === "code" ? [] : item.text.split("\n")));
}

function workItemIn(title: string | undefined): string | undefined {
  return title === undefined ? undefined : WORK_ITEM.exec(title)?.[0];
}
