import { hash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { streamSSE } from "hono/streaming";
import type { Session } from "../cli.js";
import { CommandError, ExitCode } from "../exit-code.js";
import { withKeyAdvice } from "../key-advice.js";
import type { PolicyPlans } from "../queries/retention.js";
import type { Failed, Queries } from "./api.js";
import type { CountsAnswer } from "./api-tasks.js";
import { cancel, complete, fork, planRepair, prune, remove, repair, retry, rewind, send } from "./changes.js";
import { answerCheckpoint, answerDiff, answerSearch, answerState } from "./checkpoint-answers.js";
import { Choices } from "./choices.js";
import { errorInfo, toHttpStatus } from "./error-info.js";
import { answerExport } from "./export-answer.js";
import { answerFailures } from "./failure-groups.js";
import { answerFamily } from "./family-answers.js";
import { answerInbox } from "./inbox-answers.js";
import { verifying, type Watching, watchTask, watchTasks } from "./live.js";
import { type PageSession, pageSession } from "./page-session.js";
import { isQuery, parseRequest, type Requests } from "./requests.js";
import { answerStep } from "./step-answers.js";
import { answerCounts, answerRetention, answerSession, answerStorage } from "./storage-answers.js";
import { answerEvents, answerTask, answerTimeline } from "./task-answers.js";
import { TaskViews } from "./task-views.js";

const HOST = "127.0.0.1";
const MOST_BODY_BYTES = 1024 * 1024;
const refuseLarge = (context: Context) => refusal(context, 413, "TOO_LARGE", "The request is too large.");
const MOST_PLANS = 8;
const TOKEN_BYTES = 32;
const READ_ONLY =
  "This page only shows the storage. Start it with waymark ui --write to change something. Nothing was changed.";
/** A heartbeat keeps an idle stream open, and shows the server whether the page is gone. */
const HEARTBEAT_MS = 15_000;

const PAGE: Readonly<Record<string, { readonly file: string; readonly type: string }>> = {
  "/": { file: "index.html", type: "text/html; charset=utf-8" },
  "/app.js": { file: "app.js", type: "text/javascript; charset=utf-8" },
  "/app.css": { file: "app.css", type: "text/css; charset=utf-8" },
};

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
};

export interface PageServerOptions {
  readonly session: Session;
  /** Lets the page change the storage. */
  readonly canWrite: boolean;
  /** Default: any free port. */
  readonly port?: number | undefined;
  /** Where the built page is. */
  readonly pageFolder: URL;
  /** The pause between two looks at a watched storage. */
  readonly watchEveryMs?: number | undefined;
}

/** A server that is listening. */
export interface PageServer {
  /** The page's URL. Its fragment is the token, because browsers don't send fragments. */
  readonly url: string;
  /** Ends everything that is under way. */
  close(): Promise<void>;
}

/**
 * Serves the page and its queries on this machine alone.
 *
 * @throws {CommandError} The port is taken, or the system doesn't allow its use.
 */
export async function servePage(options: PageServerOptions): Promise<PageServer> {
  const closing = new AbortController();
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const state: { port: number } = { port: 0 };
  const app = makeApp(options, { token, closing: closing.signal, port: () => state.port });
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false });
  const { port = 0 } = options;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: Error) => reject(notListening(port, cause)));
    server.listen(port, HOST, resolve);
  });
  const address = server.address();
  state.port = typeof address === "object" && address !== null ? address.port : port;
  return {
    url: `http://${HOST}:${state.port}/#token=${token}`,
    async close() {
      closing.abort();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if ("closeAllConnections" in server) server.closeAllConnections();
      await closed;
    },
  };
}

function notListening(port: number, cause: Error): CommandError {
  const code = "code" in cause ? cause.code : undefined;
  const why =
    code === "EADDRINUSE"
      ? "another program listens there"
      : code === "EACCES"
        ? "the system doesn't let you listen there"
        : cause.message;
  return new CommandError(
    ExitCode.failed,
    `The page can't be served on port ${port} of ${HOST}: ${why}. Pass another --port, or none for any free one.`,
    { cause },
  );
}

interface Secrets {
  readonly token: string;
  readonly port: () => number;
  /** Aborts when the server closes. */
  readonly closing: AbortSignal;
}

