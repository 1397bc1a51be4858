import { CheckpointError, type VerifyOptions, type VerifyResult } from "waymark";
import { lostValues } from "../langgraph/whole-checkpoints.js";
import type { QuerySession } from "../store.js";

/** All damage of a storage, also the values that threads of LangGraph have lost. */
export async function verifyStorage(session: QuerySession, options: VerifyOptions): Promise<VerifyResult> {
  const result = await session.manager.verify(options);
  const findings = [...result.findings];
  try {
    for await (const finding of lostValues(session)) findings.push(finding);
  } catch (error) {
    // A storage that can't be listed is among the findings.
    if (findings.length === 0 || !(error instanceof CheckpointError)) throw error;
  }
  return { ...result, findings };
}
