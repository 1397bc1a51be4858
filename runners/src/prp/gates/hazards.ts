import { type Command, forEachChild, type Statement, type SyntaxNode } from "unbash";
import { commandIn, conditionLength, isSearch, isTest, readWords } from "./conditions.js";
import { GateSyntaxError, makeLineLookup, parseCommand, TOO_DEEP } from "./gate-script.js";

/** A fact about a gate that a person should know before it runs. */
export interface Hazard {
  /** `error`: the gate can't be run. */
  readonly kind: "error" | "warning";
  /** The line in the gate's command, from 0. */
  readonly line: number;
  readonly message: string;
}

/**
 * Checks a gate's command before it is run.
 *
 * @throws {GateSyntaxError} The command is no valid shell.
 */
export function hazardsIn(command: string): Hazard[] {
  const parsed = parseCommand(command);
  const hazards: Hazard[] = [];
  const lineAt = makeLineLookup(command);
  const add = (kind: Hazard["kind"], position: number, message: string): void => {
    hazards.push({ kind, line: lineAt(position), message });
  };
  for (const [offset, text] of placeholdersIn(command, parsed)) {
    add("error", offset, `${text} ${UNFILLED}`);
  }
  const [first] = parsed.commands;
  const canFail = parsed.commands.some(({ command }) => !alwaysSucceeds(command));
  if (first !== undefined && !canFail) add("warning", first.pos, "nothing in this gate can fail");
  parsed.commands.forEach((statement, index) => {
    const next = parsed.commands[index + 1];
    const text = command.slice(statement.pos, statement.end);
    const comment = commentAbout(command, statement, parsed.commands[index - 1], next);
    for (const message of canFail ? warningsFor(statement, text, comment, next === undefined) : [])
      add("warning", statement.pos, message);
    if (next !== undefined && READS_STATUS.test(command.slice(next.pos, next.end)))
      add("warning", statement.pos, "the gate ends here if this fails, before its $? is read; write `… || status=$?`");
  });
  walk(parsed, (node) => {
    const simple = commandIn(node);
    const what = simple && findChange(readWords(simple));
    if (what !== undefined) add("warning", node.pos, `${what}: its effect outlasts the gate`);
  });
  return hazards.sort((a, b) => a.line - b.line);
}

export const UNFILLED = "is a placeholder that nobody has filled in";

const PLACEHOLDER = /<[A-Za-z][\w.-]*(?:[ |/][\w.-]+)*>|\{\{[\w.\s-]+\}\}/g;

/** Returns the placeholder in a line that is no valid shell. It is often the cause: `gh repo view <owner>`. */
export function placeholderIn(line: string): string | undefined {
  return line.match(PLACEHOLDER)?.[0];
}

/** Double quotes may contain a placeholder, `"Bearer <TOKEN>"` or `"<your-key>"`, or other text, `"<div>"`. */
const QUOTED_PLACEHOLDER = /^<(?:[A-Z][A-Z0-9_-]{2,}|[Yy]our\b.*)>$/;

/**
 * Finds `<owner>`, `path/to/file`, `{{name}}`, `[the command]`, but neither text of quoted templates nor two
 * redirections.
 */
