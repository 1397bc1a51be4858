import { relative } from "node:path";
import pc from "picocolors";

// hasColors() respects NO_COLOR, FORCE_COLOR and TERM. A pipe or a file gets plain text, even under CI.
export const colours = pc.createColors(process.stdout.isTTY === true && process.stdout.hasColors());

export type Paint = (text: string) => string;

/** The usual width of a terminal. */
const WIDTH = 80;
const MARGIN = "  ";
const NAME_WIDTH = 18;

export function heading(text: string): void {
  console.log(`\n${colours.bold(text)}`);
}

export function line(text = ""): void {
  console.log(`${MARGIN}${text}`.trimEnd());
}

/** Prints a name and its description, with wrapped and aligned lines. */
export function fact(name: string, text: string): void {
  const [first = "", ...rest] = wrapped(text, WIDTH - MARGIN.length - NAME_WIDTH);
  line(colours.dim(name.padEnd(NAME_WIDTH)) + first);
  for (const more of rest) line(" ".repeat(NAME_WIDTH) + more);
}

/** Cuts or pads a text to the width. */
export function fitted(text: string, width: number): string {
  return (text.length > width ? `${text.slice(0, width - 1)}…` : text).padEnd(width);
}

/** Returns a path relative to the user's folder. npm starts this program in another folder and passes on the user's. */
export function shown(path: string): string {
  return relative(process.env["INIT_CWD"] ?? "", path);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
