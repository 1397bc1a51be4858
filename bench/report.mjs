// @ts-check
import { cpus, totalmem } from "node:os";

/**
 * A measured value and its limit.
 *
 * @typedef {object} Row
 * @property {string} what
 * @property {number} measuredMs
 * @property {number} [againstMs] - The baseline, if the limit is a ratio.
 * @property {number} [limit] - The highest ratio or time in milliseconds that passes; missing for a mere comparison.
 */

/**
 * Prints the date, the machine and the versions, without which the figures mean nothing.
 *
 * @param {string} folder
 */
export function printMachine(folder) {
  console.log(`Waymark benchmark, ${new Date().toISOString()}`);
  console.log(machine());
  console.log(`Stores in ${folder}`);
  console.log("Medians. The two sides of a ratio took turns in one run on the same disk.\n");
}

export function machine() {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return (
    `Node ${process.version}, ${process.platform} ${process.arch}\n` +
    `${cpus().length} × ${cpu?.model.trim() ?? "unknown processor"}, ${memory} GiB of memory`
  );
}

/** @param {Row} row */
export function printRow({ what, measuredMs, againstMs, limit }) {
  const ratio = againstMs === undefined ? undefined : measuredMs / againstMs;
  const verdict = limit === undefined ? "" : (ratio ?? measuredMs) <= limit ? "PASS" : "FALLS SHORT";
  const against = againstMs === undefined ? "" : time(againstMs);
  const result = ratio === undefined ? time(measuredMs) : `${ratio.toFixed(2)}×`;
  const bar = limit === undefined ? "" : ratio === undefined ? `≤ ${limit} ms` : `≤ ${limit}×`;
  const columns = [
    what.padEnd(62),
    time(measuredMs).padStart(10),
    against.padStart(10),
    result.padStart(10),
    bar.padStart(9),
  ];
  console.log(`${columns.join(" ")}  ${verdict}`.trimEnd());
}

/**
 * Prints the median and the 99th percentile of some times.
 *
 * @param {string} what
 * @param {number[]} times
 * @param {{ readonly median?: number, readonly last?: number }} [limits] - The limits, in milliseconds.
 */
export function printTimes(what, times, { median, last } = {}) {
  times.sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => times[Math.floor(times.length * share)] ?? 0;
  printRow({ what: `${what}: median`, measuredMs: at(0.5), ...(median && { limit: median }) });
  printRow({ what: `${what}: 99th percentile`, measuredMs: at(0.99), ...(last && { limit: last }) });
}

/**
 * @param {string} what
 * @param {number} bytes
 * @param {number} against
 * @param {number} limit
 */
export function printBytes(what, bytes, against, limit) {
  const ratio = bytes / against;
  const megabytes = (/** @type {number} */ value) => `${(value / 1e6).toFixed(1)} MB`.padStart(10);
  const verdict = ratio <= limit ? "PASS" : "FALLS SHORT";
  console.log(
    `${what.padEnd(62)} ${megabytes(bytes)} ${megabytes(against)} ${`${ratio.toFixed(2)}×`.padStart(10)} ${`≤ ${limit}×`.padStart(9)}  ${verdict}`,
  );
}

/** @param {string} title */
export function printHeading(title) {
  const columns = [
    title.padEnd(62),
    "measured".padStart(10),
    "baseline".padStart(10),
    "result".padStart(10),
    "bar".padStart(9),
  ];
  console.log(`\n${columns.join(" ")}`);
}

/** @param {number} ms */
export function time(ms) {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  return ms < 100 ? `${ms.toFixed(2)} ms` : `${ms.toFixed(0)} ms`;
}
