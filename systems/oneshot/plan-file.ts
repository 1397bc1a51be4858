import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { parse } from "yaml";
import { reasonOf } from "../../adapters/files/failure.js";
import { nameOf } from "../../adapters/files/names.js";
import { OneshotError } from "./errors.js";
import { type CheckedWorkstream, checkPlan, type OneshotPlan } from "./plan.js";

/** A plan, ready to be run. */
export interface LoadedPlan {
  readonly workstreams: readonly CheckedWorkstream[];
  /** Its file, relative to the base folder; absent if the plan came as an object. */
  readonly file?: string;
}

/** Where a plan may come from. */
export interface PlanSource {
  readonly featureId: string;
  /** The project's folder, absolute. */
  readonly baseDir: string;
  /** The plan, or the path of its file. Default: `recorded`. */
  readonly plan?: OneshotPlan | string | undefined;
  /** The file that the checkpoint names, relative to the base folder. Default: the feature's file in `.sdp/plans`. */
  readonly recorded?: string | undefined;
}

const EXTENSIONS = [".yaml", ".yml", ".json"];

/**
 * Finds, reads and checks a plan.
 *
 * @throws {OneshotError} `PLAN_UNREADABLE`, or `PLAN_INVALID` with everything that is wrong.
 */
export async function loadPlan(source: PlanSource): Promise<LoadedPlan> {
  const { baseDir, plan, recorded } = source;
  if (plan !== undefined && typeof plan !== "string") return { workstreams: checked(plan, "The plan") };
  const path = plan ?? (recorded === undefined ? findPlan(source) : resolve(baseDir, recorded));
  return { workstreams: parsePlan(await readPlan(path), path), file: relative(baseDir, resolve(path)) };
}

/**
 * Reads a plan from YAML, or from JSON if the file's name ends so.
 *
 * @throws {OneshotError} `PLAN_INVALID`.
 */
export function parsePlan(source: string, path: string): readonly CheckedWorkstream[] {
  let plan: unknown;
  try {
    plan = path.endsWith(".json") ? JSON.parse(source) : parse(source, { logLevel: "error" });
  } catch (cause) {
    // Behind an empty line, the YAML library shows the place once more.
    const [what = ""] = reasonOf(cause).split(":\n\n");
    throw invalid(`The plan ${path}`, [what.replaceAll("\n", " ")], cause);
  }
  return checked(plan, `The plan ${path}`);
}

function checked(plan: unknown, what: string): readonly CheckedWorkstream[] {
  const check = checkPlan(plan);
  if ("workstreams" in check) return check.workstreams;
  throw invalid(what, check.issues);
}

function findPlan({ featureId, baseDir }: PlanSource): string {
  const stem = join(baseDir, ".sdp", "plans", nameOf(featureId));
  const found = EXTENSIONS.map((extension) => `${stem}${extension}`).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new OneshotError(
    "PLAN_UNREADABLE",
    `No plan was given for feature ${JSON.stringify(featureId)}, and there is no ${stem}${EXTENSIONS.join(", ")}. ` +
      "Nothing was run; make one there, or name the plan's file.",
  );
}

async function readPlan(path: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
  } catch (cause) {
    const message = `The plan ${path} can't be read: ${reasonOf(cause)}. Nothing was run; mend that, or name another file.`;
    throw new OneshotError("PLAN_UNREADABLE", message, { cause });
  }
}

function invalid(what: string, issues: readonly string[], cause?: unknown): OneshotError {
  const message = `${what} is not valid; nothing was run.\n${issues.map((issue) => `  ${issue}`).join("\n")}`;
  return new OneshotError("PLAN_INVALID", message, { issues, cause });
}