function makeApp(options: PageServerOptions, { token, port, closing }: Secrets): Hono {
  const app = new Hono();
  const answers = new Answers(options);
  app.use(async (context, next) => {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) context.header(name, value);
    const hosts = [`${HOST}:${port()}`, `localhost:${port()}`];
    // Another site may have its name resolve to this machine, or send requests from its own pages.
    const origin = context.req.header("Origin");
    const isOwn = hosts.includes(context.req.header("Host") ?? "");
    if (!isOwn || (origin !== undefined && !hosts.some((host) => origin === `http://${host}`))) {
      return refusal(context, 403, "FORBIDDEN", "This server answers only to its own page on this machine.");
    }
    return next();
  });
  app.use("/api/*", async (context, next) => {
    context.header("Cache-Control", "no-store");
    if (!isSame(context.req.header("Authorization") ?? "", `Bearer ${token}`)) {
      return refusal(
        context,
        401,
        "UNAUTHORIZED",
        "Open the page with the URL that waymark ui printed: it has a token.",
      );
    }
    return next();
  });
  app.use("/api/*", bodyLimit({ maxSize: MOST_BODY_BYTES, onError: refuseLarge }));
  app.post("/api/:query", async (context) => {
    const name = context.req.param("query");
    if (!isQuery(name)) return refusal(context, 404, "NOT_FOUND", `There is no query ${JSON.stringify(name)}.`);
    const signal = AbortSignal.any([context.req.raw.signal, closing]);
    return answers.answer(context, name, await context.req.text(), signal);
  });
  app.get("*", async (context) => {
    const found = Object.hasOwn(PAGE, context.req.path) ? PAGE[context.req.path] : undefined;
    if (found === undefined) return refusal(context, 404, "NOT_FOUND", "There is no such file.");
    const content = await readFile(new URL(found.file, options.pageFolder));
    return context.body(content, 200, { "Content-Type": found.type, "Cache-Control": "no-cache" });
  });
  app.notFound((context) => refusal(context, 404, "NOT_FOUND", "There is nothing here."));
  app.onError((error, context) => refusal(context, 500, "FAILED", error.message));
  return app;
}

type AnyQuery = keyof Requests;

const CHANGES: ReadonlySet<AnyQuery> = new Set<AnyQuery>([
  "fork",
  "rewind",
  "complete",
  "delete",
  "send",
  "cancel",
  "retry",
  "retry-chosen",
  "cancel-chosen",
  "prune",
  "repair",
]);

/** Answers queries, and remembers what later queries need: lists, plans, counts. */
class Answers {
  readonly #options: PageServerOptions;
  readonly #views = new TaskViews();
  readonly #choices = new Choices();
  readonly #plans = new Map<string, PolicyPlans>();
  #counts: Promise<CountsAnswer> | undefined;

  constructor(options: PageServerOptions) {
    this.#options = options;
  }

  async answer(context: Context, name: AnyQuery, body: string, signal: AbortSignal): Promise<Response> {
    const { session, canWrite } = this.#options;
    try {
      if (CHANGES.has(name) && !canWrite) return refusal(context, 403, "READ_ONLY", READ_ONLY);
      const answer = this.#start(name, body, signal);
      if (!(Symbol.asyncIterator in answer)) return context.json(await answer);
      return streamed(context, answer);
    } catch (error) {
      const advised = await withKeyAdvice(error, session.config);
      return context.json({ error: errorInfo(advised) } satisfies Failed, toHttpStatus(error));
    }
  }

