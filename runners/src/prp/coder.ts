import { setTimeout as delay } from "node:timers/promises";
import { isError, onAbort } from "waymark/kit";
import type { ValidationGateResult } from "waymark/prp";
import type { CommandResult } from "../processes/run-command.js";
import { type CoderReply, parseCoderReply, toCoderReply } from "./coder-reply.js";

/** The request to a coder. */
export interface CoderRequest {
  readonly taskId: string;
  /** The whole task, and how to answer. */
  readonly prompt: string;
  /** The absolute path of the PRP's file. Empty if the PRP was passed as an object. */
  readonly prpPath: string;
  /** The folder of the work. */
  readonly cwd: string;
  /** 0 for the first request, then the number of the fix attempt. */
  readonly fixAttempt: number;
  /** The failed gates to fix. Empty for the first request. */
  readonly failedGates: readonly ValidationGateResult[];
  /** Aborts when the run is ended, and after `coderTimeoutMs`. */
  readonly signal: AbortSignal;
}

/** The answer of a coder that is a function: the result, or text that ends in the result as JSON. */
export type CoderAnswer =
  | string
  | {
      readonly result: "success" | "error" | "issue";
      readonly message: string;
      /** Files that the coder made or changed. */
      readonly artifacts?: readonly string[] | undefined;
    };

/**
 * The coder does the work. It is a function, `claude`, `codex`, or a command line for `sh`. The command reads the prompt on stdin. Its stdout may
 * end with one line of JSON, `{"result": "success" | "error" | "issue", "message": "…", "artifacts"?: […]}`; without one, the gates
 * decide.
 */
export type Coder = string | ((request: CoderRequest) => CoderAnswer | Promise<CoderAnswer>);

/** How many bytes at the end of a command's stdout are searched for its result, even if fewer are kept. */
export const REPLY_BYTES = 1024 * 1024;

/** The result of a coder's turn. */
export interface CoderOutcome {
  /** The coder's output, bounded. */
  readonly response: string;
  readonly reply: CoderReply;
  /** The error that the coder threw, if any. */
  readonly error?: unknown;
}

export interface FunctionCoderOptions {
  readonly timeoutMs?: number | undefined;
  /** How long an aborted coder has to end. */
  readonly graceMs: number;
}

/**
 * Calls a coder that is a function.
 *
 * @returns The outcome; `undefined` if the request's signal aborted first.
 */
export async function callCoder(
  coder: Exclude<Coder, string>,
  request: CoderRequest,
  { timeoutMs, graceMs }: FunctionCoderOptions,
): Promise<CoderOutcome | undefined> {
  const timeout = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
  const signal = timeout === undefined ? request.signal : AbortSignal.any([request.signal, timeout]);
  // Never rejects, so an abandoned coder causes no unhandled rejection.
  const answered = askCoder(coder, { ...request, signal });
  let unfollow = (): void => undefined;
  const aborted = new Promise<undefined>((resolve) => {
    unfollow = onAbort(signal, () => resolve(undefined));
  });
  const late = await Promise.race([answered, aborted]);
  unfollow();
  if (late !== undefined) return late;
  // A coder that heeds the signal gets time to end. If a successful result comes by then, it still counts.
  const patience = new AbortController();
  const last = await Promise.race([answered, delay(graceMs, undefined, { signal: patience.signal })]);
  patience.abort();
  if (last?.reply.result === "success") return last;
  return request.signal.aborted ? undefined : timedOut(timeoutMs);
}

/** Reads the outcome of a coder that is a command. */
export function toCoderOutcome(result: CommandResult): CoderOutcome {
  const { stdout, stdoutEnd, stderr, exitCode, timedOut: late } = result;
  if (late || exitCode !== 0) {
    const how = late ? "timed out" : exitCode === null ? "was ended by a signal" : `exited with ${exitCode}`;
    const said = stderr.trim() === "" ? stdoutEnd : stderr;
    const last = said.trimEnd().split("\n").slice(-5).join("\n");
    const message = `The coder ${how}${last === "" ? "" : `: ${last}`}`;
    return { response: stdout, reply: { result: "error", message, artifacts: [] } };
  }
  return { response: stdout, reply: parseCoderReply(stdoutEnd) };
}

async function askCoder(coder: Exclude<Coder, string>, request: CoderRequest): Promise<CoderOutcome> {
  try {
    const answer = await coder(request);
    return {
      response: typeof answer === "string" ? answer : (JSON.stringify(answer) ?? ""),
      reply: toCoderReply(answer),
    };
  } catch (error) {
    const message = isError(error) ? error.message : String(error);
    return { response: "", reply: { result: "error", message, artifacts: [] }, error };
  }
}

function timedOut(timeoutMs: number | undefined): CoderOutcome {
  const message = `The coder timed out after ${timeoutMs} ms.`;
  return { response: "", reply: { result: "error", message, artifacts: [] } };
}
