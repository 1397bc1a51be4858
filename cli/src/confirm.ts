import type { Session } from "./cli.js";
import { CommandError, ExitCode } from "./exit-code.js";
import { printable } from "./printable.js";

/**
 * Asks before a change. Only yes means yes.
 *
 * @param isAgreed - `--yes` was given, so no question is asked.
 * @throws {CommandError} The answer is no, or there is no terminal to ask on.
 */
export async function confirm(
  { stdin, errors }: Pick<Session, "stdin" | "errors">,
  question: string,
  isAgreed: boolean,
): Promise<void> {
  if (isAgreed) return;
  const text = printable(question);
  if (!stdin.isTTY || !errors.isTerminal) {
    throw new CommandError(
      ExitCode.declined,
      `${text} There is no terminal to ask on, so nothing was changed. Pass --yes if that is what you want.`,
    );
  }
  const answer = await answerTo(`${text} [y/N] `);
  if (/^y(es)?$/i.test(answer.trim())) return;
  throw new CommandError(ExitCode.declined, "Nothing was changed.");
}

/** Returns the answer; empty if the input ends. */
async function answerTo(prompt: string): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const ended = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
    // readline catches Ctrl-C; pass it on.
    terminal.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    return await Promise.race([terminal.question(prompt), ended]);
  } finally {
    terminal.close();
  }
}
