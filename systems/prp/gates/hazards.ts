import { type Command, forEachChild, type Statement, type SyntaxNode } from "unbash";
import { commandIn, conditionLength, isSearch, isTest, wordsOf } from "./conditions.js";
import { lineAt, parseCommand } from "./gate-script.js";

/** Something about a gate that a person should know before it runs. */
export interface Hazard {
  /** `error`: the gate can't be run. */
  readonly kind: "error" | "warning";
  /** In the gate's command, from 0. */
  readonly line: number;
  readonly message: string;
}

/**
 * Looks at a gate's command before it is run.
 *
 * @throws {GateSyntaxError} The command is no valid shell.
 */
export function hazardsIn(command: string): Hazard[] {
  const parsed = parseCommand(command);
  const hazards: Hazard[] = [];
  const add = (kind: Hazard["kind"], position: number, message: string): void => {
    hazards.push({ kind, line: lineAt(command, position), message });
  };
  for (const [offset, text] of placeholdersIn(command, parsed)) {
    add("error", offset, `${text} ${UNFILLED}`);
  }
  parsed.commands.forEach((statement, index) => {
    const isLast = index === parsed.commands.length - 1;
    const text = command.slice(statement.pos, statement.end);
    const comment = commentAfter(command, statement, parsed.commands[index + 1]);
    for (const message of warningsFor(statement, text, comment, isLast)) add("warning", statement.pos, message);
  });
  walk(parsed, (node) => {
    const simple = commandIn(node);
    const what = simple && changeOf(wordsOf(simple));
    if (what !== undefined) add("warning", node.pos, `${what}: it changes more than this project's files`);
  });
  return hazards.sort((a, b) => a.line - b.line);
}

export const UNFILLED = "is a placeholder that nobody has filled in";

const PLACEHOLDER = /<[A-Za-z][\w.-]*(?:[ |/-][\w.-]+)*>|\{\{\s*[\w. -]+\s*\}\}/g;

/** The placeholder of a line that is no valid shell, often because of it: `gh repo view <owner>`. */
export function placeholderIn(line: string): string | undefined {
  return line.match(PLACEHOLDER)?.[0];
}

