import type { SyntaxNode } from "unbash";
import { isSearch } from "./conditions.js";

/** A placeholder that nobody has filled in. */
export interface Placeholder {
  readonly at: number;
  readonly text: string;
}

export const UNFILLED = "is a placeholder that nobody has filled in";

const PLACEHOLDER = /<[A-Za-z][\w.-]*(?:[ |/][\w.-]+)*>|\{\{[\w.\s-]+\}\}/g;

/** Returns the placeholder in a line that isn't valid shell. It is often the cause: `gh repo view <owner>`. */
export function placeholderIn(line: string): string | undefined {
  return line.match(PLACEHOLDER)?.[0];
}

/** Double quotes may contain a placeholder, `"Bearer <TOKEN>"` or `"<your-key>"`, or other text, `"<div>"`. */
const QUOTED_PLACEHOLDER = /^<(?:[A-Z][A-Z0-9_-]{2,}|[Yy]our\b.*)>$/;

/**
 * Finds `<owner>`, `path/to/file`, `{{name}}`, `[the command]`, but not the text of quoted templates, and not two
 * redirections.
 */
export function findPlaceholders(command: string, nodes: readonly SyntaxNode[]): Placeholder[] {
  const found: Placeholder[] = [];
  const literal: (readonly [from: number, to: number])[] = [];
  const doubleQuoted: typeof literal = [];
  for (const node of nodes) {
    // A search may look for a placeholder.
    if (["SingleQuoted", "AnsiCQuoted", "HereDoc"].includes(node.type) || isSearch(node))
      literal.push([node.pos, node.end]);
    if (node.type === "DoubleQuoted") doubleQuoted.push([node.pos, node.end]);
    if (node.type === "Command" && /^\[\w/.test(node.name?.value ?? ""))
      found.push({ at: node.pos, text: /\[[^\]\n]{0,80}\]?/.exec(command.slice(node.pos))?.[0] ?? "" });
    if (node.type === "HereDoc") literal.push([node.body.pos, node.body.end]);
    if (node.type === "Word") {
      const path = /(?:^|[\s"'=/])(path\/to\/[\w./-]*)/.exec(node.value)?.[1];
      if (path !== undefined) found.push({ at: node.pos, text: path });
    }
  }
  const code = command.replace(/(^|\s)#.*$/gm, (comment) => " ".repeat(comment.length));
  const isLiteral = makeRangeTest(literal);
  const isDoubleQuoted = makeRangeTest(doubleQuoted);
  for (const { index, 0: text } of code.matchAll(PLACEHOLDER)) {
    const isQuoted = isDoubleQuoted(index);
    if (isLiteral(index) || code[index - 1] === "<") continue;
    if (!isQuoted || QUOTED_PLACEHOLDER.test(text)) found.push({ at: index, text });
  }
  return found;
}

/** Returns a function that tells whether a position is in one of the ranges. Call this with ascending positions. */
function makeRangeTest(ranges: readonly (readonly [from: number, to: number])[]): (position: number) => boolean {
  const inOrder = ranges.toSorted(([a], [b]) => a - b);
  let [next, end] = [0, 0];
  return (position) => {
    for (let range = inOrder[next]; range !== undefined && range[0] <= position; range = inOrder[++next]) {
      end = Math.max(end, range[1]);
    }
    return position < end;
  };
}
