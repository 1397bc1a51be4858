/** What calls of models have used. */
export interface Usage {
  readonly tokens: number;
  /** 0 if it isn't known. */
  readonly costUsd: number;
}

const TOTAL = ["total_tokens", "totalTokens", "totalTokenCount"];
const PARTS = [
  ...["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"],
  ...["prompt_tokens", "completion_tokens", "inputTokens", "outputTokens", "promptTokens", "completionTokens"],
];
const COST = ["total_cost_usd", "costUsd", "cost_usd"];

/**
 * Returns the usage that a result or a message carries; `undefined` if it carries none. Knows the forms of Anthropic,
 * OpenAI, Google, OpenRouter, LangChain, the AI SDK, Claude Code, of plans, and its own.
 */
export function usageIn(value: unknown): Usage | undefined {
  const result = fieldsOf(value);
  const usage = fieldsOf(result["usage"] ?? result["usage_metadata"] ?? result["usageMetadata"] ?? value);
  const total = firstNumber(usage, TOTAL) ?? firstNumber(result, ["tokens"]);
  const tokens = total ?? PARTS.reduce((sum, name) => sum + (firstNumber(usage, [name]) ?? 0), 0);
  // A field `cost` without tokens may be anything.
  const cost = firstNumber(result, COST) ?? firstNumber(usage, tokens > 0 ? [...COST, "cost"] : COST);
  return tokens > 0 || cost !== undefined ? { tokens, costUsd: cost ?? 0 } : undefined;
}

/** Returns the sum; `undefined` if nothing was used. */
export function sumUsage(all: readonly (Usage | undefined)[]): Usage | undefined {
  const known = all.filter((usage) => usage !== undefined);
  if (known.length === 0) return undefined;
  const tokens = known.reduce((sum, usage) => sum + usage.tokens, 0);
  const costUsd = known.reduce((sum, usage) => sum + usage.costUsd, 0);
  // Without the noise of binary fractions.
  return { tokens, costUsd: Math.round(costUsd * 1e6) / 1e6 };
}

/** `$0.25, 1,500 tokens` */
export function usageText({ tokens, costUsd }: Usage): string {
  return [
    ...(costUsd > 0 ? [`$${costUsd.toFixed(costUsd < 0.01 ? 4 : 2)}`] : []),
    ...(tokens > 0 ? [`${tokens.toLocaleString("en-US")} tokens`] : []),
  ].join(", ");
}

function firstNumber(fields: Readonly<Record<string, unknown>>, names: readonly string[]): number | undefined {
  return names.map((name) => fields[name]).find((value) => typeof value === "number");
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
