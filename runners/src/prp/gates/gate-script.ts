import {
  type AndOr,
  type Command,
  type CommandExpansionPart,
  type CompoundList,
  forEachChild,
  type ParsedScript,
  type Pipeline,
  parse,
  type Statement,
  type SyntaxNode,
  type Word,
} from "unbash";
import { STATEMENT_FD } from "../../processes/command.js";
import { conditionLength, isControlFlow, isSearch, isTest, readWords } from "./conditions.js";
import { type ForegroundServer, foregroundServer, type PackageScripts } from "./servers.js";
import { PIPE_JUDGE, SERVE, WAIT_FOR_EACH } from "./shell-functions.js";

/** A gate's command, rewritten so that it fails where a reader would see a failure. */
export interface GateScript {
  /** The text for bash. It writes the number of each statement that begins to {@link STATEMENT_FD}. */
  readonly script: string;
  readonly statements: readonly GateStatement[];
}

/** A statement of the gate. Each statement must succeed. */
export interface GateStatement {
  readonly text: string;
  /** The line in the gate's command, from 0. */
  readonly line: number;
}

/**
 * Makes the script that runs a gate's command. Run by bash under `-e`, the script ends at the first statement that
 * fails:
 *
 * - The script checks the status of each statement, since `-e` ignores failures of `a && b` and `! a`. It also checks
 *   statements in groups, in the bodies of `for`, `while`, `if` and `case`, in functions, and in the `$(…)` of an
 *   assignment. So `check || exit 1` sees each failure in `check`. In conditions the shell's own rules apply.
 * - A pipe fails if any of its commands fails. If a command other than the last one ends by SIGPIPE, that isn't a
 *   failure: its reader had read enough. `pipefail` lacks this exception. In a negated pipe or a `$(…)`, a search
 *   before the last command may find nothing: `! grep -r TODO src | grep -v test` expects no output.
 * - A condition (see `conditionLength`) may be false.
 * - `! grep …` fails if the search itself fails.
 * - A test that expects nothing also fails if its command fails: `test -z "$(gofmt -l .)"`. `for f in $(…)` fails if
 *   its command fails.
 * - `sh -c "a; b"` gets `-e`. `wait` fails if a job failed.
 * - If a statement starts a server in the foreground, the script continues once the server is ready.
 *
 * @param scripts - The scripts of the package.json in the folder where the gate runs. They show which commands are
 *   servers.
 * @throws {GateSyntaxError} The command isn't valid shell.
 */
export function gateScript(command: string, scripts: PackageScripts = {}): GateScript {
  const parsed = parseCommand(command);
  const rewriting = new Rewriting(command);
  for (const [index, statement] of parsed.commands.entries()) {
    const text = command.slice(statement.pos, statement.end);
    const server = foregroundServer(statement, text, command.slice(statement.end), scripts);
    rewriting.statement(statement, index, server);
  }
  return { script: rewriting.script(), statements: listStatements(command, parsed.commands) };
}

export function listStatements(command: string, commands: readonly Statement[]): GateStatement[] {
  const lineAt = makeLineLookup(command);
  return commands.map(({ pos, end }) => ({ text: command.slice(pos, end), line: lineAt(pos) }));
}

/** The command isn't valid shell. */
export class GateSyntaxError extends Error {
  override readonly name = "GateSyntaxError";
  /** The line in the gate's command, from 0. */
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** @throws {GateSyntaxError} The command isn't valid shell. */
export function parseCommand(command: string): ParsedScript {
  const parsed = parseScript(command);
  const [error] = parsed.errors ?? [];
  if (error === undefined) return parsed;
  throw new GateSyntaxError(error.message, makeLineLookup(command)(error.pos));
}

/** Parses a text that needn't be valid shell. @throws {GateSyntaxError} It nests too deeply. */
export function parseScript(command: string): ParsedScript {
  try {
    return parse(command);
  } catch (error) {
    // The parser limits the depth of everything except a function whose body is another function.
    if (error instanceof RangeError) throw new GateSyntaxError(TOO_DEEP, 0);
    throw error;
  }
}

export const TOO_DEEP = "it nests too deeply";

/** Returns a function that finds the line of a position in the text, from 0. */
export function makeLineLookup(text: string): (position: number) => number {
  const starts = [0];
  for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) starts.push(end + 1);
  return (position) => {
    let [line, after] = [0, starts.length];
    while (after - line > 1) {
      const middle = (line + after) >> 1;
      if ((starts[middle] ?? 0) <= position) line = middle;
      else after = middle;
    }
    return line;
  };
}

