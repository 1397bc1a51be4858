import { isUtf8 } from "node:buffer";
import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { describeCause, isError, toFileName } from "waymark/kit";
import type { OneshotRunState } from "waymark/oneshot";
import { RunnerError, readDocument } from "../runner-error.js";
import { parseYaml } from "../yaml-text.js";
import {
  type CheckedWorkstream,
  checkPlan,
  invalidPlan,
  type OneshotPlan,
  type PlanForm,
  type WorkstreamFolder,
} from "./plan.js";
import { readWorkstreams } from "./workstream-folder.js";

/** A plan that is ready to run. */
export interface LoadedPlan {
  /** The workstreams in the plan's order. Workstreams of a folder are ordered by id. */
  readonly workstreams: readonly CheckedWorkstream[];
  /** The plan's file, relative to the base folder. Absent if the plan was passed as an object. */
  readonly file?: string;
  /** The folder of the workstreams, if the plan was passed as an object that names one. */
  readonly folder?: WorkstreamFolder | undefined;
}

/** The possible sources of a plan. */
export interface PlanSource {
  readonly featureId: string;
  /** The project's folder, absolute. */
  readonly baseDir: string;
  /** The plan, or the path of its file. Default: `recorded`. */
  readonly plan?: OneshotPlan | WorkstreamFolder | string | undefined;
  /** The plan that the checkpoint names. Default: the feature's file in `.sdp/plans`. */
  readonly recorded?: OneshotRunState | undefined;
}

const EXTENSIONS = [".yaml", ".yml", ".json"];

/**
 * Finds, reads and checks a plan.
 *
 * @throws {RunnerError} `PLAN_UNREADABLE`, or `PLAN_INVALID` with all issues.
 */
export async function loadPlan(source: PlanSource): Promise<LoadedPlan> {
  const { featureId, baseDir, recorded } = source;
  const plan = source.plan ?? recordedPlan(recorded, baseDir) ?? findPlan(source);
  const isFile = typeof plan === "string";
  const form = isFile ? parsePlan(await readText(plan), plan) : checkPlan(plan, "The plan");
  const folder = "command" in form ? form : undefined;
  const workstreams = "command" in form ? await readWorkstreams(featureId, form, baseDir) : form;
  return isFile ? { workstreams, file: relative(baseDir, resolve(plan)) } : { workstreams, folder };
}

/**
 * Whether a folder's command contains neither `$WS` nor `$WS_FILE`. In double quotes, the user's shell replaces both
 * with an empty text.
 */
export function namesNoWorkstream({ workstreams }: LoadedPlan): boolean {
  return workstreams.some(({ file, command }) => file !== undefined && !command.includes("WS"));
}

function recordedPlan(
  { plan, workstreams, command }: OneshotRunState = {},
  baseDir: string,
): WorkstreamFolder | string | undefined {
  if (plan !== undefined) return resolve(baseDir, plan);
  return workstreams === undefined || command === undefined ? undefined : { workstreams, command };
}

/**
 * Reads a plan from YAML, or from JSON if the file's name ends in `.json`.
 *
 * @throws {RunnerError} `PLAN_INVALID`.
 */
export function parsePlan(source: string, path: string): PlanForm {
  if (/\.(?:md|mdx|markdown)$/i.test(path)) {
    throw invalidPlan(`The plan ${path}`, [`it is Markdown, and a plan is YAML or JSON. ${FOLDER_ADVICE}`]);
  }
  let plan: unknown;
  try {
    plan = path.endsWith(".json") ? JSON.parse(source) : parseYaml(source);
  } catch (cause) {
    if (isError(cause) && "code" in cause && cause.code === "MULTIPLE_DOCS") {
      const [position = ""] = / at line \d+, column \d+/.exec(cause.message) ?? [];
      const issue = `it has more than one YAML document${position}; a plan is one document, and Markdown isn't read here. ${FOLDER_ADVICE}`;
      throw invalidPlan(`The plan ${path}`, [issue], cause);
    }
    throw invalidPlan(`The plan ${path}`, [describeCause(cause).replaceAll("\n", " ")], cause);
  }
  return checkPlan(plan, `The plan ${path}`);
}

const FOLDER_ADVICE =
  'If workstreams are described in Markdown files, give their folder as "workstreams" and a "command" (on the command ' +
  "line: --workstreams <folder> --command <template>)";

function findPlan({ featureId, baseDir }: PlanSource): string {
  const stem = join(baseDir, ".sdp", "plans", toFileName(featureId));
  const found = EXTENSIONS.map((extension) => `${stem}${extension}`).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new RunnerError(
    "PLAN_UNREADABLE",
    `No plan was given for feature ${JSON.stringify(featureId)}, and there is no ${stem}${EXTENSIONS.join(", ")}. ` +
      "Nothing was run; make one there, or name the plan's file or the folder of its workstreams.",
  );
}

/** @throws {RunnerError} `PLAN_UNREADABLE`, or `PLAN_INVALID`. */
async function readText(path: string): Promise<string> {
  const bytes = await readDocument("plan", path);
  if (!isUtf8(bytes)) throw invalidPlan(`The plan ${path}`, ["it isn't UTF-8"]);
  return bytes.toString("utf8").replace(/^\ufeff/, "");
}
