import { inspectGate } from "../prp/gates/inspect-gate.js";
import type { PlanItem } from "./plan.js";

/** The checks that a text names. */
export interface NamedChecks {
  /** The checks that are commands. */
  readonly gates: readonly string[];
  /** The checks without a command, in the words of the text: `Typecheck passes`. */
  readonly checks: readonly string[];
}

/**
 * Finds the commands that lines of an item name as checks: "Tests pass: `npm test`", "`npm run lint` runs", "npm test
 * exits with 0". A command that is the work itself ("Add `npm run lint` to package.json") isn't a check.
 */
export function findChecks(lines: readonly string[]): NamedChecks {
  const gates = new Set<string>();
  const checks = new Set<string>();
  for (const raw of lines) {
    const line = raw.replace(/^[\s>*+-]+|\*\*/g, "").trim();
    const quoted = [...line.matchAll(/`([^`\n]+)`/g)].map(([, command = ""]) => command.trim());
    const bare = BARE.exec(line)?.[1] ?? (quoted.length === 0 && !/[.,;:!?]\s|[.!?]$/.test(line) ? line : undefined);
    const named = quoted.length > 0 ? (isAsserted(line) ? quoted : []) : bare === undefined ? [] : [bare];
    const commands = named.filter(isCheck);
    for (const command of commands) gates.add(command);
    if (commands.length === 0 && SCRIPTED.test(line)) checks.add(line.replace(/[.\s]+$/, ""));
  }
  return { gates: [...gates], checks: [...checks] };
}

/** Returns the commands that must succeed for an item: the commands that the item names, then the common ones. */
export function gatesFor(
  item: PlanItem,
  common: readonly string[],
  scripts: Readonly<Record<string, unknown>>,
): readonly string[] {
  const named = item.checks.flatMap((check) => findScript(check, scripts) ?? []);
  // The items within a group have passed the common gates just before.
  return [...new Set([...item.gates, ...named, ...(item.isGroup ? [] : common)])];
}

/** Returns the command of the package.json script that a check means: `npm run typecheck` for "Typecheck passes". */
export function findScript(check: string, scripts: Readonly<Record<string, unknown>>): string | undefined {
  const kind = KINDS.find(([pattern]) => pattern.test(check))?.[1] ?? [];
  const name = kind.find((each) => typeof scripts[each] === "string" && !isPlaceholder(scripts[each]));
  return name && (name === "test" ? "npm test" : `npm run ${name}`);
}

/** Returns the gates for `--gates auto`: the scripts that check types, lint and test. */
export function scriptGates(scripts: Readonly<Record<string, unknown>>): readonly string[] {
  return ["typecheck", "lint", "test"].flatMap((kind) => findScript(kind, scripts) ?? []);
}

/** `npm init` writes a test script that fails. */
function isPlaceholder(script: string): boolean {
  return script.includes("no test specified");
}

const KINDS: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^type[- ]?check/i, ["typecheck", "type-check", "check-types", "check:types", "types", "tsc"]],
  [/^lint/i, ["lint", "eslint", "check:lint"]],
  [/^(?:all |unit )?tests?\b/i, ["test", "test:unit", "tests"]],
  [/^build/i, ["build"]],
];

const SCRIPTED =
  /^(?:type[- ]?check(?:s|ing)?|lint(?:ing|er|s)?|(?:all |unit )?tests?|(?:the )?build)\s+(?:pass(?:es)?|succeeds?|is clean|runs clean|(?:is |are )?green)\b/i;
const PASSES =
  /\bpass(?:es|ing)?\b|\bsucceed(?:s|ed)?\b|\bexits? (?:with )?(?:code )?0\b|\bgreen\b|\bclean(?:ly)?\b|通过|成功|パス|통과/i;
const ASSERTS =
  /\b(?:checkpoint|run(?:s|ning)?|verif(?:y|ies)|validate[sd]?|ensure|confirm|tests?:|check|works?)\b|运行|验证|執行|実行/i;
const WORK =
  /^(?:\W*)(?:add|creat|writ|configur|set ?up|implement|document|updat|remov|defin|replac|renam|install|introduc|extend|wire|make|fix|use|expos|mov)/i;
/** Matches a command without quotes at the start of a line. */
const BARE =
  /^((?:npm|npx|pnpm|yarn|bun|node|deno|uv|uvx|python3?|pytest|cargo|go|make|tox|mvn|dotnet|\.\/gradlew|bundle exec) .*?)\s+(?:exits?|pass(?:es)?|succeeds?|runs)\b/;
const PROGRAM =
  /^(?:[A-Z_]+=\S+ )*(?:cd [\w./-]+ && )?(?:npm|npx|pnpm|yarn|bun|bunx|node|deno|uv|uvx|poetry|pipenv|hatch|python3?|pytest|py\.test|tox|nox|ruff|mypy|pyright|black|cargo|go|golangci-lint|make|just|task|mvn|\.\/mvnw|gradle|\.\/gradlew|dotnet|bundle|bin\/\w+|rspec|rake|rails|composer|php|vendor\/bin\/\w+|mix|swift|xcodebuild|flutter|dart|bazel|cmake|ctest|tsc|eslint|biome|prettier|vitest|jest|playwright|cypress|openspec|terraform|helm|docker compose|bash|sh|\.\/[\w./-]+\.sh|git diff)(?:\s|$)/;
const CHECKS =
  /(?:^|[^a-z])(?:tests?|specs?)(?:[^a-z]|$)|(?:py|x?c|nex|vi)test|lint|type-?check|\btsc\b|\bcheck|\bbuild\b|valid|verif|mypy|pyright|ruff|clippy|\bvet\b|biome|prettier|jest|playwright|cypress|--exit-code|coverage|e2e|audit|types\b/i;
const OTHER =
  /watch|--ui\b|…|\.\.\.|\b(?:dev|serve|start|install|i|init|create|generate|update|add|show|archive|login|publish|deploy)\b/i;

function isAsserted(line: string): boolean {
  return PASSES.test(line) || /^`[^`]+`$/.test(line) || (ASSERTS.test(line) && !WORK.test(line));
}

/** True if a text is a command that checks something, runs unchanged, and ends by itself. */
function isCheck(command: string): boolean {
  if (!PROGRAM.test(command) || !CHECKS.test(command) || OTHER.test(command)) return false;
  return inspectGate({ command, lines: [] }).findings.every(({ kind }) => kind !== "error");
}
