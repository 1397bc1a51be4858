import { type Command, forEachChild, type ParsedScript, type Pipeline, type Statement, type SyntaxNode } from "unbash";
import { commandWarnings } from "./command-hazards.js";
import { type Expectation, expectationOf } from "./comments.js";
import { commandIn, isSearch, isTest, readWords } from "./conditions.js";
import { GateSyntaxError, parseScript, scriptOfShell, TOO_DEEP } from "./gate-script.js";
import { type Outcomes, onlyPrints } from "./outcomes.js";
import { foregroundServer, type PackageScripts, runsForEver } from "./servers.js";

/** A gate's command, with what was found in it. */
export interface Gate {
  readonly command: string;
  readonly parsed: ParsedScript;
  readonly nodes: readonly SyntaxNode[];
  readonly scripts: PackageScripts;
  readonly outcomes: Outcomes;
}

/** Receives a warning about a node. */
type Warn = (node: { readonly pos: number }, message: string) => void;

/** Reports the warnings about a gate that can fail. */
export function reportHazards(gate: Gate, warn: Warn): void {
  const { command, parsed } = gate;
  const { commands } = parsed;
  if (commands[0] !== undefined && onlyWrites(gate))
    warn(commands[0], "this gate only writes files; nothing in it checks the work");
  commands.forEach((statement, index) => {
    const next = commands[index + 1];
    const expectation = expectationOf(command, statement, commands[index - 1], next);
    for (const message of statementWarnings(gate, statement, expectation)) warn(statement, message);
    if (next === undefined) return;
    const text = command.slice(statement.pos, statement.end);
    if (EXIT_0.test(text)) warn(next, `nothing after \`${oneLine(text)}\` runs`);
  });
  warnInside(gate, warn);
  warnOfCommands(gate, warn);
}

const EXIT_0 = /^(?:exit(?:\s+0)?|exec\s+[\w./].*)$/;

function statementWarnings({ command: gate }: Gate, statement: Statement, expected: Expectation): string[] {
  const { command, pos, end } = statement;
  const text = gate.slice(pos, end);
  const last = lastCommand(command);
  const [name = "", ...args] = last === undefined ? [] : readWords(last);
  const warnings: string[] = [];
  const isPositive = !text.startsWith("!");
  if (last !== undefined && isSearch(last) && expected.nothing && isPositive) {
    warnings.push(`the gate fails if ${name} finds nothing, which is expected here; write \`! ${oneLine(text)}\``);
  }
  const searches = command.type === "Pipeline" && last !== undefined && !isSearch(last);
  const counted = searches ? command.commands.slice(0, -1).find(isSearch) : undefined;
  if (counted !== undefined && expected.nothing && isPositive) {
    const search = text.slice(counted.pos - command.pos, counted.end - command.pos);
    warnings.push(`the gate fails if the search finds nothing, which is expected here; write \`! ${oneLine(search)}\``);
  }
  if ((expected.nothing || name === "gofmt") && listsOnly([name, ...args])) {
    warnings.push(`${name} always succeeds, no matter what it lists; write \`test -z "$(${oneLine(text)})"\``);
  }
  if (expected.output && /^curl\b(?!.*(?: -\w*f|--fail|\| *(?:grep|rg|jq -e|diff)))/.test(text)) {
    warnings.push("nothing compares its output with what the comment expects; write `… | grep -q …`");
  }
  return warnings;
}

/** Warns about statements whose failure goes unnoticed, also in bodies and groups. */
function warnInside({ command, nodes, parsed, outcomes, scripts }: Gate, warn: Warn): void {
  const visit = (node: SyntaxNode): void => {
    if (node.type === "Statement" && outcomes.ignoresItsCheck(node)) {
      const counter = outcomes.assignedIn(node)[0];
      const message =
        counter === undefined
          ? "it always succeeds, even if its check fails; end the branch that handles the failure with `exit 1`, in braces"
          : `nothing reads \`${counter}\`, so this always succeeds, even if its check fails; end the gate with a test of that variable`;
      warn(node, message);
      return;
    }
    if (node.type === "AndOr" && node.commands[0]?.type === "BraceGroup" && node.operators[0] === "||") {
      const { commands } = node.commands[0].body;
      if (commands.slice(0, -1).some((each) => outcomes.canFail(each)))
        warn(node, "before `||`, only the last command in the braces counts; join them by `&&`");
    }
    forEachChild(node, visit);
  };
  visit(parsed);
  for (const node of nodes) {
    if (node.type !== "Statement" || node.background !== true) continue;
    const last = lastCommand(node.command);
    const words = last === undefined ? [] : readWords(last);
    if (/^(?:sleep|tail|open|xdg-open|Xvfb)$/i.test(words[0] ?? "") || WAITS.test(command.slice(node.end))) continue;
    const advice = runsForEver(words, scripts)
      ? "wait for its port, with `curl -f --retry-connrefused --retry 30`"
      : "end the gate with `wait`";
    warn(node, `nothing sees whether this starts or fails in the background; ${advice}`);
  }
  const instructs = (each: Statement): boolean => onlyPrints(each) && INSTRUCTS.test(command.slice(each.pos, each.end));
  const instruction = parsed.commands.find(instructs);
  if (instruction !== undefined)
    warn(instruction, "it only prints what a person should do, so the gate passes even if nobody does it");
}

