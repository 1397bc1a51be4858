import { once } from "node:events";
import type { CheckpointSummary } from "waymark";
import { CommandError, ExitCode } from "./exit-code.js";

/** A command's verdict on a state. */
export type Verdict = "good" | "bad" | "skip";

/** The exit code for "skip", as for `git bisect run`. */
const SKIP = 125;
/** The shell's exit codes for a command that couldn't be run. They aren't verdicts. */
const NOT_RUN = [126, 127];

/**
 * Runs a command in the shell with a state on its standard input. Its output goes to standard error, because standard
 * output is for the answer.
 *
 * @param showCommand - A command that prints the same state, for the message.
 * @throws {CommandError} The command couldn't be run, or was killed, so there is no verdict.
 */
export async function judge(
  command: string,
  state: string,
  checkpoint: CheckpointSummary,
  showCommand: string,
): Promise<Verdict> {
  const { spawn } = await import("node:child_process");
  const child = spawn(command, {
    shell: true,
    stdio: ["pipe", 2, 2],
    env: {
      ...process.env,
      WAYMARK_SEQUENCE: String(checkpoint.sequence),
      // Environment variables can't contain NUL.
      WAYMARK_CHECKPOINT: checkpoint.id.replaceAll("\0", ""),
    },
  });
  // A command may decide without reading the whole state.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(state);
  const [code, signal]: unknown[] = await once(child, "close");
  if (code === 0) return "good";
  if (code === SKIP) return "skip";
  if (typeof code === "number" && code < 128 && !NOT_RUN.includes(code)) return "bad";
  const end = typeof code === "number" ? `ended with ${code}` : `was ended by ${String(signal)}`;
  throw new CommandError(
    ExitCode.failed,
    `The command ${end} at @${checkpoint.sequence}, which isn't a verdict: 0 means good, 125 skips the checkpoint, 1 to 124 mean bad. Try it by hand: ${showCommand} | ${command}`,
  );
}
