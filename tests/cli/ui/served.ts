import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";
import { onTestFinished } from "vitest";
import { Cli } from "../../../cli/src/cli.js";
import { projectConfig } from "../../../cli/src/config-file.js";
import type { Failed, LiveQueries, Queries } from "../../../cli/src/ui/api.js";
import { type PageServerOptions, servePage } from "../../../cli/src/ui/server.js";
import { deferred } from "../../support/deferred.js";
import { tempFolder } from "../../support/temp-folder.js";
import { Collected } from "../waymark.js";

/** A page that is served, and a browser's requests to it. */
export interface Served {
  readonly url: URL;
  readonly token: string;
  /** The printed text. */
  readonly printed: () => string;
  /** Makes a query that succeeds. */
  ask<Name extends keyof Queries>(name: Name, request: Queries[Name]["request"]): Promise<Queries[Name]["answer"]>;
  /** Makes a query that fails. */
  refused(name: string, request: unknown): Promise<Failed["error"] & { readonly status: number }>;
  /** The messages of a live query. */
  live<Name extends keyof LiveQueries>(
    name: Name,
    request: LiveQueries[Name]["request"],
    signal?: AbortSignal,
  ): AsyncGenerator<LiveQueries[Name]["answer"], void, void>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
}

/** Serves the page of a storage until the test ends. */
export async function served(
  storage: string,
  { cwd, ...options }: { readonly cwd?: string; readonly config?: string } & Partial<PageServerOptions> = {},
): Promise<Served> {
  const { config, ...serverOptions } = options;
  const globals = { storage: cwd === undefined ? storage : storage.replace(":", `:${cwd}/`), config };
  const [stdout, stderr] = [new Collected(), new Collected()];
  const cli = new Cli({ stdin: Readable.from([]), stdout, stderr }, ["ui"], () => globals);
  if (config !== undefined) await projectConfig(config);
  const pageFolder = pathToFileURL(`${join(await tempFolder(), "page")}/`);
  await mkdir(pageFolder);
  await writeFile(new URL("index.html", pageFolder), "<!doctype html><title>Waymark</title>");
  const closed = deferred<void>();
  const url = await new Promise<URL>((resolve, reject) => {
    const ended = cli.withStore(async (session) => {
      const server = await servePage({ session, canWrite: false, pageFolder, watchEveryMs: 10, ...serverOptions });
      resolve(new URL(server.url));
      await closed.promise;
      await server.close();
    }, "watch");
    ended.catch(reject);
    onTestFinished(async () => {
      closed.resolve();
      await ended;
    });
  });
  const token = new URLSearchParams(url.hash.slice(1)).get("token") ?? "";
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const post = (name: string, request: unknown, signal?: AbortSignal) =>
    fetch(new URL(`/api/${name}`, url), {
      method: "POST",
      headers,
      body: JSON.stringify(request),
      ...(signal && { signal }),
    });
  return {
    url,
    token,
    printed: () => stdout.text + stderr.text,
    fetch: (path, init) => fetch(new URL(path, url), init),
    async ask(name, request) {
      const response = await post(name, request);
      if (!response.ok) throw new Error(`${name}: ${response.status} ${await response.text()}`);
      return (await response.json()) as Awaited<ReturnType<Served["ask"]>> as never;
    },
    async refused(name, request) {
      const response = await post(name, request);
      const { error } = (await response.json()) as Failed;
      return { ...error, status: response.status };
    },
    async *live(name, request, signal) {
      const response = await post(name, request, signal);
      let text = "";
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        const events = text.split("\n\n");
        text = events.pop() ?? "";
        for (const event of events) if (event.startsWith("data: ")) yield JSON.parse(event.slice("data: ".length));
      }
    },
  };
}