/**
 * The effect of a statement's failure: it ends the gate or the subshell (`exit`), or the function (`return`). With
 * `inner`, the shell's own rules apply, but the statements of subshells inside are checked. With `none`, the status is
 * inverted.
 */
type Frame = "exit" | "return" | "inner" | "none";

/** `exit` and `return` without a number pass on the checked status. */
function checkOf(frame: "exit" | "return"): string {
  return `case $? in 0);;*)${frame};;esac`;
}

const NOTE_JOB = ' __waymark_jobs="$__waymark_jobs $!";';
/** Rewrites a command in place, so that line numbers stay the same. */
class Rewriting {
  readonly #command: string;
  readonly #edits: { readonly at: number; readonly length: number; readonly text: string }[] = [];
  /** Tests whose `$(…)` runs before the test. */
  readonly #emptyTests = new Set<SyntaxNode>();
  readonly #servers = new Map<Statement, ForegroundServer>();
  readonly #mayFindNothing = new Set<SyntaxNode>();

  constructor(command: string) {
    this.#command = command;
  }

  /** Rewrites a top-level statement of the gate. */
  statement(statement: Statement, index: number, server: ForegroundServer | undefined): void {
    if (server !== undefined) this.#servers.set(statement, server);
    this.#edit(statement.pos, `echo ${index} >&${STATEMENT_FD};`);
    this.#rewrite(statement, "exit");
  }

  script(): string {
    return PIPE_JUDGE + WAIT_FOR_EACH + (this.#servers.size === 0 ? "" : SERVE) + this.#render(0, this.#command.length);
  }

  #render(from: number, to: number): string {
    let text = "";
    for (const edit of this.#edits.sort((a, b) => a.at - b.at)) {
      text += this.#command.slice(from, edit.at) + edit.text;
      from = Math.max(from, edit.at + edit.length);
    }
    return text + this.#command.slice(from, to);
  }

  #rewrite(node: SyntaxNode, frame: Frame): void {
    if (node.type === "Word" || node.type === "Assignment" || node.type === "HereDoc" || node.type === "Redirect")
      return;
    // If nodes begin at the same place, the outer one opens first and closes last.
    const [before, after] = this.#wrapping(node, frame);
    this.#edit(node.pos, before);
    if (node.type === "Command") this.#rewriteCommand(node, frame);
    forEachChild(node, (child) => this.#rewrite(child, this.#frameIn(node, child, frame)));
    this.#edit(node.end, after);
  }

