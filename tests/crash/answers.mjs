// Makes the calls that the processes of the crash tests receive, and prints their answers.
import { accessSync, writeSync } from "node:fs";
import { quarantined } from "./quarantined.mjs";

/** Makes a system call that separates the store's calls from earlier calls in the record. */
export function begin() {
  try {
    accessSync("/waymark-crash-test-begins");
  } catch {
    // The error is expected, because there is no such file.
  }
}

/** Makes the calls (each `[method, ...arguments]`) one after another. Prints each result or error as a line of JSON. */
export async function printAnswers(adapter, kind, folder, calls) {
  for (const [method, ...args] of calls) {
    const answer = await (method === "quarantined" ? quarantined(kind, folder) : perform(adapter, method, args)).then(
      (value) => ({ value }),
      (error) => ({ code: error.code ?? error.name, message: error.message, retryable: error.retryable }),
    );
    // The write is synchronous, so that each acknowledged call is printed before anything else happens.
    writeSync(1, `${JSON.stringify(answer)}\n`);
  }
}

async function perform(adapter, method, args) {
  const [part, name] = method.startsWith("log.") ? [adapter.log, method.slice("log.".length)] : [adapter, method];
  // A storage without a log has no records.
  if (part === undefined) return [];
  const result = method === "repair" ? adapter.maintenance.repair(...args) : part[name](...args);
  if (!(Symbol.asyncIterator in Object(result))) return result;
  const items = [];
  for await (const item of result) items.push(item);
  return items;
}
