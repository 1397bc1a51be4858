import { resolve } from "node:path";
import { RunnerError, readDocument } from "../runner-error.js";
import { readCheckBoxes } from "./check-boxes.js";
import { readJsonList } from "./json-lists.js";

import type { Plan } from "./plan.js";

export interface ReadPlanOptions {
  /** The list to read from Taskmaster's file. Default: `master`, or the only list. */
  readonly tag?: string | undefined;
}

/**
 * Reads a plan: Markdown with check boxes, a `prd.json`, or Taskmaster's `tasks.json`.
 *
 * @throws {RunnerError} `PLAN_UNREADABLE`; or `PLAN_INVALID`: the file is none of these. The message says what it is.
 */
export async function readPlan(path: string, options: ReadPlanOptions = {}): Promise<Plan> {
  const bytes = await readDocument("plan", resolve(path));
  return parsePlan(bytes, resolve(path), options);
}

/** Reads a plan from the bytes of its file. @throws {RunnerError} `PLAN_INVALID`. */
export function parsePlan(bytes: Buffer, path: string, { tag }: ReadPlanOptions = {}): Plan {
  const read = /\.json$/i.test(path) ? readJsonList(bytes, tag) : readCheckBoxes(bytes, path);
  if (typeof read !== "string") return { path, ...read };
  throw new RunnerError("PLAN_INVALID", `${path} isn't a plan that Waymark can run: it is ${read}. ${SUPPORTED}`);
}

const SUPPORTED =
  "Supported are Markdown lists with check boxes (spec-kit, Kiro, OpenSpec, Agent OS, BMAD stories, IMPLEMENTATION_PLAN.md), " +
  "prd.json with userStories, and Taskmaster's tasks.json. Nothing was run.";
