import { type Command, forEachChild, type Statement, type SyntaxNode } from "unbash";
import { commandIn, conditionLength, isTest, readWords } from "./conditions.js";

/** Determines which statements of a gate can fail, and which ones ignore their own check. */
export class Outcomes {
  readonly #command: string;
  readonly #functions = new Map<string, SyntaxNode>();
  /** The text of all tests, `exit` commands and the like, which read variables. */
  readonly #read: string;

  constructor(command: string, nodes: readonly SyntaxNode[]) {
    this.#command = command;
    for (const node of nodes) if (node.type === "Function") this.#functions.set(node.name.value, node.body);
    this.#read = nodes
      .flatMap(readBy)
      .map((node) => this.#text(node))
      .join("\n");
  }

  /** Whether anything can make the node fail. The conditions of `if`, `while` and the like don't count. */
  canFail(node: SyntaxNode, callers: readonly string[] = []): boolean {
    const canAny = (nodes: readonly SyntaxNode[]): boolean => nodes.some((each) => this.canFail(each, callers));
    switch (node.type) {
      case "Statement":
        return node.background !== true && this.canFail(node.command, callers);
      case "AndOr":
        return node.commands.slice(conditionLength(node)).reduce((can, each, index) => {
          const isOr = node.operators[index + conditionLength(node) - 1] === "||";
          if (index === 0) return this.canFail(each, callers);
          return isOr ? can && this.canFail(each, callers) && !isNothing(each) : can || this.canFail(each, callers);
        }, false);
      case "If":
        return canAny([
          node.then,
          ...node.elif.map((each) => each.then),
          ...(node.else === undefined ? [] : [node.else]),
        ]);
      case "While":
        // A loop that waits for a command ends when the command succeeds.
        return (
          this.canFail(node.body, callers) || !node.clause.commands.every(({ command }) => isLoopCondition(command))
        );
      case "For":
      case "ArithmeticFor":
      case "Subshell":
      case "BraceGroup":
        return this.canFail(node.body, callers);
      case "Case":
        return canAny(node.items.map(({ body }) => body));
      case "Redirected":
        return this.canFail(node.command, callers);
      case "CompoundList":
        return canAny(node.commands);
      case "Function":
      case "Coproc":
        return false;
      case "ArithmeticCommand":
        return !isCounting(node.body);
      case "Command":
        return this.#canCommandFail(node, callers);
      default:
        return true;
    }
  }

  #canCommandFail(command: Command, callers: readonly string[]): boolean {
    const [name, first = ""] = readWords(command);
    if (name === undefined) return /\$\((?!\()|`/.test(this.#text(command));
    const body = this.#functions.get(name);
    if (body !== undefined && !callers.includes(name)) return this.canFail(body, [...callers, name]);
    if (name === "exit" || name === "return") return first !== "" && first !== "0";
    return !(SILENT.has(name) || prints(command));
  }

  /** True if a statement checks something but always succeeds, and no later test reads the variables that it sets. */
  ignoresItsCheck(statement: Statement): boolean {
    if (statement.background === true || this.canFail(statement)) return false;
    // A loop with a break waits for something.
    if (/\bbreak\b/.test(this.#text(statement))) return false;
    return this.#checksIn(statement) && !this.assignedIn(statement).some((name) => this.isRead(name));
  }

  /** Whether a test, an `exit` or the like reads a variable. */
  isRead(name: string): boolean {
    return new RegExp(`\\b${name}\\b`).test(this.#read);
  }

  #checksIn(node: SyntaxNode): boolean {
    if (node.type === "TestCommand") return true;
    const command = commandIn(node);
    if (command !== undefined && command.name !== undefined) {
      const words = readWords(command);
      return (
        !SILENT.has(words[0] ?? "") &&
        !PRINTING.has(words[0] ?? "") &&
        !CLEANING.test(words.join(" ")) &&
        !isExit(words[0])
      );
    }
    // A function's own statements are checked where the function is defined.
    if (["Function", "Word", "Assignment"].includes(node.type)) return false;
    return childrenOf(node).some((child) => this.#checksIn(child));
  }

  /** Returns the variables that a node sets, also in functions that it calls. */
  assignedIn(node: SyntaxNode, callers: readonly string[] = []): string[] {
    if (node.type === "Assignment") return [node.name];
    if (node.type === "ArithmeticCommand") return node.body.match(/[A-Za-z_]\w*/g) ?? [];
    const name = commandIn(node)?.name?.value ?? "";
    const body = callers.includes(name) ? undefined : this.#functions.get(name);
    const called = body === undefined ? [] : this.assignedIn(body, [...callers, name]);
    if (name === "let") return this.#text(node).match(/[A-Za-z_]\w*/g) ?? [];
    return [...called, ...childrenOf(node).flatMap((child) => this.assignedIn(child, callers))];
  }

  #text({ pos, end }: SyntaxNode): string {
    return this.#command.slice(pos, end);
  }
}

const PRINTING = new Set(["echo", "printf"]);
/** Builtins whose status has nothing to do with the work. */
const SILENT = new Set([
  "set",
  "shopt",
  "export",
  "local",
  "declare",
  "readonly",
  "unset",
  "alias",
  "trap",
  "let",
  "continue",
  "break",
]);
/** Matches commands that clean up or prepare. Their failures don't matter. */
const CLEANING =
  /^(?:sudo )?(?:sleep|kill|pkill|killall|rm|rmdir|mkdir|deactivate|cd|source|\.|lsof|fuser|dropdb|createdb|unlink|docker(?:[ -]compose)? (?:stop|rm|rmi|kill|down|network|volume|pull)|git (?:stash|checkout|branch|worktree)|true|:)(?: |$)/;

/** Whether a statement only prints: a gate of such statements is for a person. */
export function onlyPrints({ command }: Statement): boolean {
  const simple = commandIn(command);
  return simple !== undefined && prints(simple) && !childrenOf(simple).some(runs);
}

function runs(node: SyntaxNode): boolean {
  return node.type === "CommandExpansion" || childrenOf(node).some(runs);
}

/** Whether a command shows its own text: `echo done`, `cat <<EOF`. */
function prints(command: Command): boolean {
  const [name = "", ...args] = readWords(command);
  const isText =
    PRINTING.has(name) ||
    (name === "cat" && args.length === 0 && command.redirects.some(({ type }) => type === "HereDoc"));
  return isText && !writesFile(command);
}

function writesFile({ redirects }: Command): boolean {
  return redirects.some(
    (each) => each.type === "Redirect" && /^(?:&?>>?|>\|)$/.test(each.operator) && each.target?.value !== "/dev/null",
  );
}

/** Whether a fallback after `||` always succeeds. A gate that is only `true` counts as a check: its author wants it. */
function isNothing(node: SyntaxNode): boolean {
  return ["true", ":"].includes(commandIn(node)?.name?.value ?? "");
}

function isExit(name: string | undefined): boolean {
  return name === "exit" || name === "return";
}

/** Returns the node whose variables decide what follows. */
function readBy(node: SyntaxNode): SyntaxNode[] {
  if (node.type === "Case") return [node.word];
  if (node.type === "ArithmeticCommand") return isCounting(node.body) ? [] : [node];
  const name = commandIn(node)?.name?.value ?? "";
  return node.type === "TestCommand" || ["test", "[", "exit", "return"].includes(name) ? [node] : [];
}

function isCounting(arithmetic: string): boolean {
  return /\+\+|--|[+-]=/.test(arithmetic);
}

function isLoopCondition(node: SyntaxNode): boolean {
  const name = commandIn(node)?.name?.value;
  return isTest(node) || node.type === "ArithmeticCommand" || ["read", "true", ":"].includes(name ?? "");
}

function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  forEachChild(node, (child) => children.push(child));
  return children;
}
