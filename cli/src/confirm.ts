import { createInterface } from "node:readline/promises";
import { CommandError, ExitCode } from "./exit-code.js";
import { printable } from "./printable.js";

/**
 * Asks before something is changed; anything but yes is no.
 *
 * @param isAgreed - `--yes` was given: nothing is asked.
 * @throws {CommandError} The answer is no, or there is no terminal to ask on.
 */
export async function confirm(question: string, isAgreed: boolean): Promise<void> {
  if (isAgreed) return;
  const asked = printable(question);
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new CommandError(
      ExitCode.declined,
      `${asked} There is no terminal to ask on, so nothing was changed. Pass --yes if that is what you want.`,
    );
  }
  const answer = await answerTo(`${asked} [y/N] `);
  if (/^y(es)?$/i.test(answer.trim())) return;
  throw new CommandError(ExitCode.declined, "Nothing was changed.");
}

/** The answer; none where the input ends. */
async function answerTo(prompt: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const ended = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
    // readline takes Ctrl-C away from the system.
    terminal.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
    return await Promise.race([terminal.question(prompt), ended]);
  } finally {
    terminal.close();
  }
}
