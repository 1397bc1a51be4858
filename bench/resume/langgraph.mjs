// @ts-check
import { entrypoint, task } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { note, program } from "./program.mjs";

const checkpointer = SqliteSaver.fromConnString(process.env["RESUME_STORAGE"] ?? "");
const job = entrypoint({ name: "job", checkpointer }, async (/** @type {string} */ _input) => {
  return program((name, body) => task(name, body)());
});
const thread = { configurable: { thread_id: "job" }, durability: /** @type {const} */ ("sync") };
const begun = await checkpointer.getTuple(thread);
await job.invoke(begun === undefined ? "begin" : null, thread);
note("done");
