// One process of the crash tests: node program.mjs <adapter> <folder>. Its calls come on stdin, as a JSON list; what each
// resolved to is printed. See answers.mjs.
import { closeSync, fstatSync, openSync, readFileSync, readSync, write, writeSync } from "node:fs";
import { promisify } from "node:util";
import { begin, printAnswers } from "./answers.mjs";
import { openAdapter } from "./open-adapter.mjs";

const [, , kind, folder] = process.argv;

const writeElsewhere = promisify(write);

const adapter = await openAdapter(kind, folder);
const calls = JSON.parse(readFileSync(0, "utf8"));
if (process.env.RUN_AHEAD === "main") runAhead();
if (process.env.RUN_AHEAD === "other") await runOtherAhead();
begin();
await printAnswers(adapter, kind, folder, calls);
await adapter.close();
// Node's own way out makes calls as well, and faults are not meant for them.
process.kill(process.pid, "SIGKILL");

/** Makes this thread's counts of calls higher than those of the others, which count what they do for Node's start. */
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
 * The same of the thread that files are synced by, and large ones written: this one writes some twenty times before the
 * first save, where signals are listened to, and a write that fails there hangs Node.
 */
async function runOtherAhead() {
  const file = openSync("/dev/null", "r+");
  for (let times = 0; times < 100; times++) await writeElsewhere(file, Buffer.alloc(1));
  closeSync(file);
}
