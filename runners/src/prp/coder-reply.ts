import { stripVTControlCharacters } from "node:util";
import { type CoderResult, CoderResultSchema } from "waymark/prp";
import { z } from "zod";
import { readReport } from "../coders/coder-report.js";

/** A coder's final answer. */
export interface CoderReply extends CoderResult {
  /** Files that the coder made or changed. */
  readonly artifacts: readonly string[];
}

const files = z.array(z.string()).optional();
const ReplySchema = CoderResultSchema.extend({ artifacts: files, files });

/** How many characters of an answer without a result are quoted. */
const QUOTED = 300;

/**
 * Finds the JSON result in a coder's text: in the last line, in a fenced block at the end, or as the whole text. The text may be
 * within an envelope of Claude Code or Codex. If there is no result, the coder has worked and the gates decide; only an envelope
 * that reports an error is one.
 */
export function parseCoderReply(response: string): CoderReply {
  // Agents colour their output, and JSON itself has no control characters.
  const report = readReport(response, false, new Date());
  if (report.error !== undefined) return failed(`The coder reports an error: ${quoteEnd(report.error)}`);
  const text = stripVTControlCharacters(report.text).trim();
  const lastLine = text.slice(text.lastIndexOf("\n") + 1);
  for (const candidate of [lastLine, lastFencedBlock(text), text]) {
    const reply = candidate === undefined ? undefined : readReply(candidate);
    if (reply !== undefined) return reply;
  }
  return { result: "success", message: quoteEnd(text), artifacts: [] };
}

function quoteEnd(text: string): string {
  return text.length > QUOTED ? `… ${text.slice(-QUOTED)}` : text;
}

/** Reads the reply of a coder that is a function: text as above, or the result as an object. */
export function toCoderReply(returned: unknown): CoderReply {
  if (typeof returned === "string") return parseCoderReply(returned);
  const checked = ReplySchema.safeParse(returned);
  if (checked.success) return toReply(checked.data);
  return failed(`The coder returned no result: ${z.prettifyError(checked.error)}`);
}

function readReply(json: string): CoderReply | undefined {
  try {
    const checked = ReplySchema.safeParse(JSON.parse(json));
    return checked.success ? toReply(checked.data) : undefined;
  } catch {
    // This text isn't JSON, but the next candidate may be.
    return undefined;
  }
}

function toReply({ result, message, artifacts, files: named }: z.output<typeof ReplySchema>): CoderReply {
  return { result, message, artifacts: artifacts ?? named ?? [] };
}

/** Searches line by line: a Markdown parser takes minutes for a megabyte of log. */
function lastFencedBlock(text: string): string | undefined {
  const lines = text.split("\n");
  const fence = /^\s*(`{3,}|~{3,})$/.exec(lines.pop() ?? "")?.[1];
  if (fence === undefined) return undefined;
  const start = lines.findLastIndex((line) => line.trimStart().startsWith(fence));
  return start === -1 ? undefined : lines.slice(start + 1).join("\n");
}

function failed(message: string): CoderReply {
  return { result: "error", message, artifacts: [] };
}
