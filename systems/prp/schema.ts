import { z } from "zod";
import { isoDate } from "../iso-date.js";

/** The points of a PRP's execution, in the order of their first appearance. */
export const PRP_STAGES = [
  "pre-execution",
  "coder-response",
  "validation-gate-1",
  "validation-gate-2",
  "validation-gate-3",
  "validation-gate-4",
  "complete",
  "failed",
] as const;

export type PrpStage = (typeof PRP_STAGES)[number];

/** How one gate went. */
export const ValidationGateResultSchema = z.object({
  level: z.union([z.literal(1), z.literal(2), z.literal(3), z.literal(4)]),
  description: z.string(),
  success: z.boolean(),
  /** What was run; null where there is nothing to run. */
  command: z.string().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  /** Null where it was skipped, timed out, or was ended by a signal. */
  exitCode: z.number().nullable(),
  skipped: z.boolean(),
});

export type ValidationGateResult = z.output<typeof ValidationGateResultSchema>;

/** What a coder says of its work. */
export const CoderResultSchema = z.object({
  result: z.enum(["success", "error", "issue"]),
  message: z.string(),
});

export type CoderResult = z.output<typeof CoderResultSchema>;

const processSchema = z.object({ pid: z.number().int().positive(), startTime: z.string() });

/** Whose work it is. */
const workSchema = {
  kind: z.enum(["coder", "gate"]),
  /** The gate's level. */
  level: z.number().int().optional(),
};

/** How far a command has come that has not ended. Nothing is concluded from it: it is for people to read. */
export const WorkProgressSchema = z.object({
  ...workSchema,
  /** For how long it had run, in milliseconds. */
  ranMs: z.number().int().min(0),
  /** How much it had written, on stdout and stderr. */
  bytes: z.number().int().min(0),
  /** When it last wrote something; absent where it never has. */
  lastOutputAt: isoDate.optional(),
  /** What it had written, each bounded by `maxOutputBytes`. */
  stdout: z.string(),
  stderr: z.string(),
});

export type WorkProgress = z.output<typeof WorkProgressSchema>;

/**
 * What the executor needs beyond the spec's state, under one key, so that whoever knows the spec alone passes over it.
 * States without it (another program's) can be gone on with too.
 */
export const PrpRunStateSchema = z.object({
  /** SHA-256 of what the PRP asks for and of its gates: a checkpoint of another version is not gone on with. */
  prpDigest: z.string().optional(),
  /** The program that executes the PRP, while it does: its process, and which of its executions. */
  runner: processSchema.extend({ runId: z.string() }).optional(),
  /** The work that this checkpoint has started: its process group, and what tells it from a later one of that number. */
  process: processSchema
    .extend({
      ...workSchema,
      group: z.number().int().positive(),
      token: z.string(),
    })
    .optional(),
  /** In a checkpoint that was saved while a command ran, or when it was ended before its time. */
  progress: WorkProgressSchema.optional(),
  /** What the coder said it made, over all its responses. */
  artifacts: z.array(z.string()).optional(),
});

export type PrpRunState = z.output<typeof PrpRunStateSchema>;

/** Where a PRP's execution stands. */
export const CheckpointExecutionStateSchema = z.object({
  /** The PRP's file; empty where the PRP came as an object. */
  prpPath: z.string(),
  stage: z.enum(PRP_STAGES),
  /** All the coder wrote, bounded, or its reply as JSON. */
  coderResponse: z.string().optional(),
  coderResult: CoderResultSchema.optional(),
  /** The gates that have run on the current response. */
  validationResults: z.array(ValidationGateResultSchema),
  /** How often the coder was asked to fix what a gate found; absent before the first time. */
  fixAttempt: z.number().int().min(0).optional(),
  /** When this state was captured. */
  timestamp: isoDate,
  /** See {@link PrpRunStateSchema}. */
  waymark: PrpRunStateSchema.optional(),
});

export type CheckpointExecutionState = z.output<typeof CheckpointExecutionStateSchema>;

/** One checkpoint. */
export const CheckpointDataSchema = z.object({
  id: z.string(),
  taskId: z.string(),
  label: z.string(),
  state: CheckpointExecutionStateSchema,
  createdAt: isoDate,
  /** What went wrong, where the checkpoint is about an error. */
  error: z.object({ message: z.string(), code: z.string().optional(), stack: z.string().optional() }).optional(),
});

export type CheckpointData = z.output<typeof CheckpointDataSchema>;

/** The file `{sessionPath}/artifacts/{taskId}/checkpoints.json`. */
export const CheckpointFileSchema = z.object({
  version: z.literal("1.0"),
  checkpoints: z.array(CheckpointDataSchema),
  lastModified: isoDate,
});

export type CheckpointFile = z.output<typeof CheckpointFileSchema>;
