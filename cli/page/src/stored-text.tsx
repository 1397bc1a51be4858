/**
 * Matches characters that can't be seen, or that change the order in which others are shown: control characters, marks
 * that change the direction of writing, line separators, lone surrogates.
 */
const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it matches control characters on purpose.
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

interface StoredTextProps {
  readonly text: string;
  /** Line feeds and tabs are kept, for texts of several lines. */
  readonly hasLines?: boolean;
}

/** Shows text from the storage. Unseen characters become marked pictures: `␀`, `‹202e›`. */
export function StoredText({ text, hasLines = false }: StoredTextProps) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(UNSEEN)) {
    const [unit] = match;
    if (hasLines && (unit === "\n" || unit === "\t")) continue;
    pieces.push(
      text.slice(end, match.index),
      <span key={match.index} class="unseen" title={codePointOf(unit)}>
        {pictureOf(unit)}
      </span>,
    );
    end = match.index + unit.length;
  }
  pieces.push(text.slice(end));
  return <bdi>{pieces}</bdi>;
}

/** Returns stored text with pictures for unseen characters, as plain text for titles and labels. */
export function pictured(text: string): string {
  return text.replace(UNSEEN, pictureOf);
}

function pictureOf(unit: string): string {
  const code = unit.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "␡" : `‹${hexOf(unit)}›`;
}

function codePointOf(unit: string): string {
  return `U+${hexOf(unit).toUpperCase()}`;
}

function hexOf(unit: string): string {
  return unit.charCodeAt(0).toString(16).padStart(4, "0");
}
