// A Redis server for experiments and for the adapter's test.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = ["redis-server", "valkey-server"].find(
  (program) => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0,
);

/** The reason why there is no server program; `""` if there is one. */
export const missing = PROGRAM === undefined ? "neither redis-server nor valkey-server is installed" : "";

export interface RedisServer {
  readonly url: string;
  /** Kills the server, and starts it again on the same port with the same data. */
  restart(): Promise<void>;
  /** Ends the server and deletes its data. */
  stop(): Promise<void>;
}

/**
 * Starts a server on a free port, with its data in a temporary folder. It acknowledges a write once it is on the disk.
 */
export async function startRedis(): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), "waymark-redis-"));
  const port = await freePort();
  const durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
  const flags = ["--port", `${port}`, "--bind", "127.0.0.1", "--dir", folder, ...durable];
  const start = async () => {
    const server = spawn(PROGRAM ?? "redis-server", flags, { stdio: ["ignore", "pipe", "ignore"], detached: true });
    const log: string[] = [];
    for await (const line of createInterface({ input: server.stdout })) {
      log.push(line);
      if (line.includes("Ready to accept connections")) {
        server.stdout.resume();
        return server;
      }
    }
    throw new Error(`${PROGRAM} did not start: ${log.slice(-20).join("\n")}`);
  };
  let server = await start();
  const kill = async () => {
    const ended = once(server, "exit");
    if (server.kill("SIGKILL")) await ended;
  };
  const endWithProcess = () => {
    server.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", endWithProcess);
  return {
    url: `redis://127.0.0.1:${port}`,
    restart: async () => {
      await kill();
      server = await start();
    },
    stop: async () => {
      await kill();
      process.removeListener("exit", endWithProcess);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A TCP server's address is an object.
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
