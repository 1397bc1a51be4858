import { createClient } from "@redis/client";
import { RedisAdapter } from "./dist/redis-adapter.js";

/** What the conformance suite asks of an adapter's harness. The location is the server's URL, a space, and the keys' prefix. */
export async function open(location) {
  const [url, prefix] = location.split(" ");
  return new RedisAdapter({ client: await connected(url), prefix });
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

/** One connection for each process and server. It doesn't keep the process alive. */
const clients = new Map();

function connected(url) {
  if (!clients.has(url)) clients.set(url, connect(url));
  return clients.get(url);
}

async function connect(url) {
  const client = createClient({ url });
  // Without a listener, a lost connection would end the process.
  client.on("error", () => undefined);
  await client.connect();
  client.unref();
  return client;
}
