import type { StorageName } from "./store.js";

/** What a process of a chaos run is told. */
export interface Told {
  readonly name: string;
  readonly storage: StorageName;
  /** A URL, or a path. */
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
 * Reads it from the command line. From then on this process ends with its parent.
 *
 * @param asked - Called when the parent asks for a stop before the next save.
 */
export function told(asked: () => void = () => undefined): Told {
  // The pipe is closed by the parent's end.
  process.stdin.on("data", asked).once("end", () => process.exit(1));
  return JSON.parse(process.argv[2] ?? "") as Told;
}

/** An error's code, or its name. If a run was paused because a run within it couldn't continue: the reason's. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  if (error.name === "RunPausedError" && error.cause instanceof Error) return codeOf(error.cause);
  return "code" in error ? `${error.code}` : error.name;
}
