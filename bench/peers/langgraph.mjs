// @ts-check
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { count, HISTORY } from "./peer.mjs";

/**
 * A task is a thread. A state is the value of its only channel, or the values of all its channels.
 *
 * @param {import("@langchain/langgraph-checkpoint").BaseCheckpointSaver} saver
 * @param {{ bytes: () => Promise<number>, close: () => unknown }} rest
 * @returns {import("./peer.mjs").Store}
 */
export function langgraphStore(saver, rest) {
  /** @type {Map<string, import("@langchain/core/runnables").RunnableConfig>} */
  const newest = new Map();
  let step = 0;
  const configOf = (/** @type {string} */ task) => ({ configurable: { thread_id: task, checkpoint_ns: "" } });
  const put = async (/** @type {string} */ task, /** @type {Record<string, unknown>} */ values) => {
    step += 1;
    const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, step]));
    const checkpoint = {
      ...emptyCheckpoint(),
      id: uuid6(step),
      channel_values: values,
      channel_versions: versions,
    };
    const metadata = { source: /** @type {const} */ ("loop"), step, parents: {} };
    newest.set(task, await saver.put(newest.get(task) ?? configOf(task), checkpoint, metadata, versions));
  };
  return {
    save: (task, state) => put(task, { state }),
    latest: (task) => saver.getTuple(configOf(task)),
    list: (task) => count(saver.list(configOf(task), { limit: 1000 })),
    saveTurn: ({ messages }) => put(HISTORY, { messages }),
    ...rest,
  };
}
