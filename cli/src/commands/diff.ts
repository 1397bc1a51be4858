import type { CheckpointSummary } from "waymark";
import { findCheckpoint, readState, titleOf } from "../checkpoints.js";
import type { CommandFile, Session } from "../cli.js";
import { ExitCode } from "../exit-code.js";
import type { Output } from "../output.js";
import { plainJson } from "../plain-json.js";
import { jsonText, printable } from "../printable.js";
import { changesOf, deltaOf, type StateChange } from "../state-diff.js";
import { formatPath } from "../state-path.js";

export const diff: CommandFile = {
  example: "waymark diff build-42 @6 @latest",
  register(program, cli) {
    program
      .command("diff")
      .summary("compare two states")
      .description("What changed in the state from checkpoint A to checkpoint B; each is an id, @7 or @latest.")
      .argument("<task>")
      .argument("<a>")
      .argument("<b>")
      .option("--exit-code", "exit with 6 if the states differ")
      .option("--json", "for programs: the delta of jsondiffpatch, or null")
      .action((taskId, a, b, options) =>
        cli.withStore(async (session) => {
          const from = await findCheckpoint(session, taskId, a);
          const to = await findCheckpoint(session, taskId, b);
          const delta = deltaOf(plainJson(await readState(session, from)), plainJson(await readState(session, to)));
          if (options.json) await session.output.line(jsonText(delta ?? null));
          else await print(session, from, to, delta);
          if (options.exitCode && delta !== undefined) cli.exitCode = ExitCode.conflict;
        }),
      );
  },
};

/** The most columns of a value on a terminal. */
const VALUE_COLUMNS = 240;

async function print(
  { output }: Session,
  from: CheckpointSummary,
  to: CheckpointSummary,
  delta: unknown,
): Promise<void> {
  await output.line(output.colors.red(`--- ${titleOf(from)}`));
  await output.line(output.colors.green(`+++ ${titleOf(to)}`));
  if (delta === undefined) await output.line("The states are equal, as JSON.");
  for (const change of changesOf(delta)) {
    if (output.isClosed) break;
    await output.line(lineOf(change, output));
  }
}

function lineOf(change: StateChange, { colors, isTerminal }: Output): string {
  const path = printable(formatPath(change.path)) || "the state";
  const value = (part: unknown) => shortened(jsonText(part), isTerminal);
  switch (change.kind) {
    case "added":
      return colors.green(`+ ${path}: ${value(change.to)}`);
    case "removed":
      return colors.red(`- ${path}: ${value(change.from)}`);
    case "moved":
      return colors.yellow(`~ ${path} moved to [${change.toIndex}]`);
    default:
      return `${colors.yellow("~")} ${path}: ${colors.red(value(change.from))} => ${colors.green(value(change.to))}`;
  }
}

function shortened(text: string, isTerminal: boolean): string {
  if (!isTerminal || text.length <= VALUE_COLUMNS) return text;
  return `${text.slice(0, VALUE_COLUMNS)}… (${text.length - VALUE_COLUMNS} more)`;
}
