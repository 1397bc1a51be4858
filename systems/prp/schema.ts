import type { output } from "zod";
import { isoDate } from "../iso-date.js";
import { z } from "../zod.js";

/** The stage of a gate: of its level, and of its place among the gates of that level from the second on. */
export type GateStage = `validation-gate-${string}`;

/** A point of a PRP's execution. The spec's own program reads the gates 1 to 4 alone. */
export type PrpStage = "pre-execution" | "coder-response" | GateStage | "complete" | "failed";

/** The stages that {@link PrpStage} names, for a regular expression. */
export const PRP_STAGE_PATTERN =
  "(?:pre-execution|coder-response|validation-gate-\\d+(?:\\.\\d+)?(?:-\\d+)?|complete|failed)";
const PRP_STAGE = new RegExp(`^${PRP_STAGE_PATTERN}$`);

/** The stages of a PRP's execution. */
export const PrpStageSchema = z.custom<PrpStage>(
  (value) => typeof value === "string" && PRP_STAGE.test(value),
  "It is no stage of a PRP's execution: pre-execution, coder-response, validation-gate-<level>, complete or failed",
);

/** How one gate went. */
export const ValidationGateResultSchema = z.object({
  level: z.number(),
  description: z.string(),
  success: z.boolean(),
  /** The command that was run; null if there is nothing to run. */
  command: z.string().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  /** Null if it was skipped, timed out, or was ended by a signal. */
  exitCode: z.number().nullable(),
  skipped: z.boolean(),
});

export type ValidationGateResult = output<typeof ValidationGateResultSchema>;

/** A coder's report about its work. */
export const CoderResultSchema = z.object({
  result: z.enum(["success", "error", "issue"]),
  message: z.string(),
});

export type CoderResult = output<typeof CoderResultSchema>;

/** Who works: the coder, or a gate. */
const WorkSchema = z.object({
  kind: z.enum(["coder", "gate"]),
  /** The gate's level. */
  level: z.number().optional(),
});

/** How far a command had come before its end. For people: a resumed run starts the command again. */
export const WorkProgressSchema = WorkSchema.extend({
  /** How long it had run, in milliseconds. */
  ranMs: z.number().int().min(0),
  /** How much it had written, on stdout and stderr. */
  bytes: z.number().int().min(0),
  /** When it last wrote something; absent if it never has. */
  lastOutputAt: isoDate.optional(),
  /** Its output so far, each stream bounded by `maxOutputBytes`. */
  stdout: z.string(),
  stderr: z.string(),
});

export type WorkProgress = output<typeof WorkProgressSchema>;

/** The data that the executor needs beyond the spec's state, under one key. Other programs' states lack it. */
export const PrpRunStateSchema = z.object({
  /** SHA-256 of the PRP's text: a resumed run says where it has changed. */
  prpDigest: z.string().optional(),
  /** The work that started once this checkpoint was on disk; absent if the run stopped here. */
  work: WorkSchema.optional(),
  /** In a checkpoint that was saved while a command ran, or when it was ended before its time. */
  progress: WorkProgressSchema.optional(),
  /** The files that the coder said it made, in all its responses. */
  artifacts: z.array(z.string()).optional(),
});

/** Where a PRP's execution stands. */
export const CheckpointExecutionStateSchema = z.object({
  /** The PRP's file; empty if the PRP came as an object. */
  prpPath: z.string(),
  stage: PrpStageSchema,
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

export type CheckpointExecutionState = output<typeof CheckpointExecutionStateSchema>;

/** One checkpoint. */
export const CheckpointDataSchema = z.object({
  id: z.string(),
  taskId: z.string(),
  label: z.string(),
  state: CheckpointExecutionStateSchema,
  createdAt: isoDate,
  /** The error, if the checkpoint is about one. */
  error: z.object({ message: z.string(), code: z.string().optional(), stack: z.string().optional() }).optional(),
});

export type CheckpointData = output<typeof CheckpointDataSchema>;

/** The file `{sessionPath}/artifacts/{taskId}/checkpoints.json`. */
export const CheckpointFileSchema = z.object({
  version: z.literal("1.0"),
  checkpoints: z.array(CheckpointDataSchema),
  lastModified: isoDate,
});

export type CheckpointFile = output<typeof CheckpointFileSchema>;
