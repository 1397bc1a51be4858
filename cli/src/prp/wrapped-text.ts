import stringWidth from "string-width";

/** How the lines of a text begin. */
export interface Indent {
  readonly first: string;
  /** The indent of every line but the first. */
  readonly more: string;
}

/** The text in lines of at most `width` columns, broken at blanks; a word that is too long is broken too. */
export function wrapped(text: string, { first, more }: Indent, width: number): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  const next = (): void => {
    lines.push(line.trimEnd());
    line = more;
    isEmpty = true;
  };
  for (const [, blanks = "", word = ""] of text.matchAll(/(\s*)(\S+)/g)) {
    // The text's own indentation stays; blanks where a line breaks don't.
    if (!isEmpty && stringWidth(line + blanks + word) > width) next();
    else line += blanks;
    for (const character of word) {
      if (!isEmpty && stringWidth(line + character) > width) next();
      line += character;
      isEmpty = false;
    }
  }
  if (!isEmpty) next();
  return lines;
}
