import { resolve } from "node:path";
import type { Logger } from "waymark";
import { safeLogger, warningLogger } from "waymark/kit";
import type { CheckpointConfig, PrpCheckpointManager } from "waymark/prp";
import { z } from "zod";
import { checkOptions, milliseconds, nonEmpty } from "../options.js";
import type { Coder } from "./coder.js";
import { type PrpReading, READING } from "./load-prp.js";
import type { PrpOutput } from "./output.js";

export interface PrpExecutorOptions {
  /** Does the work: a function, or a shell command such as a coding agent's. See {@link Coder}. */
  readonly coder: Coder;
  /** How many times the coder may try to fix failed gates in each round. Default 2. */
  readonly maxFixAttempts?: number | undefined;
  /** How long a gate may take, in milliseconds. Default 1,800,000: 30 minutes. */
  readonly gateTimeoutMs?: number | undefined;
  /** How long the coder may take, in milliseconds. Default: no limit. */
  readonly coderTimeoutMs?: number | undefined;
  /** The time between SIGTERM and SIGKILL for a process group, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** How many bytes are kept of each gate's stdout, of its stderr, and of a response. Default 65,536. */
  readonly maxOutputBytes?: number | undefined;
  /**
   * While a command runs, its new output is saved at this interval, in milliseconds. After a kill, the newest
   * checkpoint shows how far the command got. Default 30,000; 0 or Infinity: never. A coder that is a function has no
   * output to save.
   */
  readonly autoSaveIntervalMs?: number | undefined;
  /** The folder where the coder and the gates run. Default: the session's folder. */
  readonly cwd?: string | undefined;
  /** Settings that override the defaults of {@link CheckpointConfig}, or a manager, which `close` leaves open. */
  readonly checkpoints?: Partial<CheckpointConfig> | PrpCheckpointManager | undefined;
  /** Shows the output of the coder and the gates while they run. Default: this process's stdout and stderr. */
  readonly output?: PrpOutput | undefined;
  /**
   * The details of some entries have a `type`: `resumed`, `gateRunsAgain`, `stepStarted`, `stepEnded`. Default:
   * warnings and errors become process warnings.
   */
  readonly logger?: Logger | undefined;
}

export interface ExecuteOptions extends PrpReading {
  /**
   * Pauses the execution: ends the running command, and `execute` rejects with the signal's reason. Execute again to
   * resume.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Ignores the checkpoints and starts from the beginning. A checkpoint file too damaged to be written is renamed.
   * Default false.
   */
  readonly restart?: boolean | undefined;
  /** True: a checkpoint must exist. False: no unfinished work may exist. Default: resumes if there is a checkpoint. */
  readonly resume?: boolean | undefined;
}

const CoderSchema = z.custom<Coder>(
  (coder) => typeof coder === "function" || (typeof coder === "string" && coder.trim() !== "" && !coder.includes("\0")),
  "must be a function, or a shell command without NUL characters",
);

const OptionsSchema = z.strictObject({
  coder: CoderSchema,
  maxFixAttempts: z.int().min(0).default(2),
  gateTimeoutMs: milliseconds(1).default(30 * 60_000),
  coderTimeoutMs: milliseconds(1).optional(),
  killGraceMs: milliseconds(0).default(5_000),
  maxOutputBytes: z
    .int()
    .min(0)
    .default(64 * 1024),
  autoSaveIntervalMs: z.preprocess(
    (interval) => (interval === Number.POSITIVE_INFINITY ? 0 : interval),
    milliseconds(0).default(30_000),
  ),
  cwd: nonEmpty.optional(),
  checkpoints: z.custom<PrpExecutorOptions["checkpoints"]>().optional(),
  output: z.custom<PrpOutput>().optional(),
  logger: z.custom<Logger>().optional(),
} satisfies Record<keyof PrpExecutorOptions, z.ZodType>);

export const ExecuteSchema = z.strictObject({
  signal: z.custom<AbortSignal>().optional(),
  restart: z.boolean().default(false),
  resume: z.boolean().optional(),
  ...READING,
} satisfies Record<keyof ExecuteOptions, z.ZodType>);

/** The executor's options with their defaults. */
export interface RunSettings extends z.output<typeof OptionsSchema> {
  readonly sessionPath: string;
  readonly cwd: string;
  readonly logger: Logger;
}

/** @throws {TypeError} An option is missing, misspelled or out of range; the message names it. */
export function resolveOptions(sessionPath: string, options: PrpExecutorOptions): RunSettings {
  const checked = checkOptions("PrpExecutorOptions", options, OptionsSchema);
  const cwd = resolve(checked.cwd ?? sessionPath);
  return { ...checked, sessionPath, cwd, logger: safeLogger(checked.logger ?? warningLogger) };
}