  #wrapping(node: SyntaxNode, frame: Frame): readonly [before: string, after: string] {
    const isChecked = frame === "exit" || frame === "return";
    if (node.type === "Statement") {
      const server = this.#servers.get(node);
      const port = server?.port ?? "";
      if (server !== undefined)
        return [`__waymark_closed "${port}"||exit;exec 8< <({ `, `;} 2>&1);__waymark_serve "${port}" $!||exit`];
      if (node.background === true) return ["", NOTE_JOB];
      const list = node.command.type === "For" && isChecked ? this.#hoisted(node.command) : undefined;
      return isChecked ? [list === undefined ? "" : `${list};${checkOf(frame)};`, `;${checkOf(frame)}`] : ["", ""];
    }
    if (this.#mayFindNothing.has(node)) return ["{ ", "||[ $? = 1 ];}"];
    if (node.type === "AndOr") this.#markEmptyTest(node.commands[0], isTestOrNot(node));
    if (node.type === "If") this.#markEmptyTest(onlyCommand(node.clause), !ENDS.test(this.#text(node.then)));
    if (node.type === "AndOr" && isChecked && conditionLength(node) > 0) {
      // `test -d out && mkdir out/x` becomes `if test -d out ; then mkdir out/x;fi`.
      this.#edit(this.#command.indexOf("&&", node.commands[conditionLength(node) - 1]?.end), "; then", 2);
      return ["if ", ";fi"];
    }
    if (
      isTest(node) &&
      node.type !== "Pipeline" &&
      node.type !== "Redirected" &&
      (isChecked || this.#emptyTests.has(node))
    ) {
      const list = EMPTY_TEST.test(this.#text(node).replace(SUBSTITUTION, "X")) ? this.#hoisted(node) : undefined;
      if (list !== undefined) return [`{ ${list}&&`, ";}"];
    }
    const [sign] = node.type === "Pipeline" ? node.prefixes : [];
    if (
      node.type === "Pipeline" &&
      sign !== undefined &&
      isNegated(node) &&
      node.commands.length === 1 &&
      node.commands.every(isSearch)
    ) {
      // Only 1 means that nothing is found: grep exits with 2 if the folder doesn't exist.
      this.#edit(sign.pos, "", 1);
      return ["if ", ";then false;else case $? in 1);;*)false;;esac;fi"];
    }
    if (node.type === "Pipeline" && node.commands.length > 1) {
      if (isNegated(node)) this.#letFindNothing(node.commands.slice(0, -1));
      return ["{ __waymark_begin;", `;__waymark_pipe${isNegated(node) ? " !" : ""} "\${PIPESTATUS[@]}";}`];
    }
    return ["", ""];
  }

  /** Returns the frame of a node's child. */
  #frameIn(node: SyntaxNode, child: SyntaxNode, frame: Frame): Frame {
    if (node.type === "Function") return this.#text(node).includes("$?") ? "inner" : "return";
    if (frame === "none" || (node.type === "Pipeline" && isNegated(node))) return "none";
    if (node.type === "Subshell") return "exit";
    if (node.type === "Statement") return node.background === true ? "inner" : frame;
    if (node.type === "AndOr")
      return node.operators.every((operator) => operator === "&&") && conditionLength(node) === 0 ? frame : "inner";
    if (node.type === "If" || node.type === "Elif" || node.type === "While")
      return child === node.clause ? "inner" : frame;
    return PASSING_ON.has(node.type) ? frame : "inner";
  }

  #rewriteCommand(command: Command, frame: Frame): void {
    if (command.name === undefined) {
      for (const each of frame === "none" ? [] : command.prefix) if (each.type === "Assignment") this.#rewriteIn(each);
    }
    if (command.name?.value === "wait") {
      const [first] = readWords(command).slice(1);
      if (first?.startsWith("-") !== true)
        this.#edit(command.name.pos, first === undefined ? "__waymark_wait $__waymark_jobs" : "__waymark_wait", 4);
    }
    const { name, args, redirects } = command;
    const readsText = args.length === 0 && redirects.some(({ type }) => type === "HereDoc");
    if (name !== undefined && SHELL.test(name.value) && readsText) this.#edit(name.end, " -e");
    const inner = frame === "none" ? undefined : scriptOfShell(command);
    const isList = inner !== undefined && parseScript(inner.script.value).commands.length > 1;
    if (inner !== undefined && isList && !/\$\?|set \+e/.test(inner.script.text)) this.#edit(inner.shell.end, " -e");
  }

