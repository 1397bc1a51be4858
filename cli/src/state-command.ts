import { spawn } from "node:child_process";
import { once } from "node:events";
import type { CheckpointSummary } from "waymark";
import { CommandError, ExitCode } from "./exit-code.js";

/** What a command says about a state. */
export type Verdict = "good" | "bad" | "skip";

/** As for `git bisect run`. */
const SKIP = 125;
/** The shell's own: the command couldn't be run. It says nothing about the state. */
const NOT_RUN = [126, 127];

/**
 * Runs a command in the shell with a state on its standard input. What it prints goes to standard error, since standard
 * output is the answer's.
 *
 * @throws {CommandError} It couldn't be run, or was killed: that is no verdict.
 */
export async function judge(command: string, state: string, checkpoint: CheckpointSummary): Promise<Verdict> {
  const child = spawn(command, {
    shell: true,
    stdio: ["pipe", 2, 2],
    env: {
      ...process.env,
      WAYMARK_SEQUENCE: String(checkpoint.sequence),
      WAYMARK_CHECKPOINT: withoutNul(checkpoint.id),
    },
  });
  // A command may decide without reading all of the state.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(state);
  const [code, signal]: unknown[] = await once(child, "close");
  if (code === 0) return "good";
  if (code === SKIP) return "skip";
  if (typeof code === "number" && code < 128 && !NOT_RUN.includes(code)) return "bad";
  const end = typeof code === "number" ? `ended with ${code}` : `was ended by ${String(signal)}`;
  throw new CommandError(
    ExitCode.failed,
    `The command ${end} at @${checkpoint.sequence}, which is no verdict: 0 is good, 125 skips, any other up to 125 is bad. Try it by hand: waymark show TASK @${checkpoint.sequence} --state | ${command}`,
  );
}

/** The environment can't hold it. */
function withoutNul(text: string): string {
  return text.replaceAll("\0", "");
}
