import { describe, expect, it } from "vitest";
import { coderCommand } from "../../../runners/src/coders/coder-command.js";
import { readReport } from "../../../runners/src/coders/coder-report.js";
import { findUsageLimit } from "../../../runners/src/coders/usage-limit.js";

const NOW = new Date("2026-11-30T12:00:00Z");
const report = (output: string, failed = false) => readReport(output, failed, NOW);
const lines = (...events: object[]) => events.map((event) => JSON.stringify(event)).join("\n");

describe("a coder's report", () => {
  const claude = {
    ...{ type: "result", subtype: "success", is_error: false, result: "Done.", session_id: "s-1" },
    ...{ total_cost_usd: 0.31, usage: { input_tokens: 10, cache_read_input_tokens: 900, output_tokens: 5 } },
  };
  const read = { text: "Done.", session: "s-1", costUsd: 0.31, tokens: 15 };

  it.each([
    ["a line", JSON.stringify(claude)],
    ["several lines", JSON.stringify(claude, null, 2)],
    ["lines in colour", `\u001b[32m${JSON.stringify(claude)}\u001b[0m\n`],
    ["a list of events", JSON.stringify([{ type: "system", session_id: "s-1" }, claude])],
    ["stream-json", lines({ type: "system", subtype: "init", session_id: "s-1" }, { type: "assistant" }, claude)],
    ["lines among others", `npm warn x\n${JSON.stringify(claude)}\nbye`],
  ])("of Claude Code is read from %s", (_form, output) => expect(report(output)).toEqual(read));

  it("of Codex has the thread, the last message and the tokens that aren't from its cache", () => {
    const output = lines(
      { type: "thread.started", thread_id: "th-1" },
      { type: "error", message: "Reconnecting... 1/5" },
      { type: "item.completed", item: { type: "reasoning", text: "hm" } },
      { type: "item.completed", item: { type: "agent_message", text: "All is done." } },
      { type: "turn.completed", usage: { input_tokens: 100, cached_input_tokens: 60, output_tokens: 7 } },
    );
    expect(report(output)).toEqual({ text: "All is done.", session: "th-1", tokens: 47 });
  });

  it.each([
    ["prose", "All is done and tested."],
    ["fenced JSON and a sentence", '```json\n{"result":"success"}\n```\nThat is all.'],
    ["JSON of its own", '{\n  "result": "success"\n}'],
    ["a question", "Shall I go on? (y/n)"],
    ["nothing", ""],
  ])("that is %s reports no error", (_form, output) => expect(report(output).error).toBeUndefined());

  it.each([
    ["Claude Code", JSON.stringify({ type: "result", subtype: "error_max_turns", is_error: true }), "error_max_turns"],
    ["a refused key", JSON.stringify({ ...claude, is_error: true, result: "Invalid API key" }), "Invalid API key"],
    ["Codex", lines({ type: "error", message: "a" }, { type: "turn.failed", error: { message: "b" } }), "b"],
  ])("names the error of %s", (_tool, output, error) => {
    expect(report(output)).toMatchObject({ error });
    expect(report(output).limit).toBeUndefined();
  });
});

describe("a usage limit", () => {
  it.each([
    ["Claude AI usage limit reached|1796083200", "2026-12-01T00:00:00.000Z"],
    ["Claude usage limit reached. Your limit will reset at 3pm (America/Bogota).", "2026-11-30T20:00:00.000Z"],
    ["5-hour limit reached ∙ resets 3am (Asia/Tokyo)", "2026-11-30T18:00:00.000Z"],
    ["You've hit your limit · resets 11:30am (UTC)", "2026-12-01T11:30:00.000Z"],
    ["You've hit your session limit · resets 11:50am (UTC)", "2026-11-30T11:50:00.000Z"],
    ["You've hit your weekly limit · resets Wed 12:00am (Europe/Berlin)", "2026-12-01T23:00:00.000Z"],
    ["You've hit your limit · resets Feb 3 at 10am (UTC)", "2027-02-03T10:00:00.000Z"],
    [
      "You've hit your usage limit. Upgrade to Pro (https://x.y/z) or try again in 2 days 17 hours 14 minutes.",
      "2026-12-03T05:14:00.000Z",
    ],
    [
      "You've hit your usage limit. Visit https://chatgpt.com/codex or try again at Dec 8th, 2026 12:30 PM (UTC).",
      "2026-12-08T12:30:00.000Z",
    ],
  ])("is read from %j", (text, time) => {
    for (const isError of [true, false]) {
      expect(findUsageLimit(text, isError, NOW)).toEqual({ message: text, resetsAt: new Date(time) });
    }
  });

  it.each([
    [
      "Codex",
      lines({ type: "turn.failed", error: { message: "You've hit your usage limit. Try again in 30 minutes." } }),
    ],
    [
      "its code",
      lines({
        type: "turn.failed",
        error: { message: '{"error":{"type":"usage_limit_reached","resets_in_seconds":1800}}' },
      }),
    ],
    [
      "Claude Code",
      JSON.stringify({
        type: "result",
        is_error: true,
        result: "Claude AI usage limit reached|1796041800",
        session_id: "s",
      }),
    ],
    [
      "Claude Code's events",
      lines(
        { type: "rate_limit_event", rate_limit_info: { status: "rejected", resetsAt: 1796041800 } },
        { type: "result", is_error: true, result: "You've hit your limit" },
      ),
    ],
    ["text", "working\nYou've hit your usage limit. Try again in 30 minutes."],
  ])("is found in the envelope of %s", (_tool, output) => {
    expect(report(output, true).limit?.resetsAt).toEqual(new Date("2026-11-30T12:30:00Z"));
  });

  it.each(["Added a message for when the usage limit is reached|1796041800.", "I have hit a bug, and fixed it."])(
    "is not seen in an answer about limits: %s",
    (text) => expect(report(text).limit).toBeUndefined(),
  );

  it("may have no time", () => {
    expect(report("Error: 429 too many requests", true).limit).toEqual({ message: "Error: 429 too many requests" });
  });
});

describe("a coder's command", () => {
  it.each([
    ["claude", undefined, "claude -p --output-format json --permission-mode acceptEdits"],
    ["claude", "s-1", "claude -p --output-format json --permission-mode acceptEdits --resume s-1"],
    [
      "claude --model opus --dangerously-skip-permissions",
      "s",
      "claude -p --output-format json --model opus --dangerously-skip-permissions --resume s",
    ],
    ["claude -p --model opus", "s", "claude -p --model opus"],
    ["claude", "a; rm -rf /", "claude -p --output-format json --permission-mode acceptEdits"],
    ["codex", undefined, "codex exec --json --skip-git-repo-check --sandbox workspace-write -"],
    ["codex", "t", "codex exec --json --skip-git-repo-check --sandbox workspace-write resume t -"],
    ["codex --full-auto", "t", "codex exec --json --skip-git-repo-check --full-auto resume t -"],
    ["codex exec -", "t", "codex exec -"],
    ["./claude", "t", "./claude"],
  ])("of %s with session %s is %s", (coder, session, command) => {
    expect(coderCommand(coder, session).command).toBe(command);
  });
});