  /** Rewrites the commands in the `$(…)` of an assignment, whose status is that of the assignment. */
  #rewriteIn(node: SyntaxNode): void {
    forEachChild(node, (child) => {
      if (child.type !== "CommandExpansion") this.#rewriteIn(child);
      else this.#rewriteStatements(child, (commands) => commands.slice(0, -1));
    });
  }

  #rewriteStatements(
    node: CommandExpansionPart,
    mayFindNothing: (commands: readonly SyntaxNode[]) => readonly SyntaxNode[],
  ): void {
    for (const statement of statementsIn(node)) {
      const { command } = statement;
      this.#letFindNothing(mayFindNothing(command.type === "Pipeline" ? command.commands : [command]));
      this.#rewrite(statement, "exit");
    }
  }

  /** Replaces a node's only `$(…)` with a variable. Returns the assignment of that variable, which must come first. */
  #hoisted(node: SyntaxNode): string | undefined {
    const found: CommandExpansionPart[] = [];
    const visit = (each: SyntaxNode): void => {
      if (each.type === "CommandExpansion") found.push(each);
      else forEachChild(each, visit);
    };
    if (node.type === "For") for (const word of node.wordlist ?? []) visit(word);
    else forEachChild(node, visit);
    const [only, another] = found;
    if (only === undefined || another !== undefined || !only.text.startsWith("$(")) return undefined;
    const inner = new Rewriting(this.#command);
    inner.#rewriteStatements(only, (commands) => commands);
    this.#edit(only.pos, "$__waymark_out", only.end - only.pos);
    return `__waymark_out=$(${inner.#render(only.pos + 2, only.end - 1)})`;
  }

  /** Lets the searches among the commands find nothing without failing. */
  #letFindNothing(commands: readonly SyntaxNode[]): void {
    for (const command of commands.filter(isSearch)) this.#mayFindNothing.add(command);
  }

  #markEmptyTest(node: SyntaxNode | undefined, isMarked: boolean): void {
    if (node !== undefined && isMarked) this.#emptyTests.add(node);
  }

  #text({ pos, end }: SyntaxNode): string {
    return this.#command.slice(pos, end);
  }

  #edit(at: number, text: string, length = 0): void {
    if (text !== "" || length > 0) this.#edits.push({ at, length, text });
  }
}

/** Matches a test that expects nothing or a number, with `X` in place of its `$(…)`. */
const EMPTY_TEST = /^(?:test|\[\[?)\s+(?:-z\s+"?X"?|"?X"?\s+(?:-eq|-le|-lt|==?)\s+["']?\d*["']?)\s*\]{0,2}$/;
const SUBSTITUTION = /\$\(.*\)/s;
const ENDS = /\b(?:exit|return|false)\b/;

/** Whether a list determines what happens if its first command, a test, is false. */
function isTestOrNot({ commands, operators }: AndOr): boolean {
  return operators.includes("||") && (operators[0] === "||" || !isControlFlow(commands[1]));
}

function onlyCommand({ commands: [first, another] }: CompoundList): SyntaxNode | undefined {
  return another === undefined ? first?.command : undefined;
}

/** Returns no statements if their positions refer to another text. */
function statementsIn({ script }: CommandExpansionPart): readonly Statement[] {
  return script === undefined || script.source !== undefined ? [] : script.commands;
}

/** Returns the shell and the script of `sh -c "…"`, also after `timeout 10` or `docker exec app`. */
export function scriptOfShell({ name, args }: Command): { readonly shell: Word; readonly script: Word } | undefined {
  const words = [name, ...args].filter((word) => word?.type === "Word");
  const at = words.findIndex(
    ({ value }, index) => SHELL.test(value) && /^-[a-z]*c$/.test(words[index + 1]?.value ?? ""),
  );
  const [shell, , script] = words.slice(at);
  return at === -1 || shell === undefined || script === undefined ? undefined : { shell, script };
}

const SHELL = /^(?:\S*\/)?(?:ba|z|da)?sh$/;

/** Nodes that fail if a part of them fails, so the statements in the part are also checked. */
const PASSING_ON: ReadonlySet<SyntaxNode["type"]> = new Set([
  "Pipeline",
  "Redirected",
  "BraceGroup",
  "CompoundList",
  "For",
  "ArithmeticFor",
  "Case",
  "CaseItem",
]);

/** Whether the pipe's status is inverted. */
function isNegated({ prefixes }: Pipeline): boolean {
  return prefixes.filter(({ type }) => type === "Negation").length % 2 === 1;
}