/** Matches what shows later that a job in the background has started, or how it ended. */
const WAITS =
  /\b(?:wait|curl|wget|nc|wait-on|httpie|grpcurl|pg_isready|redis-cli|websocat|kill -0)\b|\/dev\/tcp\/|localhost:/;
/** Matches `echo "MANUAL: open the page"`, `echo "1. Click on Save"`. */
const INSTRUCTS =
  /^(?:echo|printf)\s+(?:-\w+\s+)*["']?[^\p{L}]*(?:manual(?:ly)?\b|by hand\b|please\b|(?:open|visit|navigate|browse|go to|click|press|make sure|look at)\b.|(?:check|verify|confirm|ensure) (?:that|the|in|if)\b)/iu;

/** True if a gate does nothing except print text and write its own text to files. */
function onlyWrites({ parsed, outcomes }: Gate): boolean {
  let hasText = false;
  const isWriting = ({ command }: Statement): boolean => {
    const simple = commandIn(command);
    const name = simple?.name?.value ?? "";
    hasText ||= simple?.redirects.some(({ type }) => type === "HereDoc") === true;
    const writes = ["cat", "tee", "mkdir", "touch", "chmod", "cd", "echo", "printf"].includes(name);
    return (
      simple !== undefined && writes && (name !== "cat" || simple.redirects.some(({ type }) => type === "HereDoc"))
    );
  };
  return parsed.commands.every((each) => isWriting(each) || !outcomes.canFail(each)) && hasText;
}

/** Warns about single commands, wherever they are. */
function warnOfCommands(gate: Gate, warn: Warn): void {
  const { command: text, parsed, scripts } = gate;
  /** @param isApart - The node is in a statement that starts a server, or that runs in the background. */
  const visit = (node: SyntaxNode, pipe: Pipeline | undefined, isJudged: boolean, isApart: boolean): void => {
    const command = commandIn(node);
    if (command !== undefined) {
      for (const message of commandWarnings(command, { text, pipe, isJudged })) warn(node, message);
      const endless = `${oneLine(text.slice(node.pos, node.end))} doesn't end by itself, so the gate times out; end its line with \`&\``;
      const message = !isApart && runsForEver(readWords(command), scripts) ? endless : undefined;
      const other = message ?? notExported(gate, command) ?? hiddenFailure(gate, command) ?? pipeInShell(command);
      if (other !== undefined) warn(node, other);
    }
    const isServer =
      node.type === "Statement" &&
      parsed.commands.includes(node) &&
      foregroundServer(node, text.slice(node.pos, node.end), "", scripts) !== undefined;
    const isStarted = isServer || (node.type === "Statement" && node.background === true);
    const isTested = isTest(node) || (node.type === "Assignment" && isUsed(gate, node.name, node.end));
    forEachChild(node, (child) => {
      const inPipe = node.type === "Pipeline" && node.commands.length > 1 ? node : undefined;
      const isClause = node.type === "While" && child === node.clause;
      const isInverted = node.type === "Pipeline" && node.prefixes.some(({ type }) => type === "Negation");
      visit(child, inPipe, isJudged || isTested || isClause || isInverted, isApart || isStarted);
    });
  };
  visit(parsed, undefined, false, false);
}

/** Whether a statement after a position does more with a variable than print it. */
function isUsed({ command, parsed }: Gate, name: string, after: number): boolean {
  return parsed.commands.some(
    (each) =>
      each.end > after && !onlyPrints(each) && refersTo(command.slice(Math.max(each.pos, after), each.end), name),
  );
}

function refersTo(text: string, name: string): boolean {
  return new RegExp(`\\$\\{?[#!]?${name}\\b`).test(text) || new RegExp(`\\(\\(.*\\b${name}\\b`).test(text);
}

/** Returns a warning about a setting that no command gets: `PLUGIN_PATH=…` alone on a line. */
function notExported({ command: text, parsed }: Gate, command: Command): string | undefined {
  const [assignment, another] = command.prefix;
  if (command.name !== undefined || assignment?.type !== "Assignment" || another !== undefined) return undefined;
  const { name, value } = assignment;
  const isSetting = /^[A-Z][A-Z0-9_]*$/.test(name) && !OWN_VARIABLES.test(name) && process.env[name] === undefined;
  if (!isSetting || value.type !== "Word" || value.text.includes("$(")) return undefined;
  const rest = text.slice(command.end);
  const isSeen = new RegExp(`\\b(?:export|declare|typeset|local|readonly|unset)\\b.*\\b${name}\\b|\\bset -\\w*a`).test(
    text,
  );
  const isRead = refersTo(text.slice(0, command.pos), name) || new RegExp(`\\b${name}\\b`).test(rest);
  const runsMore = parsed.commands.some(
    ({ pos, command: each }) => pos >= command.end && commandIn(each)?.name !== undefined,
  );
  return isSeen || isRead || !runsMore
    ? undefined
    : `${name} is set but not exported, so no command sees it; write \`export ${name}=…\``;
}

/** Variables that the shell itself reads. */
const OWN_VARIABLES = /^(?:PATH|HOME|IFS|PS\d|LANG|LC_\w+|CDPATH|OPTIND|RANDOM|SECONDS|HIST\w+|GLOBIGNORE|TIMEFORMAT)$/;

/** Warns about `echo "$(npm test)"` and `export A=$(npm test)`, which succeed even if the tests fail. */
function hiddenFailure({ command: text }: Gate, command: Command): string | undefined {
  const hides = /^(?:echo|printf|export|local|declare|readonly|typeset)$/.test(command.name?.value ?? "");
  let hidden: SyntaxNode | undefined;
  walk(command, (node) => {
    if (node.type !== "ProcessSubstitution" && !(hides && node.type === "CommandExpansion")) return;
    if (node.script?.commands.some(hasWork)) hidden ??= node;
  });
  if (hidden === undefined) return undefined;
  return `nothing sees whether ${oneLine(text.slice(hidden.pos, hidden.end))} fails; assign it to a variable on a line of its own first`;
}

/** Warns about `sh -c "npm test | tee log"`, which succeeds even if the tests fail. */
function pipeInShell(command: Command): string | undefined {
  const script = scriptOfShell(command)?.script;
  if (script === undefined || script.text.includes("pipefail")) return undefined;
  let hides = false;
  walk(parseScript(script.value), (node) => {
    hides ||= node.type === "Pipeline" && node.commands.slice(0, -1).some(hasWork);
  });
  return hides ? "only the last command of its pipes counts; begin it with `set -o pipefail;`" : undefined;
}

/** Whether a command does more than read existing state. */
function hasWork(node: SyntaxNode): boolean {
  let isWork = false;
  walk(node, (each) => {
    const command = commandIn(each);
    isWork ||= command?.name !== undefined && !READING.test(readWords(command).join(" "));
  });
  return isWork;
}

const READING =
  /^(?:(?:date|pwd|basename|dirname|whoami|hostname|uname|nproc|cat|head|tail|wc|ls|du|df|stat|tput|grep|egrep|fgrep|rg|sort|uniq|cut|tr|sed|awk|jq|find|echo|printf|expr|bc|seq|id|which|command|realpath|readlink|env|ps|xargs|true|test|\[)(?: |$)|git (?:rev-parse|describe|log|branch|config|status|diff|ls-files|show|tag)\b|\S+ (?:--version|version|-[vV])$)/;

/** True if a command only lists or prints, and always succeeds. */
function listsOnly([name = "", ...args]: readonly string[]): boolean {
  if (name === "gofmt" || name === "goimports") return args.some((arg) => /^-\w*l/.test(arg));
  if (name === "find") return true;
  const isDiff = args[0] === "diff" && !args.some((arg) => /^--(?:exit-code|quiet|check)$/.test(arg));
  return name === "git" && (isDiff || args[0] === "status" || args[0] === "ls-files");
}

/** Returns the command whose status is the statement's. */
function lastCommand(node: SyntaxNode): Command | undefined {
  if (node.type === "AndOr" || node.type === "Pipeline") {
    const last = node.commands.at(-1);
    return last && lastCommand(last);
  }
  return commandIn(node);
}

/** @throws {GateSyntaxError} The node is nested too deeply: each `<(` parses its whole content again. */
export function walk(node: SyntaxNode, visit: (node: SyntaxNode) => void, depth = 0): void {
  if (depth > MAX_DEPTH) throw new GateSyntaxError(TOO_DEEP, 0);
  visit(node);
  forEachChild(node, (child) => walk(child, visit, depth + 1));
}

const MAX_DEPTH = 1_000;

function oneLine(text: string): string {
  const [first = "", ...more] = text.split("\n");
  return more.length === 0 ? first : `${first} …`;
}
