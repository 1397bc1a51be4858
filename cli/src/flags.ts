import { CheckpointError } from "waymark";
import { CommandError, toExitCode } from "./exit-code.js";

/**
 * Runs `work`, which calls the SDK. If it throws, adds the command's flags for the next step to the error's message.
 *
 * @param flags - The flags for each error code.
 */
export async function namingFlags<Result>(
  flags: Readonly<Record<string, string>>,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const added = Object.hasOwn(flags, code) ? flags[code] : undefined;
    if (added === undefined || !(error instanceof Error)) throw error;
    // A retryable error isn't due to a missing flag.
    if (error instanceof CheckpointError && error.retryable) throw error;
    throw new CommandError(toExitCode(error), `${error.message.replace(/\.$/, "")} (${added}).`, { cause: error });
  }
}
