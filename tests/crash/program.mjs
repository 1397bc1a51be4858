// One process of the crash tests: node program.mjs <adapter> <folder>. Its calls come on stdin, as a JSON list of
// [method, ...arguments]; it makes them one after the other and prints what each resolved to, or how it failed, as a
// line of JSON.
import { accessSync, closeSync, fstatSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { openAdapter } from "./open-adapter.mjs";
import { quarantined } from "./quarantined.mjs";

const [, , kind, folder] = process.argv;

const adapter = await openAdapter(kind, folder);
const calls = JSON.parse(readFileSync(0, "utf8"));
if (process.env.RUN_AHEAD) runAhead();
begin();
for (const [method, ...args] of calls) {
  const answer = await perform(method, args).then(
    (value) => ({ value }),
    (error) => ({ code: error.code ?? error.name, message: error.message, retryable: error.retryable }),
  );
  // Synchronous: what is printed was acknowledged, and nothing else happened in between.
  writeSync(1, `${JSON.stringify(answer)}\n`);
}
await adapter.close();
// Node's own way out makes calls as well, and faults are not meant for them.
process.kill(process.pid, "SIGKILL");

/** Shows in the record of system calls, which so tells the store's own from those of Node's start. */
function begin() {
  try {
    accessSync("/waymark-crash-test-begins");
  } catch {
    // There is no such file.
  }
}

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

async function perform(method, args) {
  if (method === "quarantined") return quarantined(kind, folder);
  const result = adapter[method](...args);
  if (!(Symbol.asyncIterator in Object(result))) return result;
  const items = [];
  for await (const item of result) items.push(item);
  return items;
}
