// Executes the PRP in the given folder, or resumes it; the command is the same.
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
  // Any agent's command line can stand here, such as "claude -p --permission-mode acceptEdits".
  coder: [process.execPath, CODER, "--log", folder.coderLog].map(quoted).join(" "),
  cwd: folder.project,
  // Five are enough to resume from. The timeline at the end of the example shows them all.
  checkpoints: { maxCheckpoints: 100 },
  logger: { debug() {}, info: say, warn: say, error: say },
});
const { success, error, fixAttempts } = await executor.execute(folder.prp);
await executor.close();

if (success) console.log(`Done, with ${fixAttempts} fix${fixAttempts === 1 ? "" : "es"} on the way.`);
else console.error(`Failed: ${error}`);
process.exitCode = success ? 0 : 1;

/** Quoted for sh, so that the repository's folder may have any name. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
