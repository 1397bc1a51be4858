import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort, NOBODY, serverFolder } from "../../examples/two-machines/src/postgres-server.js";

/** Debian installs PgBouncer in /usr/sbin, which isn't in every user's PATH. */
const env = { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin` };
const isThere = spawnSync("pgbouncer", ["--version"], { env, stdio: "ignore" }).status === 0;

/** The reason why tests with PgBouncer are skipped, for their titles; `""` if they aren't skipped. */
export const skipped = isThere ? "" : " (skipped: PgBouncer isn't installed)";

/** Starts PgBouncer in transaction mode: many client connections share four server connections. */
export async function startPgBouncer(serverUrl: string) {
  const { hostname, port, username, password } = new URL(serverUrl);
  const [folder, ownPort] = [await serverFolder(), await freePort()];
  const config = [
    "[databases]",
    `* = host=${hostname} port=${port || "5432"} user=${username} password=${password}`,
    "[pgbouncer]",
    "pool_mode = transaction",
    "default_pool_size = 4",
    // PgBouncer uses the user above, whatever user a client names.
    "auth_type = any",
    "listen_addr = 127.0.0.1",
    `listen_port = ${ownPort}`,
    "unix_socket_dir =",
    // After a failed login, PgBouncer refuses clients for this many seconds, which must be less than retryForMs.
    "server_login_retry = 1",
  ];
  await writeFile(join(folder, "pgbouncer.ini"), config.join("\n"));
  const bouncer = spawn("pgbouncer", [join(folder, "pgbouncer.ini")], {
    ...NOBODY,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(bouncer, "exit");
  const end = () => bouncer.kill("SIGKILL");
  process.once("exit", end);
  const log: string[] = [];
  for await (const line of createInterface({ input: bouncer.stderr })) {
    log.push(line);
    if (line.includes("process up")) break;
  }
  if (bouncer.exitCode !== null) throw new Error(`PgBouncer did not start: ${log.join("\n")}`);
  bouncer.stderr.resume();
  const url = new URL(serverUrl);
  url.hostname = "127.0.0.1";
  url.port = String(ownPort);
  return {
    url: url.href,
    stop: async () => {
      end();
      await ended;
      process.removeListener("exit", end);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
