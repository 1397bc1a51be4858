import type { CheckpointSummary, StateChange } from "waymark";
import { makePayload } from "waymark/adapter";
import { describeCheckpoint } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { ExitCode } from "../exit-code.js";
import { jsonOption, jsonPrinter, ndjsonOption, printItems } from "../items.js";
import type { Output } from "../output.js";
import { findKind, plainJson } from "../plain-json.js";
import { jsonText, printable } from "../printable.js";
import { diffStates, type StateDiff } from "../queries/diff.js";
import { formatPath } from "../state-path.js";

export const diff: CommandFile = {
  example: "waymark diff build-42 @6 @latest",
  register(program, cli) {
    program
      .command("diff")
      .summary("compare two states")
      .description("Shows how the state changed from checkpoint A to B; each is an id or its beginning, @7 or @latest.")
      .argument("<task>")
      .argument("[a]", "default: the one before B")
      .argument("[b]", "default: @latest")
      .option("--exit-code", "exit with 6 if the states differ")
      .addOption(jsonOption("change"))
      .addOption(ndjsonOption("change"))
      .action((task, a, b, options) =>
        cli.withStore(async (session) => {
          const diff = await diffStates(session, { task, from: a, to: b });
          const json = jsonPrinter(session.output, options);
          if (json)
            await printItems(
              session.output,
              await Promise.all(diff.changes.map((change) => toJson(change, diff.to))),
              json,
            );
          else await print(session, diff);
          if (options.exitCode && diff.changes.length > 0) cli.exitCode = ExitCode.conflict;
        }),
      );
  },
};

/** The maximum width of a value on a terminal, in columns. */
const VALUE_COLUMNS = 240;
/** For longer texts, only the changed words are shown. */
const LONG_TEXT = 80;
const CONTEXT_WORDS = 4;
const CONTEXT_CHARACTERS = 24;

async function print({ output }: Session, { from, to, changes, besides }: StateDiff): Promise<void> {
  await output.line(output.colors.red(`--- ${describeCheckpoint(from)}`));
  await output.line(output.colors.green(`+++ ${describeCheckpoint(to)}`));
  for (const change of changes) {
    if (output.isClosed) break;
    await output.line(formatLine(change, output));
  }
  const equal = changes.length === 0 ? ["The states are equal."] : [];
  const others = besides.length === 0 ? [] : [`Changed besides the state: ${besides.join(", ")}`];
  const last = [...equal, ...others].join(" ");
  if (last !== "") await output.line(printable(last));
}

/** Returns a change with its values as they are stored. Values that JSON lacks have tags. */
async function toJson(change: StateChange, context: CheckpointSummary): Promise<object> {
  const stored = async (value: unknown): Promise<unknown> => {
    const made = await makePayload(value, { context, maxBytes: Number.MAX_SAFE_INTEGER });
    return JSON.parse(String(made.payload.body));
  };
  return {
    ...change,
    ...("from" in change && { from: await stored(change.from) }),
    ...("to" in change && { to: await stored(change.to) }),
  };
}

function formatLine(change: StateChange, { colors, isTerminal }: Output): string {
  const path = printable(formatPath(change.path)) || "the state";
  const value = (part: unknown) => shortened(valueText(part), isTerminal);
  switch (change.kind) {
    case "added":
      return colors.green(`+ ${path}: ${value(change.to)}`);
    case "removed":
      return colors.red(`- ${path}: ${value(change.from)}`);
    case "moved":
      return colors.yellow(`~ ${path} moved to [${change.toIndex}]`);
    default: {
      const { from, to } = change;
      const [old, current] = isLong(from) && isLong(to) ? changedWords(from, to) : [value(from), value(to)];
      return `${colors.yellow("~")} ${path}: ${colors.red(old)} => ${colors.green(current)}`;
    }
  }
}

/** Returns the value as JSON. If JSON lacks its kind, the kind comes first: `NaN`, `Map {"a":1}`. */
function valueText(value: unknown): string {
  const kind = findKind(value);
  if (kind === "undefined" || kind === "number") return Object.is(value, -0) ? "-0" : String(value);
  if (kind === "bigint") return `${String(value)}n`;
  const text = jsonText(plainJson(value));
  return ["null", "string", "boolean", "Object", "Array"].includes(kind) ? text : `${kind} ${text}`;
}

function isLong(value: unknown): value is string {
  return typeof value === "string" && value.length > LONG_TEXT;
}

/**
 * Returns the words that differ in two long texts, with some words around them. Texts with hardly any spaces are
 * compared by character.
 */
function changedWords(from: string, to: string): [from: string, to: string] {
  const isProse = ![from, to].some((text) => /\S{60}/.test(text));
  const wordsOf = (text: string) => (isProse ? text.split(/(?<=\s)/) : [...text]);
  const context = isProse ? CONTEXT_WORDS : CONTEXT_CHARACTERS;
  const [old, current] = [wordsOf(from), wordsOf(to)];
  const shorter = Math.min(old.length, current.length);
  let before = 0;
  while (before < shorter && old[before] === current[before]) before += 1;
  let after = 0;
  while (after < shorter - before && old.at(-1 - after) === current.at(-1 - after)) after += 1;
  const part = (words: readonly string[]) => {
    const [start, end] = [Math.max(0, before - context), Math.min(words.length, words.length - after + context)];
    const text = jsonText(words.slice(start, end).join(""));
    return `${start > 0 ? "… " : ""}${text}${end < words.length ? " …" : ""}`;
  };
  return [part(old), part(current)];
}

function shortened(text: string, isTerminal: boolean): string {
  if (!isTerminal || text.length <= VALUE_COLUMNS) return text;
  return `${text.slice(0, VALUE_COLUMNS)}… (${text.length - VALUE_COLUMNS} more)`;
}
