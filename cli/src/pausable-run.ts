import type { Cli } from "./cli.js";
import { JsonEvents } from "./event-lines.js";
import { CommandError, ExitCode } from "./exit-code.js";
import { printable } from "./printable.js";
import { resumeLine } from "./shell-command.js";

/** A run of a feature, a PRP or a plan. The run saves its progress, and another command continues it. */
export interface PausableRun<Result> {
  /** The command line that continues the run. Default: this one with `--resume`. */
  readonly resume?: string | undefined;
  /**
   * Shows the run. {@link JsonEvents} writes all of standard output. If the view has `live`, other lines are printed
   * with `live.say`, so that they don't tear the view.
   */
  readonly view?: { end(): Promise<void>; readonly live?: { say(line: string): void } | undefined } | undefined;
  /** @param signal - Pauses the run, which then rejects with the signal's reason. */
  work(signal: AbortSignal): Promise<Result>;
  /** Reports the result, if no signal ended the run. */
  report(result: Result): Promise<void>;
}

/**
 * Does a run and reports its result. Ctrl-C, SIGTERM and SIGHUP pause the run. Then the command line that continues it
 * is printed, and the signal ends the process.
 */
export async function runPausably<Result extends { readonly success: boolean }>(
  cli: Cli,
  { view, work, report, resume = resumeLine(cli.args) }: PausableRun<Result>,
): Promise<void> {
  const json = view instanceof JsonEvents ? view : undefined;
  const ended = async (how: Ended): Promise<void> => {
    json?.show({ type: "ended", ...how });
    await view?.end();
  };
  const stopped = async (what: string): Promise<void> => {
    // The terminal has printed ^C on this line.
    if (cli.errors.isTerminal) await cli.errors.line();
    await cli.errors.line(printable(`${what} Continue with: ${resume}`));
  };
  const signal = cli.interruptible(async () => {
    await ended({ status: "killed", resume });
    await stopped(
      "Ended at once: commands that don't end by themselves are killed in 5 s. Their work is not saved, and the next " +
        "run repeats it.",
    );
  });
  const pausing = (): void => {
    if (view?.live) view.live.say(PAUSING);
    else void cli.errors.line(PAUSING);
  };
  signal.addEventListener("abort", pausing, { once: true });
  let result: Result;
  try {
    result = await work(signal);
  } catch (error) {
    if (error !== signal.reason) {
      await ended({ status: "error", error: describeProblem(error) });
      throw error;
    }
    await ended({ status: "paused", resume });
    return stopped("Paused.");
  }
  const { success } = result;
  if (!success) cli.exitCode = ExitCode.failed;
  await ended(success ? { status: "completed", result } : { status: "failed", result, resume });
  if (json === undefined) await report(result);
}

const PAUSING = "Pausing: waiting until the commands have ended. Press Ctrl-C again to end at once.";

/** The last line of `--json`. */
interface Ended {
  readonly status: "completed" | "failed" | "paused" | "killed" | "error";
  readonly result?: object;
  readonly error?: { readonly code?: unknown; readonly message: string };
  /** The command line that continues the run. */
  readonly resume?: string;
}

function describeProblem(error: unknown): NonNullable<Ended["error"]> {
  if (!(error instanceof Error)) return { message: String(error) };
  const { message } = error;
  const origin = error instanceof CommandError ? error.cause : error;
  return origin instanceof Error && "code" in origin ? { code: origin.code, message } : { message };
}
