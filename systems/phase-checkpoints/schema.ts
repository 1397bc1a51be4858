import type { output } from "zod";
import { z } from "../zod.js";

/** A criterion of the work ("ideal state criterion") and its status when the checkpoint was made. */
export const iscCriterionSnapshotSchema = z.object({
  id: z.string(),
  subject: z.string(),
  status: z.enum(["pending", "in_progress", "completed"]),
});

export type IscCriterionSnapshot = output<typeof iscCriterionSnapshotSchema>;

/** The content of a file `ckpt-<timestamp>-<phase>.json`. */
export const checkpointStateSchema = z.object({
  id: z.string().min(1),
  sessionId: z.string(),
  /** The phase's name: `build`. */
  phase: z.string(),
  phaseNumber: z.int().min(1).max(7),
  /** ISO 8601 in UTC. */
  createdAt: z.iso.datetime(),
  /** Whether this work is finished. Finished work is not offered for resuming. */
  completed: z.boolean(),
  /** The task, in about eight words. */
  taskSummary: z.string(),
  iscCriteria: z.array(iscCriterionSnapshotSchema),
  /** The phase's own state. */
  metadata: z.record(z.string(), z.unknown()),
});

export type CheckpointState = output<typeof checkpointStateSchema>;
