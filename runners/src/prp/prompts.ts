import type { ValidationGateResult } from "waymark/prp";
import type { LoadedPrp } from "./load-prp.js";
import { indent } from "./prp-document.js";

const REPLY = `When you are done, end your output with one line of JSON and nothing after it:
{"result": "success" | "error" | "issue", "message": "what you did, or what is in the way", "artifacts": ["files you made or changed"]}
"success": the work is done. "issue": the PRP itself is at fault. "error": the work could not be done.`;

/** Returns the coder's first prompt. */
export function executionPrompt(prp: LoadedPrp): string {
  const where = prp.path === "" ? "" : ` It stands in ${prp.path}.`;
  return `Execute this PRP (Product Requirement Prompt) in the current directory.${where}

<prp>
${prp.body.trim()}
</prp>

Its validation gates will be run when you are done.

${REPLY}
`;
}

/** Returns the coder's prompt after a gate failed. */
export function fixPrompt(
  prp: LoadedPrp,
  failed: readonly ValidationGateResult[],
  attempt: { readonly number: number; readonly of: number },
): string {
  return `The work on PRP ${prp.taskId} in the current directory does not pass its validation. Find out why, and fix it.
This is fix attempt ${attempt.number} of ${attempt.of}.

${failed.map(describeFailure).join("\n\n")}

<prp${prp.path === "" ? "" : ` path=${JSON.stringify(prp.path)}`}>
${prp.body.trim()}
</prp>

All its validation gates will be run again when you are done.

${REPLY}
`;
}

function describeFailure({ level, description, command, exitCode, stdout, stderr }: ValidationGateResult): string {
  return `Level ${level}: ${description}
Command:
${indent(command ?? "")}
Exit code: ${exitCode ?? "none"}
Output:
${indent(stdout)}
Errors:
${indent(stderr)}`;
}
