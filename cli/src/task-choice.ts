import { CommandError, ExitCode } from "./exit-code.js";

/** A task, or all tasks of a prefix, as the command line selects them. */
export type TaskChoice = { readonly task: string } | { readonly prefix: string };

/** @throws {CommandError} The prefix is empty. */
export function assertPrefix(prefix: string): void {
  if (prefix !== "") return;
  throw new CommandError(ExitCode.usage, "An empty prefix would select every task. Nothing was changed.");
}

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
