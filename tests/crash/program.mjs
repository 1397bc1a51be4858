// One process of the crash tests: node program.mjs <adapter> <folder>. It reads its calls from stdin as a JSON list,
// prints their results, and writes its history to pipe 3. See answers.mjs.
import { closeSync, fstatSync, openSync, readFileSync, readSync, write, writeSync } from "node:fs";
import { promisify } from "node:util";
import { recordHistory } from "waymark/testing";
import { begin, printAnswers } from "./answers.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , kind, folder] = process.argv;

const writeElsewhere = promisify(write);

const adapter = recordHistory(await openAdapter(kind, folder), {
  // The process id may be reused, so the name also has the time.
  process: `program ${process.pid} of ${process.hrtime.bigint()}`,
  // The write is synchronous and comes before the answer is printed.
  write: (line) => writeSync(3, line),
});
const calls = JSON.parse(readFileSync(0, "utf8"));
if (process.env.RUN_AHEAD === "main") runAhead();
if (process.env.RUN_AHEAD === "other") await runOtherAhead();
begin();
await printAnswers(adapter, kind, folder, calls);
await adapter.close();
// Node's own exit would make system calls that faults must not meet.
process.kill(process.pid, "SIGKILL");

/** Raises this thread's counts of calls above the other threads' counts, which grow at Node's start. */
function runAhead() {
  const nothing = Buffer.alloc(1);
  for (let times = 0; times < 200; times++) {
    const file = openSync("/dev/null", "r+");
    writeSync(file, nothing);
    readSync(file, nothing);
    fstatSync(file);
    closeSync(file);
  }
}

/**
 * Raises the counts of the thread that syncs files and writes large ones. If a program listens to signals, this thread
 * writes some twenty times before the first save, and a failure of such a write hangs Node.
 */
async function runOtherAhead() {
  const file = openSync("/dev/null", "r+");
  for (let times = 0; times < 100; times++) await writeElsewhere(file, Buffer.alloc(1));
  closeSync(file);
}
