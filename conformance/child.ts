// The program of the processes that open the store under test: `node child.js <module URL> <location>`, with an IPC
// channel.
import { writeSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { StorageAdapter } from "../src/contract/adapter.js";
import { isError, readCode } from "../src/contract/errors.js";
import { loadModule } from "./load-module.js";
import type { Call, Request, Response } from "./protocol.js";

const [, , moduleUrl = "", location = ""] = process.argv;
const module = await loadModule(moduleUrl);
const adapter = await module.open(location);

// Requests are started in the order of their arrival and aren't awaited, so that calls run concurrently, as in one
// program.
process.on("message", (request: Request) => {
  if (request.kind === "answer") void answer(request.number, request.call);
  else if (request.kind === "die-after") void dieAfter(request.call);
  else if (request.kind === "die-within") void dieWithin(request.call, request.turns);
  else void adapter.close().then(() => process.exit());
});
// The channel closes if the suite is stopped.
process.on("disconnect", () => process.exit());
send({ kind: "opened" });

async function answer(number: number, call: Call): Promise<void> {
  try {
    send({ kind: "answered", number, answer: await perform(adapter, call) });
  } catch (error) {
    send({ kind: "refused", number, message: readMessage(error), code: readCode(error) || undefined });
  }
}

async function dieAfter(call: Call): Promise<void> {
  let last: string;
  try {
    last = JSON.stringify({ answer: await perform(adapter, call) });
  } catch (error) {
    last = JSON.stringify({ refusal: readMessage(error) });
  }
  // The write is synchronous, so that the answer is written before the kill and the adapter gets no turn to finish
  // anything.
  writeSync(1, last);
  die();
}

async function dieWithin(call: Call, turns: number): Promise<void> {
  void dieAfter(call);
  for (let turn = 0; turn < turns; turn++) await nextTurn();
  die();
}

function die(): void {
  process.kill(process.pid, "SIGKILL");
}

async function perform(store: StorageAdapter, call: Call): Promise<unknown> {
  switch (call.method) {
    case "append":
      return store.append(...call.args);
    case "get":
      return sendable(await store.get(...call.args));
    case "read":
      return collect(store.read(...call.args));
    case "list":
      return collect(store.list(...call.args));
    case "tasks":
      return collect(store.tasks(...call.args));
    case "setStatus":
      return store.setStatus(...call.args);
    case "remove":
      return store.remove(...call.args);
    case "replacePayload":
      return store.replacePayload?.(...call.args);
    case "close":
      return store.close();
    case "claim":
      return store.leases?.claim(...call.args);
    case "renew":
      return store.leases?.renew(...call.args);
    case "release":
      return store.leases?.release(...call.args);
    case "current":
      return store.leases?.current(...call.args);
    case "lapsed":
      return store.leases?.lapsed(...call.args);
    case "log.append":
      return store.log?.append(...call.args);
    case "log.read":
      return store.log && collect(store.log.read(...call.args));
    case "log.remove":
      return store.log?.remove(...call.args);
    case "log.replacePayloads":
      return store.log?.replacePayloads?.(...call.args);
    case "claimNext":
      return store.queue?.claimNext(...call.args);
    case "count":
      return store.queue?.count(...call.args);
    case "held":
      return store.leases && collect(store.leases.held());
  }
}

async function collect(items: AsyncIterable<object>): Promise<unknown[]> {
  const collected: unknown[] = [];
  for await (const item of items) collected.push(sendable(item));
  return collected;
}

/** Returns the item without a CorruptRecord's `cause`, which may be impossible to send. */
function sendable(item: object | undefined): unknown {
  return item && "cause" in item ? { ...item, cause: undefined } : item;
}

function send(response: Response): void {
  process.send?.(response);
}

function readMessage(error: unknown): string {
  return isError(error) ? error.message : String(error);
}
