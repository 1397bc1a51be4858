// Runs the agent on a task. Kill it at any time, and start it again.
//
//   node dist/agent.js ann                                   begins, or continues
//   node dist/agent.js ann fork ann-2 "Tell the warehouse."  continues from ann's last turn with these words, as ann-2
//   node dist/agent.js ann rewind ann "Tell the warehouse."  the same, as ann
import { join } from "node:path";
import { CheckpointManager } from "waymark";
import { SqliteAdapter } from "waymark/adapters/sqlite";
import { Ledger } from "./ledger.js";
import { agent, Chat } from "./loop.js";
import { model } from "./model.js";
import { toolsOver } from "./tools.js";

const [taskId, verb, newTaskId = "", words = ""] = process.argv.slice(2);
if (!taskId) throw new TypeError('Usage: node dist/agent.js <task> [fork|rewind <task to continue as> "<words>"]');

const folder = process.env["AGENT_FOLDER"] ?? ".";
const ledger = new Ledger(join(folder, "ledger.db"));
await using manager = new CheckpointManager({
  storage: new SqliteAdapter({ path: join(folder, "agent.db") }),
  schema: Chat,
});
manager.on("stepStarted", ({ step }) => console.log(`begins ${step}`));
manager.on("stepEnded", ({ step }) => console.log(`recorded ${step}`));
manager.on("stepReused", ({ step }) => console.log(`reused ${step}`));

if (verb !== undefined) await edit(taskId, newTaskId, words);
const initialState: Chat = { messages: [{ role: "user", content: "Ann writes: my mug came broken." }] };
const loop = agent(model, toolsOver(ledger, Number(process.env["MAIL_MS"] ?? 100)));
const answer = await manager.run(newTaskId || taskId, loop, { initialState, pauseOnSignal: true });
console.log(`answer ${answer}`);
ledger.close();

/**
 * Adds a person's words to the last turn's chat and continues from there: as the new task `newTaskId` (a fork), or as
 * the same task (a rewind). Tools that run afterwards have new keys.
 */
async function edit(taskId: string, newTaskId: string, words: string): Promise<void> {
  const turn = await manager.latest(taskId, { stage: "turn" });
  if (turn === undefined) throw new Error(`The agent has made no turn in ${taskId}.`);
  if (newTaskId === taskId) await manager.rewind(taskId, turn.id);
  else await manager.fork(taskId, turn.id, newTaskId);
  await manager.save(newTaskId, { messages: [...turn.state.messages, { role: "user", content: words }] });
}
