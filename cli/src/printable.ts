/**
 * What a terminal would obey, or show in another order than it is stored: control characters, the marks that turn the
 * direction of writing, line separators, halves of surrogate pairs.
 */
const UNSAFE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about.
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The text on one line, with what a terminal would obey written out: `\n`, `\u001b`. Stored text is shown by this alone. */
export function printable(text: string): string {
  return text.replace(UNSAFE, escaped);
}

/** The value as JSON that says the same to any parser, and nothing to a terminal. */
export function jsonText(value: unknown, indent?: number): string {
  // Outside its strings, JSON has no such character but the line ends of its indentation.
  return (JSON.stringify(value, undefined, indent) ?? "null").replace(UNSAFE, (unit) =>
    unit === "\n" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(unit: string): string {
  return SHORT[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
