// One process of the crash tests: node program.mjs <adapter> <folder>. Its calls come on stdin, as a JSON list; it
// prints their results, and writes its history to the pipe 3. See answers.mjs.
import { closeSync, fstatSync, openSync, readFileSync, readSync, write, writeSync } from "node:fs";
import { promisify } from "node:util";
import { recordHistory } from "waymark/testing";
import { begin, printAnswers } from "./answers.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , kind, folder] = process.argv;

const writeElsewhere = promisify(write);

const adapter = recordHistory(await openAdapter(kind, folder), {
  // Its number may come again.
  process: `program ${process.pid} of ${process.hrtime.bigint()}`,
  // Synchronous, and before the answer is printed.
  write: (line) => writeSync(3, line),
});
const calls = JSON.parse(readFileSync(0, "utf8"));
if (process.env.RUN_AHEAD === "main") runAhead();
if (process.env.RUN_AHEAD === "other") await runOtherAhead();
begin();
await printAnswers(adapter, kind, folder, calls);
await adapter.close();
// Node's own exit makes system calls as well, which faults must not meet.
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
 * The same for the thread that syncs files and writes large ones. If signals are listened to, this thread writes some
 * twenty times before the first save, and a failed write there hangs Node.
 */
async function runOtherAhead() {
  const file = openSync("/dev/null", "r+");
  for (let times = 0; times < 100; times++) await writeElsewhere(file, Buffer.alloc(1));
  closeSync(file);
}
