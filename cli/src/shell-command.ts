import { printable } from "./printable.js";

/**
 * A command to copy: `waymark diff 'two words' @3 @4`. It works in bash, zsh and other POSIX shells, and is safe to print.
 *
 * @param options - Without those that every command has.
 * @param storage - The value of `--storage`, if it was given.
 */
export function shellCommand(
  command: string,
  args: readonly string[],
  options: readonly string[],
  storage: string | undefined,
): string {
  const named = storage === undefined ? [] : ["--storage", storage];
  const end = args.some((arg) => arg.startsWith("-")) ? ["--"] : [];
  return ["waymark", command, ...options, ...named, ...end, ...args].map(quoted).join(" ");
}

function quoted(word: string): string {
  if (/^[\w.,:+/@-]+$/.test(word)) return word;
  if (printable(word) === word) return `'${word.replaceAll("'", "'\\''")}'`;
  // bash and zsh read the escapes of unsafe characters: \n, \u001b.
  return `$'${printable(word.replace(/[\\']/g, "\\$&"))}'`;
}
