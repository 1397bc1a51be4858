import { z } from "zod";

/** One criterion of the work ("ideal state criterion") and how far it had come when the checkpoint was made. */
export const iscCriterionSnapshotSchema = z.object({
  id: z.string(),
  subject: z.string(),
  status: z.enum(["pending", "in_progress", "completed"]),
});

export type IscCriterionSnapshot = z.output<typeof iscCriterionSnapshotSchema>;

/** What a file `ckpt-<timestamp>-<phase>.json` holds. */
export const checkpointStateSchema = z.object({
  id: z.string().min(1),
  sessionId: z.string(),
  /** The phase's name: `build`. */
  phase: z.string(),
  phaseNumber: z.number().min(1).max(7),
  /** ISO 8601 in UTC. */
  createdAt: z.iso.datetime(),
  /** Whether this work is finished, and not to be offered for resuming. */
  completed: z.boolean(),
  /** The task in some eight words. */
  taskSummary: z.string(),
  iscCriteria: z.array(iscCriterionSnapshotSchema),
  /** The phase's own state. */
  metadata: z.record(z.string(), z.unknown()),
});

export type CheckpointState = z.output<typeof checkpointStateSchema>;

/** The schema's complaints on one line: where each is, and what is wrong. */
export function describeIssues({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => `${path.join(".") || "the whole"}: ${message}`).join("; ");
}
