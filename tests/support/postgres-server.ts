import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Server as NetServer } from "node:net";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import {
  NOBODY,
  type PostgresServer,
  serverFolder,
  startPostgres,
  startServer,
} from "../../examples/two-machines/src/postgres-server.js";

declare module "vitest" {
  interface ProvidedContext {
    /** The address that answers with the URL of the PostgreSQL server. */
    readonly postgresDesk: string;
  }
}

let server: Promise<PostgresServer> | undefined;
let desk: Server | undefined;

/**
 * Provides one server for all test files. It starts when the first file asks for it, so that other tests don't wait. If
 * DATABASE_URL is set, that server is used instead.
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
  // Without fsync, because no test with this server checks power cuts.
  server ??= startPostgres(["-c", "fsync=off"]);
  return (await server).url;
}

/** Debian's programs, because the npm package lacks the programs that make a standby. */
export const debian = debianPrograms();

/** Finds the programs of the newest installed version, if there is one. */
function debianPrograms() {
  const root = "/usr/lib/postgresql";
  const [newest] = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const path = (program: string) => join(root, newest ?? "", "bin", program);
  if (!existsSync(path("postgres"))) return undefined;
  return { initdb: path("initdb"), postgres: path("postgres"), basebackup: path("pg_basebackup") };
}

/** Starts a standby of a server that runs {@link debian}'s programs. */
export async function startStandby(primary: PostgresServer): Promise<PostgresServer> {
  if (debian === undefined) throw new Error("A standby needs Debian's package postgresql.");
  const folder = await serverFolder();
  const args = ["-d", primary.url, "-D", join(folder, "data"), "--write-recovery-conf", "-c", "fast", "--no-sync"];
  await promisify(execFile)(debian.basebackup, args, NOBODY);
  return startServer(debian.postgres, folder);
}

/** Kills all processes of a server (SIGKILL). */
export async function killServer({ pid = 0 }: PostgresServer): Promise<void> {
  // A stopped server starts no process that would be missing from the list.
  process.kill(pid, "SIGSTOP");
  const listed = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" });
  const all = [pid, ...listed.split("\n").filter(Boolean).map(Number)];
  for (const one of all) killed(one);
  // The shared memory is free once the last process has ended, which only polling shows.
  while (all.some(isRunning)) await nextTurn();
}

/** Kills a process. The others end by themselves once the first one has ended, so a missing process is no error. */
function killed(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Makes the server listen on a free port. Returns the port. */
export async function listening(server: NetServer): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // The address of a TCP server is an object.
  return (server.address() as AddressInfo).port;
}
