import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { describeCause, isError, toFileName } from "waymark/kit";
import type { OneshotRunState } from "waymark/oneshot";
import { parseYaml } from "../yaml-text.js";
import { invalidPlan, OneshotError } from "./errors.js";
import { type CheckedWorkstream, checkPlan, type OneshotPlan, type WorkstreamFolder } from "./plan.js";
import { readWorkstreams } from "./workstream-folder.js";

/** A plan that is ready to run. */
export interface LoadedPlan {
  /** In the plan's order. Workstreams of a folder are ordered by id. */
  readonly workstreams: readonly CheckedWorkstream[];
  /** The plan's file, relative to the base folder. Absent if the plan was passed as an object. */
  readonly file?: string;
  /** The folder of the workstreams, if the plan was passed as an object that names one. */
  readonly folder?: WorkstreamFolder;
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
 * @throws {OneshotError} `PLAN_UNREADABLE`, or `PLAN_INVALID` with all issues.
 */
export async function loadPlan(source: PlanSource): Promise<LoadedPlan> {
  const { featureId, baseDir, recorded } = source;
  const plan = source.plan ?? recordedPlan(recorded, baseDir) ?? findPlan(source);
  const isFile = typeof plan === "string";
  const form = isFile ? parsePlan(await readPlan(plan), plan) : checked(plan, "The plan");
  const workstreams = isFolder(form) ? await readWorkstreams(featureId, form, baseDir) : form;
  if (isFile) return { workstreams, file: relative(baseDir, resolve(plan)) };
  return { workstreams, ...(isFolder(form) ? { folder: form } : undefined) };
}

/**
 * Whether a folder's command contains neither `$WS` nor `$WS_FILE`. If it was written in double quotes, the user's
 * shell replaced both by nothing.
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

type PlanForm = readonly CheckedWorkstream[] | WorkstreamFolder;

function isFolder(form: PlanForm): form is WorkstreamFolder {
  return "command" in form;
}

/**
 * Reads a plan from YAML, or from JSON if the file's name ends in `.json`.
 *
 * @throws {OneshotError} `PLAN_INVALID`.
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
  return checked(plan, `The plan ${path}`);
}

const FOLDER_ADVICE =
  'If workstreams are described in Markdown files, give their folder as "workstreams" and a "command" (on the command ' +
  "line: --workstreams <folder> --command <template>)";

function checked(plan: unknown, what: string): PlanForm {
  const check = checkPlan(plan);
  if ("issues" in check) throw invalidPlan(what, check.issues);
  return "folder" in check ? check.folder : check.workstreams;
}

function findPlan({ featureId, baseDir }: PlanSource): string {
  const stem = join(baseDir, ".sdp", "plans", toFileName(featureId));
  const found = EXTENSIONS.map((extension) => `${stem}${extension}`).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new OneshotError(
    "PLAN_UNREADABLE",
    `No plan was given for feature ${JSON.stringify(featureId)}, and there is no ${stem}${EXTENSIONS.join(", ")}. ` +
      "Nothing was run; make one there, or name the plan's file or the folder of its workstreams.",
  );
}

async function readPlan(path: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
  } catch (cause) {
    const message = `The plan ${path} can't be read: ${describeCause(cause)}. Nothing was run; fix that, or name another file.`;
    throw new OneshotError("PLAN_UNREADABLE", message, { cause });
  }
}
