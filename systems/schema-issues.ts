import type { z } from "zod";
import { StateInvalidError } from "../src/contract/errors.js";

/** The complaints of a schema, on one line: where each fault is, and what is wrong. */
export function describeIssues({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.join(".") || "the whole"}: ${message}`).join("; ");
}

/** The error for a checkpoint that a caller wants to save and the schema refuses. */
export function invalidCheckpoint(error: z.ZodError): StateInvalidError {
  const issues = error.issues.map(({ path, message }) => ({ message, path: ["$", ...path].join(".") }));
  return new StateInvalidError(`Nothing was saved: the checkpoint is not valid: ${describeIssues(error)}.`, issues);
}
