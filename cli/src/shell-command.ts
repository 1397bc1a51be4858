import { printable } from "./printable.js";

/**
 * Returns a command to copy: `waymark diff 'two words' @3 @4`. It works in bash, zsh and other POSIX shells, and is
 * safe to print.
 *
 * @param options - The command's own options.
 * @param globals - The options that every command has, as they were given.
 */
export function shellCommand(
  command: string,
  args: readonly string[],
  options: readonly string[],
  globals: { readonly storage?: string | undefined; readonly config?: string | undefined },
): string {
  const named = Object.entries(globals).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  const end = args.some((arg) => arg.startsWith("-")) ? ["--"] : [];
  return shellWords(["waymark", command, ...options, ...named, ...end, ...args]);
}

/**
 * Returns the command line that continues another command's work.
 *
 * @param args - The words of the other command, without `waymark`.
 */
export function resumeLine(args: readonly string[]): string {
  const words = args.filter((word) => word !== "--resume" && word !== "--restart");
  const end = words.indexOf("--");
  words.splice(end === -1 ? words.length : end, 0, "--resume");
  return shellWords(["waymark", ...words]);
}

/** Returns words as a line for a shell. */
export function shellWords(words: readonly string[]): string {
  return words.map(quoted).join(" ");
}

function quoted(word: string): string {
  if (/^[\w.,:+/@%=-]+$/.test(word)) return word;
  if (printable(word) === word) return `'${word.replaceAll("'", "'\\''")}'`;
  // Inside $'…', bash and zsh interpret the escapes of unsafe characters, such as \n and \u001b.
  return `$'${printable(word.replace(/[\\']/g, "\\$&"))}'`;
}
