import { indent } from "../prp/prp-document.js";
import type { ItemWork } from "./item-work.js";

/** The documents of the plan, for the coder's prompt. */
export interface PromptContext {
  /** The plan's path, relative to the folder of the work. */
  readonly plan: string;
  /** The other documents in the plan's folder. */
  readonly beside: readonly string[];
}

/** Returns the prompt for the coder's next call. */
export function itemPrompt(work: ItemWork, context: PromptContext): string {
  const { item, gates, failure, session } = work;
  const name = `${item.id} (${item.title})`;
  const problem =
    failure === undefined
      ? ""
      : `The work on item ${name} isn't accepted yet. Find out why, and fix it.\n\n${failure}\n`;
  if (problem !== "" && session !== undefined) return problem;
  const others = context.beside.length === 0 ? "" : ` Beside it are ${context.beside.join(", ")}.`;
  return [
    `Do one item of the plan ${context.plan} in the current directory, and no other one.`,
    `<item id=${JSON.stringify(item.id)}>\n${[item.title, item.text].filter(Boolean).join("\n")}\n</item>`,
    ...(item.within.length === 0 ? [] : [`It stands within:\n${item.within.map(indent).join("\n")}`]),
    `The whole plan is in ${context.plan}.${others} Read what you need. Nobody can answer questions: decide yourself. Don't mark the ` +
      "item as done, and don't commit: both are done for you.",
    ...(gates.length === 0 ? [] : [`Then these commands must succeed:\n${gates.map(indent).join("\n")}`]),
    ...(work.calls.length === 0 && !work.isRepeated ? [] : [handover(work)]),
    ...(problem === "" ? [] : [problem]),
  ].join("\n\n");
}

/** Returns the part of the prompt that tells a new session about the earlier one. */
function handover({ calls }: ItemWork): string {
  const said = calls.findLast(({ text }) => text !== "")?.text ?? "";
  const words = said === "" ? "" : ` Its last words were:\n${indent(said)}`;
  return `Work on this item has begun already, in a session that has ended.${words}\nLook at the files (git status, git diff), and continue from there.`;
}
