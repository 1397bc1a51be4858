import type { output } from "zod";
import { isoDate } from "../iso-date.js";
import { z } from "../zod.js";

/**
 * The stage of a gate. It contains the gate's level and, from the second gate of a level on, its number within the
 * level.
 */
export type GateStage = `validation-gate-${string}`;

/** A point of a PRP's execution. The spec's own program only reads the gates 1 to 4. */
export type PrpStage = "pre-execution" | "coder-response" | GateStage | "complete" | "failed";

/** Matches the stages of {@link PrpStage}, as part of a regular expression. */
export const PRP_STAGE_PATTERN =
  "(?:pre-execution|coder-response|validation-gate-\\d+(?:\\.\\d+)?(?:-\\d+)?|complete|failed)";
const PRP_STAGE = new RegExp(`^${PRP_STAGE_PATTERN}$`);

/** The stages of a PRP's execution. */
export const PrpStageSchema = z.custom<PrpStage>(
  (value) => typeof value === "string" && PRP_STAGE.test(value),
  "It is no stage of a PRP's execution: pre-execution, coder-response, validation-gate-<level>, complete or failed",
);

/** The result of one gate. */
export const ValidationGateResultSchema = z.object({
  level: z.number(),
  description: z.string(),
  success: z.boolean(),
  /** The command that was run; null if there is none. */
  command: z.string().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  /** Null if the gate was skipped, timed out, or was ended by a signal. */
  exitCode: z.number().nullable(),
  skipped: z.boolean(),
  /** A digest of the work on which the gate passed. Absent if the gate failed, or nothing could tell the work's state. */
  passedOn: z.string().optional(),
  /** The gate was ended at its time limit. */
  timedOut: z.boolean().optional(),
});

export type ValidationGateResult = output<typeof ValidationGateResultSchema>;

/** A coder's report about its work. */
export const CoderResultSchema = z.object({
  result: z.enum(["success", "error", "issue"]),
  message: z.string(),
});

export type CoderResult = output<typeof CoderResultSchema>;

/** The worker: the coder, or a gate. */
const WorkSchema = z.object({
  kind: z.enum(["coder", "gate"]),
  /** The gate's level. */
  level: z.number().optional(),
});

/** The progress of a command before its end. It is for people: a resumed run starts the command again. */
export const WorkProgressSchema = WorkSchema.extend({
  /** How long the command had run, in milliseconds. */
  ranMs: z.number().int().min(0),
  /** How many bytes the command had written on stdout and stderr. */
  bytes: z.number().int().min(0),
  /** When the command last wrote something; absent if it never did. */
  lastOutputAt: isoDate.optional(),
  /** The command's output so far, with each stream bounded by `maxOutputBytes`. */
  stdout: z.string(),
  stderr: z.string(),
});

export type WorkProgress = output<typeof WorkProgressSchema>;

/** The data that the executor needs beyond the spec's state, under one key. States of other programs lack it. */
export const PrpRunStateSchema = z.object({
  /** The SHA-256 of the PRP's text. A resumed run uses it to report changes. */
  prpDigest: z.string().optional(),
  /** The work that started once this checkpoint was on disk. Absent if the run stopped here. */
  work: WorkSchema.optional(),
  /** Present if the checkpoint was saved while a command ran, or when a command was ended early. */
  progress: WorkProgressSchema.optional(),
  /** The files that the coder said it made, from all its responses. */
  artifacts: z.array(z.string()).optional(),
});

/** The position of a PRP's execution. */
export const CheckpointExecutionStateSchema = z.object({
  /** The PRP's file; empty if the PRP was passed as an object. */
  prpPath: z.string(),
  stage: PrpStageSchema,
  /** The coder's output as text, or its answer as JSON. If it is too long, the middle is cut out. */
  coderResponse: z.string().optional(),
  coderResult: CoderResultSchema.optional(),
  /** The results of the gates that ran on the current response. */
  validationResults: z.array(ValidationGateResultSchema),
  /** How often the coder was asked to fix a failed gate; absent before the first time. */
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
  /** The error that the checkpoint is about, if any. */
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