  #start(name: AnyQuery, body: string, aborted: AbortSignal): Promise<object> | AsyncIterable<object> {
    const session = pageSession(this.#options.session);
    const watching: Watching = {
      open: () => pageSession(this.#options.session),
      everyMs: this.#options.watchEveryMs ?? 1_000,
      signal: aborted,
    };
    switch (name) {
      case "session":
        parseRequest(name, body);
        return answerSession(session, this.#options.canWrite);
      case "tasks":
        return this.#views.page(parseRequest(name, body), watching);
      case "counts":
        parseRequest(name, body);
        return this.#countsOnce(session);
      case "inbox":
        parseRequest(name, body);
        return answerInbox(session);
      case "failures":
        return answerFailures(session, parseRequest(name, body));
      case "choose":
        return this.#choices.choose(session, parseRequest(name, body));
      case "task":
        return answerTask(session, parseRequest(name, body));
      case "family":
        return answerFamily(session, parseRequest(name, body), aborted);
      case "export":
        return answerExport(session, parseRequest(name, body), aborted);
      case "timeline":
        return answerTimeline(session, parseRequest(name, body));
      case "step":
        return answerStep(session, parseRequest(name, body));
      case "checkpoint":
        return answerCheckpoint(session, parseRequest(name, body));
      case "state":
        return answerState(session, parseRequest(name, body));
      case "search":
        return answerSearch(session, parseRequest(name, body));
      case "diff":
        return answerDiff(session, parseRequest(name, body));
      case "retention":
        return this.#plan(session, parseRequest(name, body));
      case "events":
        return answerEvents(session, parseRequest(name, body).taskId);
      case "storage":
        parseRequest(name, body);
        return answerStorage(session);
      case "repair-plan":
        parseRequest(name, body);
        return planRepair(session, aborted);
      case "fork":
        return fork(session, parseRequest(name, body));
      case "rewind":
        return rewind(session, parseRequest(name, body));
      case "complete":
        return complete(session, parseRequest(name, body));
      case "delete":
        return remove(session, parseRequest(name, body));
      case "send":
        return send(session, parseRequest(name, body));
      case "cancel":
        return cancel(session, parseRequest(name, body));
      case "retry":
        return retry(session, parseRequest(name, body));
      case "retry-chosen":
        return this.#choices.retry(session, parseRequest(name, body));
      case "cancel-chosen":
        return this.#choices.cancel(session, parseRequest(name, body));
      case "prune":
        return this.#prune(session, parseRequest(name, body));
      case "repair":
        parseRequest(name, body);
        return repair(session, aborted);
      case "watch-tasks":
        return watchTasks(parseRequest(name, body), watching);
      case "watch-task":
        return watchTask(parseRequest(name, body).taskId, watching);
      case "verify":
        return verifying(session, parseRequest(name, body).quick === true, watching);
    }
  }

  /** Pages that ask at the same time get the same answer. */
  #countsOnce(session: PageSession): Promise<CountsAnswer> {
    this.#counts ??= answerCounts(session).finally(() => {
      this.#counts = undefined;
    });
    return this.#counts;
  }

  async #plan(session: PageSession, request: Requests["retention"]): Promise<Queries["retention"]["answer"]> {
    const { taskId, choiceId } = request;
    const one = taskId === undefined ? undefined : [taskId];
    const chosen = choiceId === undefined ? one : this.#choices.taskIds(choiceId);
    const { answer, plans } = await answerRetention(session, request, chosen);
    const planId = randomUUID();
    this.#plans.set(planId, plans);
    for (const id of this.#plans.keys()) {
      if (this.#plans.size <= MOST_PLANS) break;
      this.#plans.delete(id);
    }
    return { planId, ...answer };
  }

  async #prune(session: PageSession, { planId }: Requests["prune"]): Promise<Queries["prune"]["answer"]> {
    const plans = this.#plans.get(planId);
    if (plans === undefined) {
      throw new CommandError(
        ExitCode.conflict,
        "This plan has expired: it was applied, or newer ones replaced it. Nothing was removed; make it again.",
      );
    }
    this.#plans.delete(planId);
    return prune(session, plans);
  }
}

function streamed(context: Context, messages: AsyncIterable<object>): Response {
  return streamSSE(context, async (stream) => {
    const heartbeat = setInterval(() => void stream.write(": \n\n"), HEARTBEAT_MS);
    try {
      for await (const message of messages) {
        if (stream.aborted) break;
        await stream.writeSSE({ data: JSON.stringify(message) });
      }
    } finally {
      clearInterval(heartbeat);
    }
  });
}

function refusal(context: Context, status: 401 | 403 | 404 | 413 | 500, code: string, message: string): Response {
  return context.json({ error: { name: "Error", code, message, causes: [] } } satisfies Failed, status);
}

/** Compares two texts in a time that doesn't depend on where they differ. */
function isSame(text: string, expected: string): boolean {
  return timingSafeEqual(hash("sha256", text, "buffer"), hash("sha256", expected, "buffer"));
}
