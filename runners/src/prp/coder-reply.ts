import { stripVTControlCharacters } from "node:util";
import { type CoderResult, CoderResultSchema } from "waymark/prp";
import { z } from "zod";
import { type CoderReport, quoteEnd, readReport } from "../coders/coder-report.js";

/** A coder's final answer. */
export interface CoderReply extends CoderResult {
  /** Files that the coder made or changed. */
  readonly artifacts: readonly string[];
}

const files = z.array(z.string()).optional();
const ReplySchema = CoderResultSchema.extend({ artifacts: files, files });

/**
 * Finds the JSON result at the end of a coder's report: on the last line, on several lines, or in a fence. Without a
 * result, the reply is `success`, and the gates decide; but a reported error is always `error`.
 */
export function replyIn(report: CoderReport): CoderReply {
  if (report.error !== undefined) return { result: "error", message: report.error, artifacts: [] };
  // Agents colour their output, and JSON itself has no control characters.
  const text = stripVTControlCharacters(report.text).trim();
  const unfenced = text.replace(/\n\s*(?:`{3,}|~{3,})$/, "");
  const found = readReply(unfenced.slice(unfenced.lastIndexOf("\n{") + 1));
  return found ?? { result: "success", message: quoteEnd(text), artifacts: [] };
}

/** Reads the reply of a coder that is a function: text that may end with the result, or the result as an object. */
export function toCoderReply(returned: unknown): CoderReply {
  if (typeof returned === "string") return replyIn(readReport(returned, false, new Date()));
  const checked = ReplySchema.safeParse(returned);
  if (checked.success) return toReply(checked.data);
  const message = `The coder returned no result: ${z.prettifyError(checked.error)}`;
  return { result: "error", message, artifacts: [] };
}

function readReply(json: string): CoderReply | undefined {
  try {
    const checked = ReplySchema.safeParse(JSON.parse(json));
    return checked.success ? toReply(checked.data) : undefined;
  } catch {
    // The text is prose, not JSON.
    return undefined;
  }
}

function toReply({ result, message, artifacts, files: named }: z.output<typeof ReplySchema>): CoderReply {
  return { result, message, artifacts: artifacts ?? named ?? [] };
}
