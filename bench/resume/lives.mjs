// @ts-check
// Runs the lives of a run: starts the program, kills it, and starts it again.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A run that does nothing new for this long counts as stuck. (OpenWorkflow waits for 30 s.) */
const MOST_MS = 60_000;

/** The traces of a life. @typedef {{ ended: "done" | "killed" | "failed" | "waits", message: string, startedMs: number, lines: readonly Line[] }} Life */
/** A line of the ledger. @typedef {{ atMs: number, what: string }} Line */

/** @param {string} cache */
export function newWorkspace(cache) {
  const folder = mkdtempSync(join(cache, "run-"));
  writeFileSync(join(folder, "ledger"), "");
  return {
    folder,
    name: `run_${folder
      .slice(-6)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, "_")}_${Date.now() % 1e6}`,
  };
}

/**
 * @param {import("./peers.mjs").Peer} peer
 * @param {import("./peers.mjs").Workspace} workspace
 * @param {string} url
 * @param {{ kill?: string, change?: string, isTimed?: boolean }} [options]
 * @returns {Promise<Life>}
 */
export async function live(peer, workspace, url, { kill = "", change = "", isTimed = false } = {}) {
  const ledger = join(workspace.folder, "ledger");
  const before = linesIn(ledger).length;
  const startedMs = Date.now();
  const env = {
    ...process.env,
    ...peer.env,
    RESUME_LEDGER: ledger,
    RESUME_STORAGE: peer.storage(workspace),
    RESUME_URL: url,
    RESUME_KILL: kill,
    RESUME_CHANGE: change,
    RESUME_TIMED: isTimed ? "1" : "",
  };
  const child = spawn(process.execPath, [join(import.meta.dirname, peer.file)], {
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let message = "";
  child.stderr.on("data", (bytes) => {
    message += bytes;
  });
  let hasWaited = false;
  const timer = setTimeout(() => {
    hasWaited = true;
    child.kill("SIGKILL");
  }, MOST_MS);
  const [code, signal] = await new Promise((resolve) => child.once("close", (...how) => resolve(how)));
  clearTimeout(timer);
  const lines = linesIn(ledger).slice(before);
  const isDone = lines.some(({ what }) => what === "done");
  const ended = isDone ? "done" : hasWaited ? "waits" : signal === "SIGKILL" ? "killed" : "failed";
  return { ended, message: ended === "failed" ? message || `exit code ${code}` : "", startedMs, lines };
}

/** @param {string} ledger @returns {Line[]} */
function linesIn(ledger) {
  const lines = readFileSync(ledger, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => {
    const [time = "", ...what] = line.split(" ");
    return { atMs: Number(time), what: what.join(" ") };
  });
}

/**
 * Judges the steps of a run that had two lives.
 *
 * @param {Life} first
 * @param {Life} second
 */
export function judged(first, second) {
  const namesOf = (/** @type {string} */ verb, /** @type {Life} */ { lines }) =>
    lines.flatMap(({ what }) => (what.startsWith(`${verb} `) ? what.slice(verb.length + 1) : []));
  const finished = namesOf("after", first);
  const began = namesOf("begin", second);
  const ended = new Set([...namesOf("end", first), ...namesOf("end", second)]);
  const [next] = second.lines;
  return {
    again: finished.filter((name) => began.includes(name)),
    ended,
    wrong: namesOf("wrong", second),
    onMs: next === undefined ? undefined : next.atMs - second.startedMs,
  };
}
