import { CommandError, exitCodeOf } from "./exit-code.js";

/**
 * Does work of the SDK, which doesn't know the flags that its options have here, and names them where it fails.
 *
 * @param flags - What to say, by the error's code.
 */
export async function namingFlags<Result>(
  flags: Readonly<Record<string, string>>,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const advice = Object.hasOwn(flags, code) ? flags[code] : undefined;
    if (advice === undefined || !(error instanceof Error)) throw error;
    throw new CommandError(exitCodeOf(error), `${error.message} (${advice})`, { cause: error });
  }
}
