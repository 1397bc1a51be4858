import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { type PostgresServer, startPostgres } from "../../examples/two-machines/src/postgres-server.js";

declare module "vitest" {
  interface ProvidedContext {
    /** Answers with the URL of the PostgreSQL server. */
    readonly postgresDesk: string;
  }
}

let server: Promise<PostgresServer> | undefined;
let desk: Server | undefined;

/**
 * One server for all test files, started when the first of them asks: other tests don't pay for it. DATABASE_URL, where
 * set, is used instead.
 */
export async function setup(project: TestProject): Promise<void> {
  desk = createServer((_request, response) => {
    urlOfServer().then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  desk.listen(0, "127.0.0.1");
  await once(desk, "listening");
  // A TCP server's address is an object.
  project.provide("postgresDesk", `http://127.0.0.1:${(desk.address() as AddressInfo).port}`);
}

export async function teardown(): Promise<void> {
  desk?.close();
  desk?.closeAllConnections();
  await (await server)?.stop();
}

async function urlOfServer(): Promise<string> {
  const given = process.env["DATABASE_URL"];
  if (given !== undefined && given !== "") return given;
  // No test with this server looks at what a power loss leaves.
  server ??= startPostgres(["-c", "fsync=off"]);
  return (await server).url;
}
