import { CheckpointError, type VerifyOptions, type VerifyResult } from "waymark";
import { lostValues } from "../langgraph/whole-checkpoints.js";
import type { QuerySession } from "../store.js";

/** Finds all damage of a storage, including values that LangGraph threads have lost. */
export async function verifyStorage(session: QuerySession, options: VerifyOptions): Promise<VerifyResult> {
  const result = await session.manager.maintenance.verify(options);
  const findings = [...result.findings];
  try {
    for await (const finding of lostValues(session)) findings.push(finding);
  } catch (error) {
    // If a storage can't be listed, the findings already show it.
    if (findings.length === 0 || !(error instanceof CheckpointError)) throw error;
  }
  return { ...result, findings };
}
