/**
 * The command line that continues what another one began, for a shell.
 *
 * @param args - The words of the other one, without `waymark`.
 */
export function resumeLine(args: readonly string[]): string {
  const words = args.filter((word) => word !== "--resume" && word !== "--restart");
  const end = words.indexOf("--");
  words.splice(end === -1 ? words.length : end, 0, "--resume");
  return ["waymark", ...words].map(quoted).join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
