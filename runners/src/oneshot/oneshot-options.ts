import { resolve } from "node:path";
import { type Logger, UnsupportedOperationError } from "waymark";
import { checkSignal, DEFAULT_MAX_AGE_MS, safeLogger, warningLogger } from "waymark/kit";
import { z } from "zod";
import { callback, checkOptions, milliseconds, nonEmpty } from "../options.js";
import type { OneshotListener } from "./events.js";
import type { OneshotPlan, WorkstreamFolder } from "./plan.js";

export interface OneshotOptions {
  /**
   * The plan, or the path of its file (YAML or JSON). Default: with `resume`, the plan of the previous run; otherwise
   * `<baseDir>/.sdp/plans/<feature>.yaml`, `.yml` or `.json`.
   */
  readonly plan?: OneshotPlan | WorkstreamFolder | string | undefined;
  /** The project's folder. Checkpoints are in its `.sdp/checkpoints`. Default: the current folder. */
  readonly baseDir?: string | undefined;
  /** The folder of the checkpoints. Set it if other programs use the default, `<baseDir>/.sdp/checkpoints`. */
  readonly checkpointDir?: string | undefined;
  /** The folder where the commands run. Default: `baseDir`. */
  readonly cwd?: string | undefined;
  /** How many workstreams may run at a time; 1 or more. Default 1. */
  readonly jobs?: number | undefined;
  /** Continues from the feature's checkpoint: runs the workstreams that it doesn't list as completed. Default false. */
  readonly resume?: boolean | undefined;
  /** Starts from the beginning and ignores the feature's checkpoint. A damaged checkpoint is renamed. Default false. */
  readonly restart?: boolean | undefined;
  /** With `resume`: the maximum age of a checkpoint, in milliseconds since its last update. Default 7 days. */
  readonly maxAgeMs?: number | undefined;
  /** With `resume`: accepts a stale checkpoint. Default false. */
  readonly force?: boolean | undefined;
  /**
   * The id of the agent that works on the feature, saved in the checkpoint. Default: the previous run's, or a random
   * id.
   */
  readonly agentId?: string | undefined;
  /** The time between SIGTERM and SIGKILL for a process group, in milliseconds. Default 5,000. */
  readonly killGraceMs?: number | undefined;
  /** How many of a workstream's last output lines its failure contains; 0 or more. Default 20. */
  readonly tailLines?: number | undefined;
  /** Pauses the run: ends the running commands, saves `paused`, and rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called for each event of the run. If it throws, the error is logged and the run continues. */
  readonly onEvent?: OneshotListener | undefined;
  /** Default: warnings and errors become process warnings. */
  readonly logger?: Logger | undefined;
  /** Returns milliseconds since 1970. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
}

const OptionsSchema = z.strictObject({
  plan: z
    .custom<OneshotPlan | WorkstreamFolder | string>(
      (plan) => (typeof plan === "object" && plan !== null) || (typeof plan === "string" && plan !== ""),
      "must be a plan, or the path of its file",
    )
    .optional(),
  baseDir: nonEmpty.default("."),
  checkpointDir: nonEmpty.optional(),
  cwd: nonEmpty.optional(),
  jobs: z.int().min(1).default(1),
  resume: z.boolean().default(false),
  restart: z.boolean().default(false),
  maxAgeMs: z.union([z.number().min(0), z.literal(Number.POSITIVE_INFINITY)]).default(DEFAULT_MAX_AGE_MS),
  force: z.boolean().default(false),
  agentId: z.string().optional(),
  killGraceMs: milliseconds(0).default(5_000),
  tailLines: z.int().min(0).default(20),
  signal: z.custom<AbortSignal>().optional(),
  onEvent: callback<OneshotListener>().optional(),
  logger: z.custom<Logger>().optional(),
  clock: callback<() => number>().default(() => Date.now),
} satisfies Record<keyof OneshotOptions, z.ZodType>);

/** The options with their defaults. */
export interface Settings extends z.output<typeof OptionsSchema> {
  readonly cwd: string;
  readonly logger: Logger;
}

/**
 * @throws {TypeError} An option is misspelled or out of range; the message names it.
 * @throws {UnsupportedOperationError} On Windows, which has no process groups.
 */
export function resolveOptions(options: OneshotOptions): Settings {
  const checked = checkOptions("OneshotOptions", options, OptionsSchema);
  const { baseDir, cwd = baseDir, force, maxAgeMs, logger = warningLogger } = checked;
  checkSignal("OneshotOptions.signal", checked.signal);
  if (checked.resume && checked.restart) throw new TypeError("OneshotOptions.resume and restart exclude each other.");
  if (process.platform === "win32") {
    throw new UnsupportedOperationError("Workstreams need process groups, which Windows doesn't have.");
  }
  const accepted = force ? Number.POSITIVE_INFINITY : maxAgeMs;
  return { ...checked, baseDir: resolve(baseDir), cwd: resolve(cwd), maxAgeMs: accepted, logger: safeLogger(logger) };
}
