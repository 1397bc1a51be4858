import type { FailureInfo, TaskRow } from "../../src/ui/api-tasks.js";
import { timeText } from "../../src/words.js";
import { durationText } from "./times.js";
import { typedText } from "./typed.js";

const MOST_UNITS = 2_000;

/** Formats a failure as Markdown, for an issue tracker. */
export function issueText(
  { name, newest, runner }: Pick<TaskRow, "name" | "newest" | "runner">,
  { error, step, before, input }: FailureInfo,
  command: string | undefined,
): string {
  const { message, stack, causes } = error;
  const { attempts = 1, durationMs, inputDigest } = step ?? {};
  const facts = [
    `- Error: ${[error.name, error.code].filter((part) => part !== undefined && part !== "").join(", ")}`,
    ...(step
      ? [`- Step: ${step.title}, ${attempts === 1 ? "1 try" : `${attempts} tries`}, attempt ${step.runAttempt}`]
      : []),
    ...(durationMs === undefined ? [] : [`- Took: ${durationText(durationMs)}`]),
    ...(newest ? [`- Failed: ${timeText(newest.createdAt)} UTC, @${newest.sequence}`] : []),
    ...(runner ? [`- Run by: ${runner.holder}`] : []),
    ...(inputDigest === undefined ? [] : [`- Digest of the step's input: ${inputDigest}`]),
  ];
  return [
    `## ${oneLine(name)} failed: ${oneLine(message)}`,
    facts.map(oneLine).join("\n"),
    section("Error", stack ?? `${error.name}: ${message}`),
    ...causes.map((cause) => section("Caused by", cause.stack ?? `${cause.name}: ${cause.message}`)),
    ...(input === undefined ? [] : [section("Input of the run", typedText(input))]),
    ...(before?.result === undefined
      ? []
      : [section(`Result of the step before, ${oneLine(before.title)}`, typedText(before.result))]),
    ...(command === undefined ? [] : [section("To see it", command)]),
  ].join("\n\n");
}

function section(title: string, text: string): string {
  const shown = text.length > MOST_UNITS ? `${text.slice(0, MOST_UNITS)}\n…` : text;
  // The fence is longer than any run of backticks in the text.
  const longest = Math.max(2, ...Array.from(shown.matchAll(/`+/g), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `### ${title}\n\n${fence}\n${shown}\n${fence}`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ");
}
