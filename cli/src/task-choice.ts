import { CommandError, ExitCode } from "./exit-code.js";

/** What the command line selects: one task, or all tasks with a prefix. */
export type TaskChoice = { readonly task: string } | { readonly prefix: string };

/** @throws {CommandError} The prefix is empty. */
export function assertPrefix(prefix: string): void {
  if (prefix !== "") return;
  throw new CommandError(ExitCode.usage, "An empty prefix would select every task. Nothing was changed.");
}

/**
 * Returns which tasks a command is to change: the one that it names, or all with `--prefix`.
 *
 * @param example - A correct command line, for the error.
 * @throws {CommandError} Neither or both are given.
 */
export function taskChoice(task: string | undefined, prefix: string | undefined, example: string): TaskChoice {
  if (task !== undefined && prefix === undefined) return { task };
  if (task === undefined && prefix !== undefined) return { prefix };
  throw new CommandError(ExitCode.usage, `Pass one task, or --prefix for all that begin with it: ${example}.`);
}