function placeholdersIn(command: string, parsed: SyntaxNode): (readonly [offset: number, text: string])[] {
  const found: (readonly [number, string])[] = [];
  const literal: (readonly [from: number, to: number])[] = [];
  const doubleQuoted: typeof literal = [];
  walk(parsed, (node) => {
    // A search may look for such a text.
    if (["SingleQuoted", "AnsiCQuoted", "HereDoc"].includes(node.type) || isSearch(node))
      literal.push([node.pos, node.end]);
    if (node.type === "DoubleQuoted") doubleQuoted.push([node.pos, node.end]);
    if (node.type === "Command" && /^\[\w/.test(node.name?.value ?? ""))
      found.push([node.pos, /\[[^\]\n]{0,80}\]?/.exec(command.slice(node.pos))?.[0] ?? ""]);
    if (node.type === "HereDoc") literal.push([node.body.pos, node.body.end]);
    if (node.type === "Word") {
      const path = /(?:^|[\s"'=/])(path\/to\/[\w./-]*)/.exec(node.value)?.[1];
      if (path !== undefined) found.push([node.pos, path]);
    }
  });
  const code = command.replace(/(^|\s)#.*$/gm, (comment) => " ".repeat(comment.length));
  const isLiteral = makeRangeTest(literal);
  const isDoubleQuoted = makeRangeTest(doubleQuoted);
  for (const { index, 0: text } of code.matchAll(PLACEHOLDER)) {
    const isQuoted = isDoubleQuoted(index);
    if (isLiteral(index) || code[index - 1] === "<") continue;
    if (!isQuoted || QUOTED_PLACEHOLDER.test(text)) found.push([index, text]);
  }
  return found;
}

/** Returns a function that tells whether a position is in one of the ranges. Each call's position is after the last one's. */
function makeRangeTest(ranges: readonly (readonly [from: number, to: number])[]): (position: number) => boolean {
  const inOrder = ranges.toSorted(([a], [b]) => a - b);
  let [next, end] = [0, 0];
  return (position) => {
    for (let range = inOrder[next]; range !== undefined && range[0] <= position; range = inOrder[++next]) {
      end = Math.max(end, range[1]);
    }
    return position < end;
  };
}

function warningsFor(statement: Statement, text: string, comment: string, isLast: boolean): string[] {
  const { command, background } = statement;
  const last = lastCommand(command);
  const [name = "", ...args] = last === undefined ? [] : readWords(last);
  const wantsNothing = NOTHING_EXPECTED.test(comment);
  const warnings: string[] = [];
  if (last !== undefined && isSearch(last) && wantsNothing && !text.startsWith("!")) {
    warnings.push(`the gate fails where ${name} finds nothing, as is expected here; write \`! ${oneLine(text)}\``);
  }
  const searches = command.type === "Pipeline" && last !== undefined && !isSearch(last);
  const counted = searches ? command.commands.slice(0, -1).find(isSearch) : undefined;
  if (counted !== undefined && wantsNothing && !text.startsWith("!")) {
    const search = text.slice(counted.pos - command.pos, counted.end - command.pos);
    warnings.push(`the gate fails where the search finds nothing, as is expected here; write \`! ${oneLine(search)}\``);
  }
  if (warnings.length === 0 && FAILURE_EXPECTED.test(comment) && !text.startsWith("!") && !alwaysSucceeds(command)) {
    warnings.push(`the gate fails where this fails, as is expected here; write \`! ${oneLine(text)}\``);
  }
  if (command.type === "AndOr" && alwaysSucceeds(command)) {
    warnings.push(`it succeeds whichever branch runs; end the one that is the failure with \`exit 1\`, in braces`);
  }
  if ((wantsNothing || name === "gofmt") && listsOnly([name, ...args])) {
    warnings.push(`${name} succeeds whatever it lists; write \`test -z "$(${oneLine(text)})"\``);
  }
  if (
    command.type === "AndOr" &&
    command.commands[0] !== undefined &&
    isTest(command.commands[0]) &&
    conditionLength(command) === 0
  ) {
    if (command.operators.every((operator) => operator === "&&")) {
      warnings.push(`it fails where the test is false; if that is no failure, write \`if …; then …; fi\``);
    }
  }
  const writer =
    command.type === "Pipeline" ? command.commands.slice(0, -1).map(findInterpreter).find(Boolean) : undefined;
  if (writer !== undefined && STOPS_EARLY.test(text)) {
    warnings.push(`if the reader stops early, the ${writer} program may exit with 1, and the gate fails`);
  }
  if (background !== true && !isLast && last !== undefined && runsForEver(readWords(last))) {
    warnings.push(
      `${oneLine(text)} doesn't end by itself, so what follows never runs and the gate times out; end its line with \`&\``,
    );
  } else if (background !== true && last !== undefined && runsForEver(readWords(last))) {
    warnings.push(`${oneLine(text)} doesn't end by itself, so the gate times out`);
  }
  return warnings;
}

/** Matches `Expected: no output`, `should return nothing`, but not a "no" elsewhere in a comment. */
const NOTHING_EXPECTED =
  /\b(?:expect(?:ed|s)?|should|must)\b[\s:]*(?:to )?(?:be|return|find|print|show|output|see|have)?[\s:]*(?:no (?:output|match|result|hit|line)|nothing|zero|0(?![.\d])|none|empty)|(?:预期|期待).{0,6}(?:没有|为空|なし)/i;
/** Matches `exit 1`, `should fail`, `non-zero exit`. */
const FAILURE_EXPECTED =
  /\b(?:exits?(?: code| status)?(?: with| is)?(?: code)?\s*(?:[:=]\s*)?[1-9]\b|non-?zero\b|(?:should|must|will|expect(?:ed)?:?(?: to)?) fail)(?! (?:if|when|unless|on)\b)/i;
/** Matches a use of `$?`, except a check whether it is 0. */
const READS_STATUS = /\$\?(?!["']?\s*(?:(?:-eq|-gt|==?|-ne|!=)\s*["']?0))/;
const STOPS_EARLY = /\|\s*(?:head\b|grep\s+-\w*q|sed\s+\S*q)/;

/** Whether a statement's result comes from a command that prints, or from a fallback that succeeds. */
function alwaysSucceeds(node: SyntaxNode): boolean {
  if (node.type !== "AndOr") return PRINTING.has(commandIn(node)?.name?.value ?? "");
  if (node.operators.at(-1) === "&&") return node.commands.every(alwaysSucceeds);
  const last = lastCommand(node);
  return last !== undefined && FALLBACKS.has(last.name?.value ?? "");
}

const PRINTING = new Set(["echo", "printf"]);
const FALLBACKS = new Set([...PRINTING, "true", ":"]);

/** Whether a command only lists, and succeeds for any result. */
function listsOnly([name = "", ...args]: readonly string[]): boolean {
  if (name === "gofmt" || name === "goimports") return args.some((arg) => /^-\w*l/.test(arg));
  if (name === "find") return true;
  const isDiff = args[0] === "diff" && !args.some((arg) => /^--(?:exit-code|quiet|check)$/.test(arg));
  return name === "git" && (isDiff || args[0] === "status" || args[0] === "ls-files");
}

/** Returns the interpreter if it raises an error of its own when nobody reads its pipe. */
function findInterpreter(node: SyntaxNode): "Python" | "Node" | undefined {
  const command = commandIn(node);
  const name = command === undefined ? "" : (readWords(command)[0] ?? "");
  if (/^(?:.*\/)?(?:python|pytest)[\d.]*$/.test(name)) return "Python";
  return /^(?:node|npm|npx|pnpm|yarn|bun|tsx|vitest|jest)$/.test(name) ? "Node" : undefined;
}

/** Returns the command whose status is the statement's. */
function lastCommand(node: SyntaxNode): Command | undefined {
  if (node.type === "AndOr" || node.type === "Pipeline") {
    const last = node.commands.at(-1);
    return last && lastCommand(last);
  }
  return commandIn(node);
}

const FOREVER =
  /^(?:(?:npm|pnpm|yarn|bun)(?: run)? (?:[\w-]+:)*(?:dev|start|serve|watch)(?:$|[ :])|(?:cargo|go) run\b.* serve\b|(?:npx )?(?:next|vite|nuxt|astro)(?: dev)?$|(?:uv run |poetry run |python3? -m )?(?:uvicorn|hypercorn|gunicorn|daphne)\b|(?:uv run |poetry run )?flask (?:\S+ )*run\b|(?:uv run )?(?:streamlit|fastapi|mlflow) (?:run|dev|ui|server)\b|python3? (?:manage\.py runserver|-m http\.server)|rails s(?:erver)?\b|php -S\b|docker[ -]compose up(?!.* -d)|tail -[fF]|watch |wrangler dev|(?:npx )?wrangler dev|cargo watch|air$|(?:mongod|redis-server|nodemon|ngrok)\b)/;

function runsForEver(words: readonly string[]): boolean {
  if (words.includes("--watch") || words.includes("--watchAll")) return true;
  return FOREVER.test(words.join(" ")) && !words.some((word) => /^(?:--detach|-d|--help|--version)$/.test(word));
}

/** Describes how a command changes the machine, or state that others see. */
function findChange(words: readonly string[]): string | undefined {
  const line = (words[0] === "sudo" ? words.slice(1) : words).join(" ");
  if (words[0] === "sudo") return `sudo ${words[1] ?? ""}`.trim();
  return CHANGES.find(([pattern]) => pattern.test(line))?.[1];
}

const CHANGES: readonly (readonly [RegExp, string])[] = [
  [/^rm (?:-\w+ )*-[^\WrR]*[rR]\w* |^rm (?:-\w+ )*--recursive/, "rm -r"],
  [/^git push\b/, "git push"],
  [/^git (?:reset --hard|clean -\w*f|checkout (?:--|\.)|restore )/, "git takes changes away"],
  [/^docker (?:system|volume|image|container|builder) prune/, "docker prune"],
  [/^docker[ -]compose down .*(?:-v|--volumes)/, "docker compose down -v"],
  [/^(?:npm|pnpm|yarn) publish\b/, "a package is published"],
  [
    /^(?:kubectl (?:apply|delete)|helm (?:install|upgrade|uninstall)|terraform (?:apply|destroy))\b/,
    "infrastructure is changed",
  ],
  [/^(?:apt|apt-get|brew|dnf|yum|apk) (?:-\w+ )*(?:install|add|remove)\b/, "the machine's packages are changed"],
  [/^(?:dropdb|mkfs\S*|dd|shutdown|reboot)\b/, "data may be destroyed"],
];

/**
 * Returns the comments about a statement: those on its line and above it, and those below it that state an expectation.
 * After the last statement, all comments below count.
 */
function commentAbout(
  command: string,
  { pos, end }: Statement,
  before: Statement | undefined,
  after: Statement | undefined,
): string {
  const [, ...above] = `${before === undefined ? "\n" : ""}${command.slice(before?.end ?? 0, pos)}`.split("\n");
  const [own = "", ...below] = command.slice(end, after?.pos).split("\n");
  return [
    ...above.filter((line) => before === undefined || !EXPECTATION.test(line)),
    own,
    ...below.filter((line) => after === undefined || EXPECTATION.test(line)),
  ]
    .flatMap((line) => (line.includes("#") ? line.slice(line.indexOf("#")) : []))
    .join("\n");
}

/** Matches the beginning of a comment about the command above it. */
const EXPECTATION = /^\s*#\s*(?:[-=]*>|→|expect|预期|期待)/i;

/** @throws {GateSyntaxError} The node is nested too deeply: each `<(` parses again all that it holds. */
function walk(node: SyntaxNode, visit: (node: SyntaxNode) => void, depth = 0): void {
  if (depth > MAX_DEPTH) throw new GateSyntaxError(TOO_DEEP, 0);
  visit(node);
  forEachChild(node, (child) => walk(child, visit, depth + 1));
}

const MAX_DEPTH = 1_000;

function oneLine(text: string): string {
  const [first = "", ...more] = text.split("\n");
  return more.length === 0 ? first : `${first} …`;
}
