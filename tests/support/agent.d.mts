import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

export function agentOn(
  checkpointer: BaseCheckpointSaver,
  texts: Iterator<string, never>,
  threadId?: string,
): () => Promise<{ readonly messages: readonly unknown[] }>;