/** `<owner>`, `path/to/file`, `{{name}}`. Not what a quoted template says, nor two redirections. */
function placeholdersIn(command: string, parsed: SyntaxNode): (readonly [offset: number, text: string])[] {
  const found: (readonly [number, string])[] = [];
  const quoted = (at: number): boolean => quotes.some(([from, to]) => at >= from && at < to);
  const quotes: (readonly [number, number])[] = [];
  walk(parsed, (node) => {
    if (["SingleQuoted", "AnsiCQuoted", "DoubleQuoted", "HereDoc"].includes(node.type))
      quotes.push([node.pos, node.end]);
    if (node.type === "HereDoc") quotes.push([node.body.pos, node.body.end]);
    if (node.type === "Word") {
      const path = /(?:^|[\s"'=/])(path\/to\/[\w./-]*)/.exec(node.value)?.[1];
      if (path !== undefined) found.push([node.pos, path]);
    }
  });
  const code = command.replace(/(^|\s)#.*$/gm, (comment) => " ".repeat(comment.length));
  for (const { index, 0: text } of code.matchAll(PLACEHOLDER)) {
    if (!quoted(index) && code[index - 1] !== "<") found.push([index, text]);
  }
  return found;
}

function warningsFor(statement: Statement, text: string, comment: string, isLast: boolean): string[] {
  const { command, background } = statement;
  const last = lastCommand(command);
  const [name = "", ...args] = last === undefined ? [] : wordsOf(last);
  const wantsNothing = NOTHING_EXPECTED.test(comment);
  const warnings: string[] = [];
  if (last !== undefined && isSearch(last) && wantsNothing && !text.startsWith("!")) {
    warnings.push(`the gate fails where ${name} finds nothing, as is expected here; write \`! ${oneLine(text)}\``);
  }
  const counted = command.type === "Pipeline" ? command.commands.slice(0, -1).find(isSearch) : undefined;
  if (counted !== undefined && wantsNothing && !text.startsWith("!")) {
    const search = text.slice(counted.pos - command.pos, counted.end - command.pos);
    warnings.push(`the gate fails where the search finds nothing, as is expected here; write \`! ${oneLine(search)}\``);
  }
  if (command.type === "AndOr" && command.operators.at(-1) === "||" && (name === "echo" || name === "printf")) {
    warnings.push(`it can't fail: \`|| ${name}\` succeeds; leave that out, or write \`|| { ${name} …; exit 1; }\``);
  }
  if (name === "gofmt" && args.some((arg) => /^-\w*l/.test(arg))) {
    warnings.push(`gofmt -l succeeds whatever it lists; write \`test -z "$(${oneLine(text)})"\``);
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
  if (command.type === "Pipeline" && command.commands.slice(0, -1).some(isPython) && STOPS_EARLY.test(text)) {
    warnings.push("a Python program whose reader stops early exits with 1, so the gate fails");
  }
  if (background !== true && !isLast && last !== undefined && runsForEver(wordsOf(last))) {
    warnings.push(
      `${oneLine(text)} doesn't end by itself, so what follows never runs and the gate times out; end its line with \`&\``,
    );
  } else if (background !== true && last !== undefined && runsForEver(wordsOf(last))) {
    warnings.push(`${oneLine(text)} doesn't end by itself, so the gate times out`);
  }
  return warnings;
}

/** `Expected: no output`, `should return nothing`; not a "no" that stands elsewhere in a comment. */
const NOTHING_EXPECTED =
  /\b(?:expect(?:ed|s)?|should|must)\b[\s:]*(?:to )?(?:be|return|find|print|show|output|see|have)?[\s:]*(?:no (?:output|match|result|hit|line)|nothing|zero|0(?![.\d])|none|empty)|(?:预期|期待).{0,6}(?:没有|为空|なし)/i;
const STOPS_EARLY = /\|\s*(?:head\b|grep\s+-\w*q|sed\s+\S*q)/;

function isPython(node: SyntaxNode): boolean {
  const command = commandIn(node);
  return command !== undefined && /^(?:.*\/)?(?:python|pytest)[\d.]*$/.test(wordsOf(command)[0] ?? "");
}

/** The command that decides about a statement. */
function lastCommand(node: SyntaxNode): Command | undefined {
  if (node.type === "AndOr" || node.type === "Pipeline") {
    const last = node.commands.at(-1);
    return last && lastCommand(last);
  }
  return commandIn(node);
}

const FOREVER =
  /^(?:(?:npm|pnpm|yarn|bun)(?: run)? (?:dev|start|serve|watch)$|(?:npx )?(?:next|vite|nuxt|astro)(?: dev)?$|(?:uv run |poetry run |python3? -m )?(?:uvicorn|hypercorn|gunicorn|daphne)\b|(?:uv run |poetry run )?flask (?:\S+ )*run\b|(?:uv run )?(?:streamlit|fastapi|mlflow) (?:run|dev|ui|server)\b|python3? (?:manage\.py runserver|-m http\.server)|rails s(?:erver)?\b|php -S\b|docker[ -]compose up(?!.* -d)|tail -[fF]|watch |wrangler dev|(?:npx )?wrangler dev|cargo watch|air$)/;

function runsForEver(words: readonly string[]): boolean {
  return FOREVER.test(words.join(" ")) && !words.some((word) => /^(?:--detach|-d|--help|--version)$/.test(word));
}

/** How a command changes the machine, or what others see. */
function changeOf(words: readonly string[]): string | undefined {
  const line = (words[0] === "sudo" ? words.slice(1) : words).join(" ");
  if (words[0] === "sudo") return `sudo ${words[1] ?? ""}`.trim();
  return CHANGES.find(([pattern]) => pattern.test(line))?.[1];
}

const CHANGES: readonly (readonly [RegExp, string])[] = [
  [/^rm (?:-\w+ )*-\w*[rR]\w* |^rm (?:-\w+ )*--recursive/, "rm -r"],
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

/** The comments on a statement's line, and on the lines below it up to the next statement. */
function commentAfter(command: string, { end }: Statement, next: Statement | undefined): string {
  const after = command.slice(end, next?.pos);
  return (after.match(/#.*$/gm) ?? []).join("\n");
}

function walk(node: SyntaxNode, visit: (node: SyntaxNode) => void): void {
  visit(node);
  forEachChild(node, (child) => walk(child, visit));
}

function oneLine(text: string): string {
  const [first = "", ...more] = text.split("\n");
  return more.length === 0 ? first : `${first} …`;
}
