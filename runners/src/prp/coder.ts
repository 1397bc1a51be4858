import { isError, onAbort } from "waymark/kit";
import type { ValidationGateResult } from "waymark/prp";
import { type CoderReply, toCoderReply } from "./coder-reply.js";

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
 * The coder does the work. It is a function, `claude`, `codex`, or a command line for `sh`. The command reads the
 * prompt on stdin. Its stdout may end with one line of JSON, `{"result": "success" | "error" | "issue", "message": "…",
 * "artifacts"?: […]}`. Without this line, the gates decide.
 */
export type Coder = string | ((request: CoderRequest) => CoderAnswer | Promise<CoderAnswer>);

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
  let unfollow = (): void => undefined;
  let timer: NodeJS.Timeout | undefined;
  // A coder that heeds the signal gets time to end. If a successful result comes by then, it still counts.
  const givenUp = new Promise<undefined>((resolve) => {
    unfollow = onAbort(signal, () => {
      timer = setTimeout(() => resolve(undefined), graceMs);
    });
  });
  // `askCoder` never rejects, so an abandoned coder causes no unhandled rejection.
  const outcome = await Promise.race([askCoder(coder, { ...request, signal }), givenUp]);
  unfollow();
  clearTimeout(timer);
  if (!signal.aborted || outcome?.reply.result === "success") return outcome;
  return request.signal.aborted ? undefined : failed(`The coder timed out after ${timeoutMs} ms.`);
}

async function askCoder(coder: Exclude<Coder, string>, request: CoderRequest): Promise<CoderOutcome> {
  try {
    const answer = await coder(request);
    return {
      response: typeof answer === "string" ? answer : (JSON.stringify(answer) ?? ""),
      reply: toCoderReply(answer),
    };
  } catch (error) {
    return { ...failed(isError(error) ? error.message : String(error)), error };
  }
}

function failed(message: string): CoderOutcome {
  return { response: "", reply: { result: "error", message, artifacts: [] } };
}
