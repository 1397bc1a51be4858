// The histories of processes that are killed: a file per process with its calls of the storage.
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkHistory, parseHistory } from "waymark/testing";
import { nowMs } from "./ledger.js";

export { recorded } from "../support/recorded.mjs";

/** Notes that the server was killed, and had started again. */
export function noteCrash(folder: string, number: number, beginMs: number): void {
  const call = { process: "server", number, taskId: "", beginMs, endMs: nowMs(), action: { is: "crash" } };
  appendFileSync(join(folder, "server"), `${JSON.stringify(call)}\n`);
}

/** What the history of all processes shows that no correct store could have done, and the number of calls. */
export function historyIn(folder: string): { readonly violations: readonly string[]; readonly calls: number } {
  const calls = parseHistory(readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8")));
  return { violations: checkHistory(calls).map(({ rule, message }) => `${rule}: ${message}`), calls: calls.length };
}
