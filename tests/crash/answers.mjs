// How the processes of the crash tests handle the calls that they are sent.
import { accessSync, writeSync } from "node:fs";
import { quarantined } from "./quarantined.mjs";

/** A call that appears in the record of system calls, and so separates the store's calls from earlier ones. */
export function begin() {
  try {
    accessSync("/waymark-crash-test-begins");
  } catch {
    // Expected: there is no such file.
  }
}

/** Makes the calls, `[method, ...arguments]` each, one after another. Prints each result or error as a line of JSON. */
export async function printAnswers(adapter, kind, folder, calls) {
  for (const [method, ...args] of calls) {
    const answer = await (method === "quarantined" ? quarantined(kind, folder) : perform(adapter, method, args)).then(
      (value) => ({ value }),
      (error) => ({ code: error.code ?? error.name, message: error.message, retryable: error.retryable }),
    );
    // Synchronous, so that each acknowledged call is printed before anything else happens.
    writeSync(1, `${JSON.stringify(answer)}\n`);
  }
}

async function perform(adapter, method, args) {
  const [part, name] = method.startsWith("log.") ? [adapter.log, method.slice("log.".length)] : [adapter, method];
  // Without a log there are no records.
  if (part === undefined) return [];
  const result = method === "repair" ? adapter.maintenance.repair(...args) : part[name](...args);
  if (!(Symbol.asyncIterator in Object(result))) return result;
  const items = [];
  for await (const item of result) items.push(item);
  return items;
}
