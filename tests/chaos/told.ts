import type { StorageName } from "./store.js";

/** The settings that a process of a chaos run gets. */
export interface Told {
  readonly name: string;
  readonly storage: StorageName;
  /** A URL or a path. */
  readonly place: string;
  /** The folder of the ledgers. */
  readonly ledgers: string;
  /** The folder of the history. */
  readonly histories: string;
  readonly seed: number;
  readonly tasks: number;
  readonly spreadMs: number;
  readonly ttlMs: number;
  readonly beganAtMs: number;
}

/**
 * Reads the settings from the command line, and makes this process end with its parent.
 *
 * @param asked - Called when the parent asks for a stop before the next save.
 */
export function told(asked: () => void = () => undefined): Told {
  // The pipe closes when the parent ends.
  process.stdin.on("data", asked).once("end", () => process.exit(1));
  return JSON.parse(process.argv[2] ?? "") as Told;
}

/**
 * Returns an error's code or name. If a run was paused because its child run couldn't continue, uses the child's error.
 */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  if (error.name === "RunPausedError" && error.cause instanceof Error) return codeOf(error.cause);
  return "code" in error ? `${error.code}` : error.name;
}
