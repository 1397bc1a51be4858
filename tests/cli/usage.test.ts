import { describe, expect, it } from "vitest";
import { sumUsage, usageIn, usageText } from "../../cli/src/usage.js";

describe("the usage of a model's call", () => {
  it.each<readonly [provider: string, result: unknown, tokens: number, costUsd: number]>([
    ["Anthropic", { usage: { input_tokens: 10, cache_read_input_tokens: 80, output_tokens: 10 } }, 100, 0],
    ["OpenAI", { usage: { prompt_tokens: 70, completion_tokens: 30, total_tokens: 100 } }, 100, 0],
    ["OpenAI's responses", { usage: { input_tokens: 70, output_tokens: 30, total_tokens: 100 } }, 100, 0],
    ["OpenRouter", { usage: { prompt_tokens: 70, completion_tokens: 30, cost: 0.25 } }, 100, 0.25],
    ["Google", { usageMetadata: { promptTokenCount: 70, totalTokenCount: 100 } }, 100, 0],
    ["LangChain", { usage_metadata: { input_tokens: 70, output_tokens: 30, total_tokens: 100 } }, 100, 0],
    ["the AI SDK", { text: "Hi", usage: { inputTokens: 70, outputTokens: 30 } }, 100, 0],
    ["an older AI SDK", { text: "Hi", usage: { promptTokens: 70, completionTokens: 30 } }, 100, 0],
    ["Claude Code", { total_cost_usd: 0.25, usage: { input_tokens: 90, output_tokens: 10 } }, 100, 0.25],
    ["a plan's coder", { text: "Done", tokens: 100, costUsd: 0.25 }, 100, 0.25],
    ["a step that returns the usage alone", { input_tokens: 90, output_tokens: 10 }, 100, 0],
  ])("is read from a result of %s", (_provider, result, tokens, costUsd) => {
    expect(usageIn(result)).toEqual({ tokens, costUsd });
  });

  it.each([undefined, null, "text", [1, 2], {}, { usage: "high" }, { cost: 412 }, { tokens: ["a", "b"] }])(
    "isn't found in %j",
    (result) => {
      expect(usageIn(result)).toBeUndefined();
    },
  );

  it("is summed, and shown with cents, or with more digits if it costs less", () => {
    const sum = sumUsage([{ tokens: 1000, costUsd: 0.1 }, undefined, { tokens: 500, costUsd: 0.2 }]);
    expect(sum).toEqual({ tokens: 1500, costUsd: 0.3 });
    expect(sum && usageText(sum)).toBe("$0.30, 1,500 tokens");
    expect(usageText({ tokens: 0, costUsd: 0.00042 })).toBe("$0.0004");
    expect(sumUsage([undefined])).toBeUndefined();
  });
});
