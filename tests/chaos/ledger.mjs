// @ts-check
// The ledger of a chaos run: a file per process with a line per fact. A line is one write, so it is whole after a kill.
import { openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/**
 * A fact. `atMs` is by the clock that all processes of the machine share.
 *
 * @typedef {{ atMs: number, task: string } & (
 *   | { is: "claimed", token: number }
 *   | { is: "released", token: number }
 *   | { is: "saved", token: number, sequence: number, sentAtMs: number }
 *   | { is: "started", attempt: number }
 *   | { is: "ran", step: number, key: string, value: string }
 *   | { is: "asked", step: number, untilMs: number }
 *   | { is: "got", step: number, value: string, nowMs: number }
 *   | { is: "error", code: string, message: string }
 *   | { is: "enqueued" }
 *   | { is: "signalled", id: string, copy: number }
 * )} Fact
 */

/** @typedef {Fact extends infer One ? One extends Fact ? Omit<One, "atMs"> : never : never} Noted */

/** @param {string} folder @param {string} name */
export function openLedger(folder, name) {
  const file = openSync(join(folder, `${name}.jsonl`), "a");
  return (/** @type {Noted} */ fact) => {
    writeSync(file, `${JSON.stringify({ atMs: nowMs(), ...fact })}\n`);
  };
}

/** @param {string} folder @returns {Fact[]} */
export function factsIn(folder) {
  return readdirSync(folder)
    .flatMap((name) => readFileSync(join(folder, name), "utf8").split("\n"))
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
}

export function nowMs() {
  return Number(process.hrtime.bigint()) / 1e6;
}
