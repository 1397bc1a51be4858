import { DecryptionFailedError, KeyUnavailableError, UnsupportedFormatError } from "waymark";
import type { ProjectConfig } from "./config-file.js";
import { CommandError, toExitCode } from "./exit-code.js";

/** Whether the error says that the state is intact, but the configuration lacks its transform or its key. */
export function isKeyMissing(error: unknown): error is Error {
  if (error instanceof DecryptionFailedError || error instanceof KeyUnavailableError) return true;
  return error instanceof UnsupportedFormatError && error.message.includes("no transform named");
}

/** If a key is missing, adds to the error where the command takes keys from. Other errors are returned unchanged. */
export async function withKeyAdvice(error: unknown, config: () => Promise<ProjectConfig>): Promise<unknown> {
  if (!isKeyMissing(error)) return error;
  const { file } = await config();
  const advice =
    file === undefined
      ? "The command takes transforms and their keys from waymark.config.js, and there is none here or in a folder above."
      : `The command takes transforms and their keys from ${file}.`;
  return new CommandError(toExitCode(error), `${error.message} ${advice}`, { cause: error });
}
