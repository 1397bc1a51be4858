// @ts-check
// Passes input after input to decoders, and reports each wrong answer. One worker runs all decoders one after another,
// because loading them takes longer than a thousand inputs.
import { parentPort, workerData } from "node:worker_threads";
import { inputOf } from "./mutate.mjs";

/** Positions in the shared memory: the number of the current input, and whether to end. */
const [AT, STOP] = [0, 1];
/** @type {{ decoders: string, shared: SharedArrayBuffer, seed: number, replays: boolean }} */
const { decoders, shared, seed, replays } = workerData;
/** @type {typeof import("./decoders.mjs")} */
const { decoderOf, wrongWith } = await import(decoders);
const state = new Int32Array(shared);

parentPort?.on(
  "message",
  async (/** @type {{ name: string, corpus: Uint8Array[], from: number } | "end"} */ message) => {
    // A worker that exits deletes its files; a terminated one doesn't.
    if (message === "end") process.exit();
    const { name, corpus, from } = message;
    const buffers = corpus.map((bytes) => Buffer.from(bytes));
    const known = await answersTo(name, buffers);
    let index = from;
    for (; Atomics.load(state, STOP) === 0 && (!replays || index < buffers.length); index++) {
      Atomics.store(state, AT, index);
      const input = replays ? buffers[index] : inputOf(buffers, seed, index);
      const reason = input && (await wrongWith(name, input, known));
      if (reason !== undefined) parentPort?.postMessage({ index, reason });
      // The pause lets messages be sent even if a decoder never waits.
      if (index % 64 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    parentPort?.postMessage({ endedAt: index });
  },
);

/**
 * Returns the values that the decoder returns for the corpus. @param {string} name @param {readonly Buffer[]} corpus
 */
async function answersTo(name, corpus) {
  const known = new Set();
  for (const bytes of corpus) {
    try {
      known.add(await decoderOf(name).decode(bytes));
    } catch {
      // This input is a former finding. A replay checks that its answer is correct.
    }
  }
  return known;
}
