import { type ParsedPrp, parsePrp } from "../../../../runners/src/prp/parse-prp.js";

/** A block of code. */
export function fence(language: string, code: string): string {
  return `\`\`\`${language}\n${code}\n\`\`\``;
}

/** The blocks of a Markdown text, separated by blank lines. */
export function markdown(...blocks: string[]): string {
  return `${blocks.join("\n\n")}\n`;
}

/** The gates of a PRP with these blocks in its validation section. */
export function gatesIn(...blocks: string[]): ParsedPrp["gates"] {
  return parsePrp(markdown("# A PRP", "## Goal", "It works.", "## Validation Loop", ...blocks), "PRP.md").gates;
}

/** Each gate's level, title and command. */
export function brief(gates: ParsedPrp["gates"]): [level: number, title: string, command: string | null][] {
  return gates.map(({ level, description, command }) => [level, description, command]);
}

/** The commands of the gates of a PRP with these blocks in its validation section. */
export function commandsIn(...blocks: string[]): (string | null)[] {
  return gatesIn(...blocks).map(({ command }) => command);
}
