import { relative } from "node:path";
import pc from "picocolors";

// hasColors() heeds NO_COLOR, FORCE_COLOR and TERM; a pipe or a file gets plain text, under CI too.
export const colours = pc.createColors(process.stdout.isTTY === true && process.stdout.hasColors());

export type Paint = (text: string) => string;

/** The layout is for a terminal of the usual width. */
const WIDTH = 80;
const MARGIN = "  ";
const NAME_WIDTH = 18;

export function heading(text: string): void {
  console.log(`\n${colours.bold(text)}`);
}

export function line(text = ""): void {
  console.log(`${MARGIN}${text}`.trimEnd());
}

/** A name and its description: wrapped, with the lines aligned. */
export function fact(name: string, text: string): void {
  const [first = "", ...rest] = wrapped(text, WIDTH - MARGIN.length - NAME_WIDTH);
  line(colours.dim(name.padEnd(NAME_WIDTH)) + first);
  for (const more of rest) line(" ".repeat(NAME_WIDTH) + more);
}

/** `text`, cut if it is too long, padded if it is too short. */
export function fitted(text: string, width: number): string {
  return (text.length > width ? `${text.slice(0, width - 1)}…` : text).padEnd(width);
}

/** A path relative to the person's folder. npm starts us in another one, and says which one the person was in. */
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
