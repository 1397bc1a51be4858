import type { TaskChoice } from "./actions/runs.js";
import { CommandError, ExitCode } from "./exit-code.js";

/**
 * Returns what a command that takes a task or `--prefix` is to change.
 *
 * @param example - A command line that is right.
 * @throws {CommandError} Neither is given, or both.
 */
export function taskChoice(task: string | undefined, prefix: string | undefined, example: string): TaskChoice {
  if (task !== undefined && prefix === undefined) return { task };
  if (task === undefined && prefix !== undefined) return { prefix };
  throw new CommandError(ExitCode.usage, `Pass one task, or --prefix for all that begin with it: ${example}.`);
}
