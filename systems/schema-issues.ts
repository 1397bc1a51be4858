import type { z } from "zod";
import { StateInvalidError } from "../src/contract/errors.js";

/** A schema's complaints on one line: the place of each fault, and what is wrong there. */
export function describeIssues({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.join(".") || "the whole"}: ${message}`).join("; ");
}

/** The error for a checkpoint that the schema refuses to save. */
export function invalidCheckpoint(error: z.ZodError): StateInvalidError {
  const issues = error.issues.map(({ path, message }) => ({ message, path: ["$", ...path].join(".") }));
  return new StateInvalidError(`Nothing was saved: the checkpoint is not valid: ${describeIssues(error)}.`, issues);
}
