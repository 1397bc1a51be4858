import { forEachChild, type ParsedScript, type Pipeline, parse, type Statement, type SyntaxNode } from "unbash";
import { STATEMENT_FD } from "../../processes/command.js";
import { conditionLength, isSearch } from "./conditions.js";

/** A shell that runs gates. */
export type GateShell = "bash" | "zsh" | "sh";

/** A gate's command, rewritten so that it fails where a reader sees a failure. */
export interface GateScript {
  /** The text for the shell. It writes the number of each statement that begins to {@link STATEMENT_FD}. */
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
 * Makes the script of a gate's command. Run under `-e`, the script ends at the first statement that fails:
 *
 * - The script checks the status of each statement, since `-e` ignores failures of `a && b` and `! a`. It also checks
 *   statements inside of groups, `( … )` and `{ … }`, and in the body of a `for`. In `if`, `while`, `||` and functions
 *   the shell's own rules apply.
 * - A pipe fails if any of its commands fails. If a command other than the last one ends by SIGPIPE, that is no
 *   failure: its reader had enough. `pipefail` lacks this exception. `sh` can only check the last command. In a negated
 *   pipe, a search before the last command may find nothing: `! grep -r TODO src | grep -v test` asks that nothing is
 *   left.
 * - A condition (see `conditionLength`) may be false.
 *
 * @throws {GateSyntaxError} The command is no valid shell.
 */
export function gateScript(command: string, shell: GateShell): GateScript {
  const parsed = parseCommand(command);
  const rewriting = new Rewriting(command, shell);
  for (const [index, statement] of parsed.commands.entries()) rewriting.statement(statement, index);
  return { script: rewriting.script(), statements: parseStatements(command) };
}

/** @throws {GateSyntaxError} The command is no valid shell. */
export function parseStatements(command: string): GateStatement[] {
  const { commands } = parseCommand(command);
  const lineAt = makeLineLookup(command);
  return commands.map(({ pos, end }) => ({ text: command.slice(pos, end), line: lineAt(pos) }));
}

/** The command is no valid shell. */
export class GateSyntaxError extends Error {
  override readonly name = "GateSyntaxError";
  /** The line in the gate's command, from 0. */
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

/** @throws {GateSyntaxError} The command is no valid shell. */
export function parseCommand(command: string): ParsedScript {
  const parsed = parseScript(command);
  const [error] = parsed.errors ?? [];
  if (error === undefined) return parsed;
  throw new GateSyntaxError(error.message, makeLineLookup(command)(error.pos));
}

function parseScript(command: string): ParsedScript {
  try {
    return parse(command);
  } catch (error) {
    // The parser bounds the depth of everything but functions that are the body of a function.
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

/** `exit` without a number ends the script with the checked status. */
const CHECK = "case $? in 0);;*)exit;;esac";

/**
 * If the gate has set `pipefail`, it is switched off while a pipe runs: it would end the gate before the statuses are
 * judged. The judge's arguments are the statuses of the pipe's commands, after `!` if the pipe is negated. Both
 * functions stand on the script's first line, so that line numbers stay the same.
 */
const PIPE_JUDGE =
  // zsh has no SHELLOPTS.
  `__waymark_begin(){ case :\${SHELLOPTS-}: in *:pipefail:*)__waymark_fail=1;set +o pipefail;;*)__waymark_fail=;;esac;};` +
  "__waymark_pipe(){ case $__waymark_fail in 1)set -o pipefail;;esac;" +
  "__waymark_not=;case $1 in !)__waymark_not=1;shift;;esac;" +
  "while [ $# -gt 1 ];do case $1 in 0|141);;*)return $1;;esac;shift;done;" +
  "case $__waymark_not,$1 in 1,0)return 1;;1,*)return 0;;*)return $1;;esac;};";

/** Rewrites a command in place, so that line numbers stay the same. */
class Rewriting {
  readonly #command: string;
  readonly #shell: GateShell;
  readonly #edits: { readonly at: number; readonly length: number; readonly text: string }[] = [];

  constructor(command: string, shell: GateShell) {
    this.#command = command;
    this.#shell = shell;
  }

  /** Rewrites a top-level statement of the gate. */
  statement(statement: Statement, index: number): void {
    this.#edit(statement.pos, `echo ${index} >&${STATEMENT_FD};`);
    this.#rewrite(statement, true);
  }

  script(): string {
    let [script, from] = [this.#shell === "sh" ? "" : PIPE_JUDGE, 0];
    for (const { at, length, text } of this.#edits.sort((a, b) => a.at - b.at)) {
      script += this.#command.slice(from, at) + text;
      from = at + length;
    }
    return script + this.#command.slice(from);
  }

  /** @param isChecked - Whether a failure of the node is a failure of the gate. */
  #rewrite(node: SyntaxNode, isChecked: boolean): void {
    // The shell's own rules apply to pipes in substitutions, whose status is mostly unused.
    if (node.type === "Word" || node.type === "Assignment" || node.type === "HereDoc") return;
    // If nodes begin at the same place, the outer one opens first and closes last.
    const [before, after] = this.#wrapping(node, isChecked);
    this.#edit(node.pos, before);
    const isPassedOn = isChecked && passesItsFailureOn(node);
    forEachChild(node, (child) => this.#rewrite(child, isPassedOn));
    this.#edit(node.end, after);
  }

  #wrapping(node: SyntaxNode, isChecked: boolean): readonly [before: string, after: string] {
    if (node.type === "Statement" && isChecked && node.background !== true) return ["", `;${CHECK}`];
    if (node.type === "AndOr" && isChecked && conditionLength(node) > 0) {
      // `test -d out && mkdir out/x` becomes `if test -d out ; then mkdir out/x;fi`.
      this.#edit(this.#command.indexOf("&&", node.commands[conditionLength(node) - 1]?.end), "; then", 2);
      return ["if ", ";fi"];
    }
    if (node.type === "Pipeline" && node.commands.length > 1 && this.#shell !== "sh") {
      const statuses = this.#shell === "zsh" ? "pipestatus" : "PIPESTATUS";
      for (const command of isNegated(node) ? node.commands.slice(0, -1).filter(isSearch) : []) {
        this.#edit(command.pos, "{ ");
        this.#edit(command.end, "||[ $? = 1 ];}");
      }
      return ["{ __waymark_begin;", `;__waymark_pipe${isNegated(node) ? " !" : ""} "\${${statuses}[@]}";}`];
    }
    return ["", ""];
  }

  #edit(at: number, text: string, length = 0): void {
    if (text !== "") this.#edits.push({ at, length, text });
  }
}

/** Whether the node fails if a part of it fails. Then the part's own statements are checked too. */
function passesItsFailureOn(node: SyntaxNode): boolean {
  if (node.type === "Statement") return node.background !== true;
  if (node.type === "AndOr")
    return node.operators.every((operator) => operator === "&&") && conditionLength(node) === 0;
  if (node.type === "Pipeline") return !isNegated(node);
  return PASSING_ON.has(node.type);
}

const PASSING_ON: ReadonlySet<SyntaxNode["type"]> = new Set([
  "Redirected",
  "Subshell",
  "BraceGroup",
  "CompoundList",
  "For",
  "ArithmeticFor",
]);

/** Whether the pipe's status is inverted. */
function isNegated({ prefixes }: Pipeline): boolean {
  return prefixes.filter(({ type }) => type === "Negation").length % 2 === 1;
}
