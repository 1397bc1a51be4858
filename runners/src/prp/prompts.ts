import type { ValidationGateResult } from "waymark/prp";
import type { LoadedPrp } from "./load-prp.js";
import type { CheckedDocument } from "./prp-document.js";

const REPLY = `When you are done, end your output with one line of JSON and nothing after it:
{"result": "success" | "error" | "issue", "message": "what you did, or what is in the way", "artifacts": ["files you made or changed"]}
"success": the work is done. "issue": the PRP itself is at fault. "error": the work could not be done.`;

/** The coder's first prompt. */
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

/** The coder's prompt after a gate failed. */
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

/** Returns a PRP document as Markdown, with a heading for each part that it has. */
export function describeDocument(prp: CheckedDocument): string {
  const { title, objective, context, implementationSteps, successCriteria, references, validationGates } = prp;
  const gates = validationGates.map(
    ({ level, description, command }) =>
      `### Level ${level}: ${description}\n\n${command === null ? "To be checked by hand." : indented(command)}`,
  );
  const sections: [heading: string, text: string | undefined][] = [
    ["Goal", objective],
    ["All Needed Context", context],
    ["Implementation Tasks", implementationSteps?.map((step, i) => `${i + 1}. ${step}`).join("\n")],
    ["Success Criteria", successCriteria?.map(({ description }) => `- ${description}`).join("\n")],
    ["References", references?.map((reference) => `- ${reference}`).join("\n")],
    ["Validation Loop", gates.join("\n\n")],
  ];
  const parts = sections.flatMap(([heading, text]) => (text ? [`## ${heading}\n\n${text}`] : []));
  return [`# ${title ?? prp.taskId}`, ...parts].join("\n\n");
}

function describeFailure({ level, description, command, exitCode, stdout, stderr }: ValidationGateResult): string {
  return `Level ${level}: ${description}
Command:
${indented(command ?? "")}
Exit code: ${exitCode ?? "none"}
Output:
${indented(stdout)}
Errors:
${indented(stderr)}`;
}

/** Indents the text: an indented block can contain any text, even fences. */
function indented(text: string): string {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
}
