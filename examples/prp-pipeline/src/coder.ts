// The coder of this example: a scripted stand-in for a coding agent, so that the example needs no account and no
// network. It does what an agent's command line does, really: it reads the prompt on stdin, edits the files in its
// working folder, and ends its output with one line of JSON. Any agent's command line can stand in its place.
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
// The coder's own record of its calls: this example counts them by it, and not by what Waymark says of itself.
if (values.log !== undefined) {
  await appendFile(values.log, `${JSON.stringify({ at: new Date().toISOString(), pid: process.pid, ...answer })}\n`);
}
process.stdout.write(`${JSON.stringify(answer)}\n`);

/** What it does is decided by the prompt alone: a prompt that shows a failure asks for its fix. */
async function answerTo(prompt: string): Promise<Answer> {
  if (!prompt.includes("<prp")) return { result: "error", message: "The prompt holds no PRP.", artifacts: [] };
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

/** Where the PRP stands, as the first prompt says. */
function pathOfPrp(prompt: string): string {
  const [, path] = /^Execute this PRP .* It stands in (.+)\.$/m.exec(prompt) ?? [];
  if (path === undefined) throw new Error("The prompt doesn't say where the PRP stands.");
  return path;
}
