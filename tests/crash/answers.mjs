// What the processes of the crash tests do with the calls that they are sent.
import { accessSync, writeSync } from "node:fs";
import { quarantined } from "./quarantined.mjs";

/** Shows in the record of system calls, which so tells the store's own from those that came before. */
export function begin() {
  try {
    accessSync("/waymark-crash-test-begins");
  } catch {
    // There is no such file.
  }
}

/**
 * Makes the calls, `[method, ...arguments]` each, one after the other, and prints what each resolved to, or how it failed,
 * as a line of JSON.
 */
export async function printAnswers(adapter, kind, folder, calls) {
  for (const [method, ...args] of calls) {
    const answer = await (method === "quarantined" ? quarantined(kind, folder) : perform(adapter, method, args)).then(
      (value) => ({ value }),
      (error) => ({ code: error.code ?? error.name, message: error.message, retryable: error.retryable }),
    );
    // Synchronous: what is printed was acknowledged, and nothing else happened in between.
    writeSync(1, `${JSON.stringify(answer)}\n`);
  }
}

async function perform(adapter, method, args) {
  const result = method === "repair" ? adapter.maintenance.repair(...args) : adapter[method](...args);
  if (!(Symbol.asyncIterator in Object(result))) return result;
  const items = [];
  for await (const item of result) items.push(item);
  return items;
}
