import stringWidth from "string-width";

/** How lines are indented. */
export interface Indent {
  readonly first: string;
  /** The indent of all lines after the first. */
  readonly more: string;
}

/** Breaks the text at blanks into lines of at most `width` columns. A word that is too long is broken too. */
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
    // Keeps the text's own indentation, but drops blanks at line breaks.
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
