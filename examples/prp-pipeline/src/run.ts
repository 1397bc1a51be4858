// Executes the PRP in the given folder, or resumes it with the same command.
//
//   node dist/run.js <folder>
import { resolve } from "node:path";
import { PrpExecutor } from "waymark-runners/prp";
import { CODER, runFolderAt } from "./run-folder.js";

const [path] = process.argv.slice(2);
if (path === undefined) throw new TypeError("Usage: node dist/run.js <folder of a run>");
const folder = runFolderAt(resolve(path));

const say = (_details: object, message: string) => console.error(`» ${message}`);

const executor = new PrpExecutor(folder.session, {
  // You can use any agent's command line here, such as "claude -p --permission-mode acceptEdits".
  coder: [process.execPath, CODER, "--log", folder.coderLog].map(quoted).join(" "),
  cwd: folder.project,
  // Five checkpoints are enough to resume, but the timeline at the end of the example shows all of them.
  checkpoints: { maxCheckpoints: 100 },
  logger: { debug() {}, info: say, warn: say, error: say },
});
const { success, error, fixAttempts } = await executor.execute(folder.prp);
await executor.close();

if (success) console.log(`Done, with ${fixAttempts} fix${fixAttempts === 1 ? "" : "es"} on the way.`);
else console.error(`Failed: ${error}`);
process.exitCode = success ? 0 : 1;

/** Quotes a word for sh, so that the repository's folder may have any name. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
