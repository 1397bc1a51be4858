import { stripVTControlCharacters } from "node:util";
import { isRecord } from "waymark/kit";
import type { CommandResult } from "../processes/run-command.js";
import { findUsageLimit, type UsageLimit } from "./usage-limit.js";

/** What a coder reported, in any of the formats of Claude Code, Codex and other commands. */
export interface CoderReport {
  /** The coder's last message. */
  readonly text: string;
  /** Why the coder failed, if it reported a reason. */
  readonly error?: string;
  readonly limit?: UsageLimit;
  /** The id by which the session can be continued. */
  readonly session?: string;
  readonly costUsd?: number;
  /** Excludes tokens that came from a cache. */
  readonly tokens?: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** How many bytes at the end of a coder's stdout are searched for its report, even if fewer are kept. */
export const REPORT_BYTES = 1024 * 1024;
/** How many characters of a coder's message are recorded and quoted in errors. */
const MAX_QUOTED = 2_000;

/** Reads the report from the output of a coder's command. If the command failed, `error` also says how it ended. */
export function reportOf({ exitCode, timedOut, stdoutEnd, stderr }: CommandResult): CoderReport {
  const failed = timedOut || exitCode !== 0;
  const output = failed || stdoutEnd.trim() === "" ? `${stdoutEnd}\n${stderr}` : stdoutEnd;
  const report = readReport(output, failed, new Date());
  if (!failed && report.error === undefined) return report;
  const exit = exitCode === null ? "was ended by a signal" : `exited with ${exitCode}`;
  const how = timedOut ? "timed out" : failed ? exit : "reports an error";
  const words = quoteEnd(report.error ?? (stderr.trim() === "" ? stdoutEnd : stderr));
  return { ...report, error: `The coder ${how}${words === "" ? "" : `: ${words}`}` };
}

export function quoteEnd(text: string): string {
  const trimmed = stripVTControlCharacters(text).trim();
  return trimmed.length > MAX_QUOTED ? `… ${trimmed.slice(-MAX_QUOTED)}` : trimmed;
}

/**
 * Reads a coder's output: prose, `--output-format json` or `stream-json` of Claude Code, `exec --json` of Codex. The
 * JSON may be coloured, span several lines, or stand between other lines.
 *
 * @param failed - Whether the command itself failed.
 */
export function readReport(output: string, failed: boolean, now: Date): CoderReport {
  const plain = stripVTControlCharacters(output).trim();
  const events = eventsIn(plain);
  const usages: Fields[] = [];
  let [text, error, session]: (string | undefined)[] = [];
  let costUsd: number | undefined;
  let limit: UsageLimit | undefined;
  for (const event of events) {
    session = textOf(event["session_id"]) ?? textOf(event["thread_id"]) ?? session;
    const [type, item, info] = [event["type"], fieldsOf(event["item"]), fieldsOf(event["rate_limit_info"])];
    if (type === "result") {
      text = textOf(event["result"]) ?? text;
      const isError = event["is_error"] === true || /^error/.test(String(event["subtype"]));
      error = isError ? text || String(event["subtype"]) : undefined;
      if (event["api_error_status"] === 429) limit = { message: error ?? "Too many requests" };
      if (typeof event["total_cost_usd"] === "number") costUsd = event["total_cost_usd"];
      usages.push(fieldsOf(event["usage"]));
    }
    if (type === "item.completed" && item["type"] === "agent_message") text = textOf(item["text"]) ?? text;
    if (type === "turn.completed") usages.push(fieldsOf(event["usage"]));
    // Codex also reports a broken connection as an error, and then reconnects.
    if (type === "turn.completed") error = undefined;
    if (type === "error") error = textOf(event["message"]) ?? textOf(fieldsOf(event["error"])["message"]) ?? error;
    if (type === "turn.failed") error = textOf(fieldsOf(event["error"])["message"]) ?? error ?? "The turn failed";
    if (type === "rate_limit_event" && info["status"] === "rejected") {
      limit = findUsageLimit(`usage limit reached: resetsAt ${info["resetsAt"]}`, true, now);
    }
  }
  const said = error ?? text ?? plain;
  const isError = failed || error !== undefined;
  const named =
    findUsageLimit(said, isError, now) ?? (isError ? (limit ?? findUsageLimit(plain, true, now)) : undefined);
  const merged = named && limit?.resetsAt ? { ...limit, ...named } : named;
  const tokens = usages.some((usage) => "output_tokens" in usage)
    ? usages.reduce((sum, usage) => sum + countTokens(usage), 0)
    : undefined;
  return {
    text: text ?? plain,
    ...(error !== undefined && { error }),
    ...(merged && { limit: merged }),
    ...(session !== undefined && { session }),
    ...(costUsd !== undefined && { costUsd }),
    ...(tokens !== undefined && { tokens }),
  };
}

/**
 * Returns the JSON events in a text: the whole text is one event or a list of events, or some of its lines are events.
 */
function eventsIn(text: string): readonly Fields[] {
  const whole = parse(text);
  if (Array.isArray(whole)) return whole.filter(isRecord);
  if (isRecord(whole)) return [whole];
  return text.split("\n").flatMap((line) => {
    const event = line.trim().startsWith("{") ? parse(line) : undefined;
    return isRecord(event) && typeof event["type"] === "string" ? [event] : [];
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Most output isn't JSON.
    return undefined;
  }
}

/**
 * Counts the tokens that didn't come from a cache. Codex includes cached tokens in the input; Claude Code counts them
 * separately.
 */
function countTokens(usage: Fields): number {
  const count = (name: string) => (typeof usage[name] === "number" ? usage[name] : 0);
  const fresh = count("input_tokens") - count("cached_input_tokens") + count("cache_creation_input_tokens");
  return fresh + count("output_tokens");
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function fieldsOf(value: unknown): Fields {
  return isRecord(value) ? value : {};
}
