// The coder of this example: a script that stands in for a coding agent, so that the example needs no account and no
// network. Like an agent's command line, it reads the prompt on stdin, edits the files in its working folder, and ends
// its output with one line of JSON. Any agent's command line can replace it.
import { appendFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { tickCriteria } from "./coder/boxes.js";
import { applyEdits, type Edit } from "./coder/edits.js";
import { FIRST_TRY } from "./coder/first-try.js";
import { findFix } from "./coder/fixes.js";

interface Answer {
  readonly result: "success" | "error" | "issue";
  readonly message: string;
  readonly artifacts: readonly string[];
}

const { values } = parseArgs({ options: { log: { type: "string" } } });
const answer = await answerTo(await text(process.stdin));
// The coder records its own calls, so that the example counts them without relying on Waymark's checkpoints.
if (values.log !== undefined) {
  await appendFile(values.log, `${JSON.stringify({ at: new Date().toISOString(), pid: process.pid, ...answer })}\n`);
}
process.stdout.write(`${JSON.stringify(answer)}\n`);

/** Does what the prompt asks for: the fix of a failure that the prompt shows, or else the first try. */
async function answerTo(prompt: string): Promise<Answer> {
  if (!prompt.includes("<prp")) return { result: "error", message: "The prompt contains no PRP.", artifacts: [] };
  if (!/^Exit code: /m.test(prompt)) {
    const answer = await carryOut("Wrote src/report.ts, added the command, ticked the criteria", FIRST_TRY);
    await tickCriteria(pathOfPrp(prompt));
    return answer;
  }
  const fix = findFix(prompt);
  if (fix !== undefined) return carryOut(fix.message, fix.edits);
  return { result: "issue", message: "The script of this stand-in has no answer to that failure.", artifacts: [] };
}

async function carryOut(message: string, edits: readonly Edit[]): Promise<Answer> {
  await applyEdits(edits);
  return { result: "success", message, artifacts: [...new Set(edits.map(({ path }) => path))] };
}

/** Returns the path of the PRP, which the first prompt contains. */
function pathOfPrp(prompt: string): string {
  const [, path] = /^Execute this PRP .* It stands in (.+)\.$/m.exec(prompt) ?? [];
  if (path === undefined) throw new Error("The prompt doesn't contain the path of the PRP.");
  return path;
}
