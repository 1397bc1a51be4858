import type { Failed, LiveQueries, Queries } from "../../src/ui/api.js";
import type { ErrorInfo } from "../../src/ui/api-parts.js";

/** Sends requests to this page's server. Every request carries the token. No URL contains data from the storage. */
export class Api {
  readonly #token: string;

  constructor(token: string) {
    this.#token = token;
  }

  /**
   * @throws {RefusedError} The server answered with an error.
   * @throws {ConnectionLostError} The server didn't answer.
   */
  async ask<Name extends keyof Queries>(
    name: Name,
    request: Queries[Name]["request"],
    signal?: AbortSignal,
  ): Promise<Queries[Name]["answer"]> {
    return (await this.#post(name, request, signal)).json();
  }

  /**
   * Yields the messages of a query that stays open until the server ends it.
   *
   * @throws {RefusedError} The server answered with an error.
   * @throws {ConnectionLostError} The server didn't answer, or the connection broke.
   */
  async *watch<Name extends keyof LiveQueries>(
    name: Name,
    request: LiveQueries[Name]["request"],
    signal: AbortSignal,
  ): AsyncGenerator<LiveQueries[Name]["answer"], void, void> {
    const { body } = await this.#post(name, request, signal);
    if (body === null) return;
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (true) {
      const { done, value } = await readFrom(reader);
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        const data = event
          .split("\n")
          .filter((line) => line.startsWith("data:"))
          .map((line) => line.slice("data:".length));
        if (data.length > 0) yield JSON.parse(data.join("\n"));
      }
    }
  }

  async #post(name: string, request: object, signal: AbortSignal | undefined): Promise<Response> {
    let response: Response;
    try {
      response = await fetch(`/api/${name}`, {
        method: "POST",
        headers: { authorization: `Bearer ${this.#token}`, "content-type": "application/json" },
        body: JSON.stringify(request),
        signal: signal ?? null,
      });
    } catch (cause) {
      if (isAbort(cause)) throw cause;
      throw new ConnectionLostError(cause);
    }
    if (!response.ok) throw await readRefusal(response);
    return response;
  }
}

/** The server answered with an error. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
  readonly info: ErrorInfo;

  constructor(info: ErrorInfo) {
    super(info.message);
    this.info = info;
  }
}

/** The server doesn't answer: it was stopped, or the machine sleeps. */
export class ConnectionLostError extends Error {
  override readonly name = "ConnectionLostError";

  constructor(cause: unknown) {
    super(
      'The server of this page doesn\'t answer. If "waymark ui" was stopped, start it again and open its new address.',
      {
        cause,
      },
    );
  }
}

/** Describes anything that was thrown. */
export function errorInfo(error: unknown): ErrorInfo {
  if (error instanceof RefusedError) return error.info;
  if (error instanceof Error) return { name: error.name, message: error.message, causes: [] };
  return { name: "Error", message: String(error), causes: [] };
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

async function readFrom(reader: ReadableStreamDefaultReader<string>): Promise<ReadableStreamReadResult<string>> {
  try {
    return await reader.read();
  } catch (cause) {
    if (isAbort(cause)) throw cause;
    throw new ConnectionLostError(cause);
  }
}

async function readRefusal(response: Response): Promise<RefusedError> {
  const { status } = response;
  if (status === 401) {
    const message = 'The token of this page isn\'t valid. Open the address that "waymark ui" printed last.';
    return new RefusedError({ name: "Unauthorized", code: "TOKEN", message, causes: [] });
  }
  try {
    const { error }: Failed = await response.json();
    return new RefusedError(error);
  } catch {
    return new RefusedError({ name: "Error", message: `The server answered with status ${status}.`, causes: [] });
  }
}
