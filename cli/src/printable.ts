/**
 * Characters that a terminal obeys or shows in another order: control characters, marks that change the direction of
 * writing, line separators, lone surrogates.
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it matches control characters on purpose.
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * Returns the text on one line, with control characters escaped: `\n`, `\u001b`. All stored text is printed through
 * this.
 */
export function printable(text: string): string {
  return text.replace(UNSAFE, escaped);
}

/** Like {@link printable}, for text of several lines: keeps line feeds and tabs. */
export function printableLines(text: string): string {
  return text.replace(UNSAFE, (unit) => (unit === "\n" || unit === "\t" ? unit : escaped(unit)));
}

/** Returns the value as JSON, without characters that a terminal obeys. */
export function jsonText(value: unknown, indent?: number): string {
  // Outside of strings, the only such characters in JSON are the line feeds of the indentation.
  return (JSON.stringify(value, undefined, indent) ?? "null").replace(UNSAFE, (unit) =>
    unit === "\n" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(unit: string): string {
  return SHORT[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
