import { createClient } from "@redis/client";
import { RedisAdapter } from "./dist/redis-adapter.js";

/** Opens the adapter for the conformance suite. The location is the server's URL, a space, and the keys' prefix. */
export async function open(location) {
  const [url, prefix] = location.split(" ");
  const client = await connected(url);
  await untilSettled(client);
  // An open connection must not keep the process alive.
  client.unref();
  return new RedisAdapter({ client, prefix });
}

export async function damage(location, taskId, id, part) {
  const [url, prefix] = location.split(" ");
  const client = await connected(url);
  const [headers, payloads] = [`${prefix}headers:${taskId}`, `${prefix}payloads:${taskId}`];
  if (part === "missing") await client.hDel(payloads, id);
  else if (part === "payload") await client.hSet(payloads, id, (await client.hGet(payloads, id)).slice(0, -1));
  else
    await client.hSet(headers, id, (await client.hGet(headers, id)).replace('"status":"running"', '"status":"paused"'));
}

export async function damageRecord(location, taskId, sequence) {
  const [url, prefix] = location.split(" ");
  const client = await connected(url);
  await client.hSet(`${prefix}bodies:${taskId}`, `${sequence}`, "text 0");
}

/** One connection for each process and server. */
const clients = new Map();

function connected(url) {
  if (!clients.has(url)) clients.set(url, connect(url));
  return clients.get(url);
}

async function connect(url) {
  const client = createClient({ url, name: `${process.pid}` });
  // Without a listener, a lost connection would end the process.
  client.on("error", () => undefined);
  return client.connect();
}

/**
 * Waits for the commands of killed processes. The suite kills a process and checks its data at once, but the server may
 * still run the process's last command before it drops the connection.
 */
async function untilSettled(client) {
  for (let isSettled = false; !isSettled; ) {
    const connections = await client.clientList();
    isSettled = connections.every(({ name }) => name === "" || isAlive(Number(name)));
  }
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
