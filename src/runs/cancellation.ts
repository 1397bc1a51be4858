import type { CheckpointSummary } from "../contract/checkpoint.js";

/** The code in the error of a cancelled task's checkpoint. A run that throws can't have it by chance. */
const CODE = "WAYMARK_CANCELLED";

/** The error of a cancelled task's checkpoint. */
export function cancellation(reason: string): Error {
  return Object.assign(new Error(reason), { name: "RunCancelledError", code: CODE, stack: undefined });
}

/** Whether `manager.cancel` has recorded the checkpoint as failed. */
export function isCancelled({ status, error }: Pick<CheckpointSummary, "status" | "error">): boolean {
  return status === "failed" && error?.code === CODE;
}
