// The histories of processes that are killed. Each process has a file with its storage calls.
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkHistory, parseHistory } from "waymark/testing";
import { nowMs } from "./ledger.js";

export { recorded } from "../support/recorded.mjs";

/** Notes that the server was killed and has started again. */
export function noteCrash(folder: string, number: number, beginMs: number): void {
  const call = { process: "server", number, taskId: "", beginMs, endMs: nowMs(), action: { is: "crash" } };
  appendFileSync(join(folder, "server"), `${JSON.stringify(call)}\n`);
}

/**
 * Checks the history of all processes. Returns the violations, which no correct store allows, and the number of calls.
 */
export function historyIn(folder: string): { readonly violations: readonly string[]; readonly calls: number } {
  const calls = parseHistory(readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8")));
  return { violations: checkHistory(calls).map(({ rule, message }) => `${rule}: ${message}`), calls: calls.length };
}
