// @ts-check
// The program that every peer runs: ten steps that append to a ledger. One step is slow, two run in parallel, and four
// are turns of a loop. `RESUME_KILL` says where it is killed, `RESUME_CHANGE` how it is changed.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const { RESUME_LEDGER = "", RESUME_KILL = "", RESUME_CHANGE = "", RESUME_TIMED = "" } = process.env;
/** The number of timed steps. */
const TIMED = 100;
const SLOW_MS = 300;

/** The names of the steps, in the order in which they are recorded. */
export const STEPS = ["plan", "fetch", "left", "right", "build", "turn 1", "turn 2", "turn 3", "turn 4", "report"];
/** The step in which the program is killed before it is changed. */
export const CHANGED_IN = "build";

/**
 * A peer's step: runs `body` and records its result, or returns the recorded result. @typedef {(name: string, body: ()
 * => Promise<string>) => Promise<string>} Step
 */

/** @param {Step} step */
export async function program(step) {
  if (RESUME_TIMED !== "") return timed(step);
  const results = [];
  const one = async (/** @type {string} */ name) => {
    const result = await step(name, () => work(name));
    if (result !== resultOf(name)) note(`wrong ${name}`);
    note(`after ${name}`);
    killAt(`after ${name}`);
    return result;
  };
  if (RESUME_CHANGE === "inserted") results.push(await one("review"));
  const first = [RESUME_CHANGE === "renamed" ? "plan it" : "plan", "fetch"];
  for (const name of RESUME_CHANGE === "moved" ? first.reverse() : first) results.push(await one(name));
  results.push(...(await Promise.all([one("left"), one("right")])));
  results.push(await one("build"));
  for (let turn = 1; turn <= 4; turn++) results.push(await one(`turn ${turn}`));
  results.push(await one("report"));
  return results.length;
}

/** Writes to the ledger how long a step takes that does nothing and returns 1 KB. @param {Step} step */
async function timed(step) {
  const times = [];
  for (let index = 0; index < TIMED; index++) {
    const start = performance.now();
    await step(`timed ${index}`, async () => resultOf(`timed ${index}`));
    times.push(performance.now() - start);
  }
  note(`took ${times.toSorted((a, b) => a - b)[TIMED / 2]}`);
  return TIMED;
}

/**
 * Does a step's work. Writes a line to the ledger at the beginning and another line at the end.
 *
 * @param {string} name
 */
async function work(name) {
  note(`begin ${name}`);
  killAt(`in ${name}`);
  if (name === "build") await sleep(SLOW_MS);
  note(`end ${name}`);
  return resultOf(name);
}

/** Returns a result of 1 KB. @param {string} name */
function resultOf(name) {
  return `${name} `.repeat(1024).slice(0, 1024);
}

/** @param {string} point */
function killAt(point) {
  if (point === RESUME_KILL) process.kill(process.pid, "SIGKILL");
}

/** @param {string} line */
export function note(line) {
  appendFileSync(RESUME_LEDGER, `${Date.now()} ${line}\n`);
}
