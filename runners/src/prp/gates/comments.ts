import type { Statement } from "unbash";

/** What the comments about a statement expect of the statement. */
export interface Expectation {
  /** The statement is expected to find, print or list nothing. */
  readonly nothing: boolean;
  /** The statement is expected to print something. */
  readonly output: boolean;
}

/**
 * Reads the comments about a statement: those on its line and above it, and those below it that state an expectation.
 * After the last statement, all comments below count.
 */
export function expectationOf(
  command: string,
  { pos, end }: Statement,
  before: Statement | undefined,
  after: Statement | undefined,
): Expectation {
  const above = before === undefined ? linesIn(command.slice(0, pos)) : splitGap(command.slice(before.end, pos)).next;
  const below = command.slice(end, after?.pos);
  const comments = joined([...above, "", ...(after === undefined ? below.split("\n") : splitGap(below).own)]);
  return {
    nothing: comments.some((text) => NOTHING.test(text)),
    output: comments.some((text) => /^\W*expect(?:ed)?\b.*[:：]/i.test(text)),
  };
}

/** Splits the text between two statements into the lines about the first one and those about the second one. */
function splitGap(gap: string): { readonly own: string[]; readonly next: string[] } {
  const [rest = "", ...lines] = gap.split("\n");
  const blank = lines.findIndex((line) => line.trim() === "");
  const below = blank === -1 ? lines.slice(0, -1) : lines.slice(0, blank);
  const first = below.findIndex((line) => EXPECTATION.test(line));
  if (blank !== -1) {
    return first === -1
      ? { own: [rest], next: lines }
      : { own: [rest, ...below.slice(first)], next: [...below.slice(0, first), ...lines.slice(blank)] };
  }
  const isOwn = (line: string): boolean => EXPECTATION.test(line);
  return { own: [rest, ...below.filter(isOwn)], next: below.filter((line) => !isOwn(line)) };
}

/** Matches the beginning of a comment about the command above it. */
const EXPECTATION = /^\s*#\s*(?:[-=]*>|→|expect|预期|期待)/i;

/** Returns the texts of the comments. An indented line continues the comment above it. */
function joined(lines: readonly string[]): string[] {
  const texts: string[] = [];
  let isBelow = false;
  for (const line of lines) {
    const at = line.search(/(?:^|\s)#/);
    const [, indent = "", text = ""] = at === -1 ? [] : (/#+(\s*)(.*)$/.exec(line.slice(at)) ?? []);
    if (isBelow && indent.length > 1) texts.push(`${texts.pop() ?? ""} ${text}`);
    else if (at !== -1) texts.push(text);
    isBelow = at !== -1;
  }
  return texts.map((text) => text.replace(/"[^"]*"|“[^”]*”|`[^`]*`/g, '""'));
}

function linesIn(text: string): string[] {
  return `\n${text}`.split("\n");
}

/** Matches `Expected: no output`, `should return nothing`, but not a "no" elsewhere in a comment. */
const NOTHING =
  /\b(?:expect(?:ed|s)?|should|must)\b[\s:]*(?:to )?(?:be|return|find|print|show|output|see|have)?[\s:]*(?:no (?:output|match|result|hit|line)|nothing|zero|0(?![.\d])|none|empty)|(?:预期|期待).{0,6}(?:没有|为空|なし)/i;
