import type { AndOr, Command, SyntaxNode } from "unbash";

/**
 * Returns how many commands at the beginning of an `&&` list decide whether there is something to do. If one of them is
 * false, nothing has failed:
 *
 * - Tests count if the list ends with a command that prepares: `[ -d out ] && rm -r out`.
 * - All commands before a last `exit`, `break`, `continue` or `return` count: `curl -sf "$url" && break`.
 *
 * Other lists are checks, and the number is 0: `test -f report.txt && echo present` fails if there is no report.
 */
export function conditionLength({ commands, operators }: AndOr): number {
  const last = commands.at(-1);
  if (last === undefined || operators.some((operator) => operator !== "&&")) return 0;
  if (isControlFlow(last)) return commands.length - 1;
  const command = commandIn(last);
  if (command === undefined || !prepares(command)) return 0;
  return commands.findIndex((node) => !isTest(node));
}

const CONTROL_FLOW = new Set(["exit", "break", "continue", "return"]);

/** Whether the node ends with a command that leaves the surrounding code. For a group, its last command counts. */
export function isControlFlow(node: SyntaxNode | undefined): boolean {
  if (node === undefined) return false;
  if (node.type === "BraceGroup" || node.type === "Subshell") {
    const last = node.body.commands.at(-1);
    return last !== undefined && isControlFlow(last.command);
  }
  const name = commandIn(node)?.name?.value;
  return name !== undefined && CONTROL_FLOW.has(name);
}

const SEARCHES = new Set(["grep", "egrep", "fgrep", "rg", "ag"]);

/** Whether a node is a search, whose status is 1 if it finds nothing. */
export function isSearch(node: SyntaxNode): boolean {
  const command = commandIn(node);
  const [name = "", first] = command === undefined ? [] : readWords(command);
  return SEARCHES.has(name) || (name === "git" && first === "grep");
}

/** Whether a node is a test, as at the beginning of a condition. */
export function isTest(node: SyntaxNode): boolean {
  if (node.type === "TestCommand") return true;
  if (node.type === "Pipeline") return node.commands.length === 1 && node.commands.every(isTest);
  if (node.type === "Redirected") return isTest(node.command);
  const command = commandIn(node);
  const [name, first = ""] = command === undefined ? [] : readWords(command);
  return name === "test" || name === "[" || (name === "command" && /^-[vV]$/.test(first));
}

/** Returns the words of a simple command, unquoted. A word that is only known at run time stays unchanged. */
export function readWords({ name, args }: Command): string[] {
  return [name, ...args].flatMap((word) => (word === undefined ? [] : [word.type === "Word" ? word.value : word.text]));
}

/** Returns the node if it is a simple command. */
export function commandIn(node: SyntaxNode | undefined): Command | undefined {
  return node?.type === "Command" ? node : undefined;
}

const PREPARING = new Set(["mkdir", "cp", "rm", "cd", "source", "."]);
const INSTALLING =
  /^(?:npm (?:ci|i|install)|(?:pnpm|yarn|bun) (?:i|add|install)|yarn$|pip3? install|uv (?:sync|pip install|venv)|poetry install|(?:go|cargo|gem|bundle|brew|apt|apt-get) install|python3? -m (?:venv|pip install))\b/;

function prepares(command: Command): boolean {
  const words = readWords(command);
  const [name = ""] = words[0] === "sudo" ? words.slice(1) : words;
  return PREPARING.has(name) || INSTALLING.test((words[0] === "sudo" ? words.slice(1) : words).join(" "));
}
