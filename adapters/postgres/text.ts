/**
 * The form of a text in a column: PostgreSQL's text can't hold U+0000. It and U+0001 become two characters; every other
 * text, nearly all there are, stays as it is. The order of code points stays, and so does what is a prefix of what.
 */
export function toColumn(text: string): string {
  if (!text.includes("\0") && !text.includes("\x01")) return text;
  return text.replaceAll("\x01", "\x01\x02").replaceAll("\0", "\x01\x01");
}

/** The text that a column holds. */
export function fromColumn(stored: string): string {
  if (!stored.includes("\x01")) return stored;
  return stored.replaceAll("\x01\x01", "\0").replaceAll("\x01\x02", "\x01");
}
