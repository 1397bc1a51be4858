// @ts-check
// `npm run fuzz -- --seconds 60 --seed 7 --decoder prp`: fuzzes the bytes of every decoder, then checks the properties
// with many runs. Findings are kept in the corpus, which `--replay` (in `npm test`) passes to each decoder unchanged.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { bundled } from "../support/bundled.mjs";
import { inputOf } from "./mutate.mjs";

const CORPUS = join(import.meta.dirname, "..", "fixtures", "fuzz-corpus");
/** The maximum number of findings of one decoder, because further ones are mostly the same. */
const MAX_FINDINGS = 5;
/** An input that takes this long hangs; a tenth of it is more than any input needs. */
const HANG_MS = 20_000;
/** Larger inputs are only replayed unchanged, because most of their mutations wouldn't differ in anything relevant. */
const MAX_BASE_BYTES = 16 * 1024;
const WORKER_HEAP_MB = 512;
/** Positions in the memory shared with the worker: the number of the current input, and whether to end. */
const [AT, STOP] = [0, 1];
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    decoder: { type: "string" },
    replay: { type: "boolean", default: false },
  },
});
const seed = Number(values.seed);
const seconds = Number(values.seconds);
const decoders = await bundled("tests/fuzz/decoders.mjs");
/** @type {typeof import("./decoders.mjs")} */
const { DECODERS } = await import(decoders);
const names = Object.keys(DECODERS).filter((name) => values.decoder === undefined || values.decoder === name);
/** @type {ReturnType<typeof startWorker> | undefined} */
let worker;
let findings = 0;
let tried = 0;

// The properties get a third of the time.
const shareMs = values.replay ? 600_000 : (seconds * 1000 * 2) / 3 / names.length;
for (const name of names) await fuzz(name, shareMs);
worker?.thread.postMessage("end");
console.log(`${values.replay ? "Replayed" : `Seed ${seed}:`} ${tried} inputs, ${findings} findings.`);
if (!values.replay && values.decoder === undefined && !propertiesHold()) findings += 1;
process.exitCode = findings === 0 ? 0 : 1;

/** @param {string} name @param {number} shareMs */
async function fuzz(name, shareMs) {
  const corpus = corpusOf(name);
  const untilMs = performance.now() + shareMs;
  let from = 0;
  let found = 0;
  // An input that ends a worker is also a finding. The next worker continues after this input.
  for (let isOver = false; !isOver && found < MAX_FINDINGS; isOver ||= performance.now() > untilMs) {
    const { next, ended } = await give(name, corpus, from, untilMs, (index, reason) => {
      found += 1;
      if (found <= MAX_FINDINGS || values.replay) keep(name, corpus, index, reason);
    });
    from = next;
    isOver = ended;
  }
  tried += from;
  findings += found;
  console.log(`${name}: ${from} inputs, ${found} findings`);
}

/**
 * Passes inputs, beginning with number `from`, to a worker's decoder until the time is over or the worker has ended.
 *
 * @param {string} name
 * @param {readonly Buffer[]} corpus
 * @param {number} from
 * @param {number} untilMs
 * @param {(index: number, reason: string) => void} onFinding
 * @returns {Promise<{ next: number, ended: boolean }>}
 */
function give(name, corpus, from, untilMs, onFinding) {
  worker ??= startWorker();
  const { thread, state } = worker;
  Atomics.store(state, AT, from);
  Atomics.store(state, STOP, 0);
  return new Promise((resolve) => {
    let last = -1;
    let sinceMs = performance.now();
    const end = (/** @type {number} */ next, /** @type {boolean} */ ended) => {
      clearInterval(timer);
      thread.off("message", onMessage).off("error", onError);
      resolve({ next, ended });
    };
    const giveUp = (/** @type {string} */ why) => {
      const index = Atomics.load(state, AT);
      onFinding(index, why);
      worker = undefined;
      void thread.terminate();
      end(index + 1, false);
    };
    const timer = setInterval(() => {
      const now = Atomics.load(state, AT);
      if (now !== last) [last, sinceMs] = [now, performance.now()];
      if (performance.now() > untilMs) Atomics.store(state, STOP, 1);
      if (performance.now() - sinceMs > HANG_MS) giveUp(`it takes more than ${HANG_MS} ms`);
    }, 50);
    const onMessage = (
      /** @type {{ index: number, reason: string, endedAt?: number }} */ { index, reason, endedAt },
    ) => (endedAt === undefined ? onFinding(index, reason) : end(endedAt, true));
    const onError = (/** @type {Error} */ error) => giveUp(`it ended the worker: ${error.message}`);
    thread.on("message", onMessage).on("error", onError);
    thread.postMessage({ name, corpus, from });
  });
}

function startWorker() {
  const shared = new SharedArrayBuffer(8);
  const thread = new Worker(new URL("worker.mjs", import.meta.url), {
    workerData: { decoders, seed, shared, replays: values.replay },
    resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MB },
  });
  return { thread, state: new Int32Array(shared) };
}

/** @param {string} name @param {readonly Buffer[]} corpus @param {number} index @param {string} reason */
function keep(name, corpus, index, reason) {
  if (values.replay) {
    console.log(`FINDING ${name}, ${namesIn(name)[index]}: ${reason}`);
    return;
  }
  const input = inputOf(corpus, seed, index);
  const file = join(CORPUS, name, `found-${createHash("sha256").update(input).digest("hex").slice(0, 12)}`);
  writeFileSync(file, input);
  console.log(`FINDING ${name}, seed ${seed}, input ${index}, ${input.length} bytes, kept as ${file}: ${reason}`);
}

/** @param {string} name */
function namesIn(name) {
  mkdirSync(join(CORPUS, name), { recursive: true });
  return readdirSync(join(CORPUS, name)).sort();
}

/** @param {string} name */
function corpusOf(name) {
  const all = namesIn(name).map((file) => readFileSync(join(CORPUS, name, file)));
  return values.replay ? all : all.filter(({ length }) => length <= MAX_BASE_BYTES);
}

function propertiesHold() {
  const env = { ...process.env, WAYMARK_FUZZ_SECONDS: String(Math.ceil(seconds / 3)), WAYMARK_SEED: String(seed) };
  return spawnSync("npx", ["vitest", "run", "tests/fuzz/properties.test.ts"], { env, stdio: "inherit" }).status === 0;
}
