import { isRecord } from "waymark/kit";
import { z } from "zod";
import { RunnerError } from "../runner-error.js";

/** A piece of a feature's work. */
export interface Workstream {
  /** Unique in the plan. */
  readonly id: string;
  /** A command line for `sh`. It ends at the first command that fails. */
  readonly command: string;
  /** The ids of the workstreams that must be completed before this one starts. Default: none. */
  readonly dependsOn?: readonly string[] | undefined;
}

/** The workstreams of a feature's run. A plan file may write `depends_on` instead of `dependsOn`. */
export interface OneshotPlan {
  readonly workstreams: readonly Workstream[];
}

/**
 * A plan whose workstreams are Markdown files: those in the folder and its subfolders whose front matter has a `ws_id`
 * and the run's `feature`. `depends_on` lists a file's dependencies. `status: completed` (or `done`) marks a file as
 * done.
 */
export interface WorkstreamFolder {
  /** The folder, relative to the base folder. */
  readonly workstreams: string;
  /**
   * The command line of each workstream, for `sh`. `$WS` is the workstream's id, `$WS_FILE` its file's absolute path.
   */
  readonly command: string;
}

/** A workstream of a checked plan. */
export interface CheckedWorkstream extends Workstream {
  readonly dependsOn: readonly string[];
  /** The absolute path of the Markdown file that describes the workstream, if there is one. */
  readonly file?: string;
  /** True if the file marks the workstream as done, so it isn't run. */
  readonly isCompleted?: boolean;
}

/** A checked plan: its workstreams, or the folder that holds them. */
export type PlanForm = readonly CheckedWorkstream[] | WorkstreamFolder;

/** Checks a plan: first its form, then the dependencies. @throws {RunnerError} `PLAN_INVALID`, with all issues. */
export function checkPlan(plan: unknown, what: string): PlanForm {
  const isFolder = isRecord(plan) && typeof plan["workstreams"] === "string";
  if (isFolder && plan["command"] === undefined)
    throw invalidPlan(what, ["workstreams: must be a list of workstreams, or a folder together with a command"]);
  const { data, error } = isFolder ? folderSchema.safeParse(plan) : planSchema.safeParse(plan);
  if (data === undefined)
    throw invalidPlan(
      what,
      error.issues.map(({ path, message }) => `${nameOfPart(path)}: ${message}`),
    );
  if ("command" in data) return data;
  const { workstreams } = data;
  const issues = [...repeatedIds(workstreams), ...unknownIds(workstreams)];
  if (issues.length > 0) throw invalidPlan(what, issues);
  assertNoCycle(workstreams, what);
  return workstreams;
}

/** Makes a `PLAN_INVALID` error with each issue on a line of the message. */
export function invalidPlan(what: string, issues: readonly string[], cause?: unknown): RunnerError {
  const message = `${what} is not valid; nothing was run.\n${issues.map((issue) => `  ${issue}`).join("\n")}`;
  return new RunnerError("PLAN_INVALID", message, { issues, ...(cause === undefined ? undefined : { cause }) });
}

const text = z.string({
  error: ({ input }) => (input === undefined ? "is missing" : "must be text; put a number or true in quotes"),
});

const id = text.refine(isId, "must be one line of text, and not empty");

const ids = z.array(id, "must be a list of ids").default([]);

const command = text
  .refine((command) => command.trim() !== "", "must not be empty")
  .refine((command) => !command.includes("\0"), "must not hold a NUL character: no command line can");

const folderSchema = z.strictObject({
  workstreams: text.refine((folder) => folder.trim() !== "", "must not be empty"),
  command,
});

const workstream = z
  .strictObject({
    id,
    command,
    dependsOn: ids,
    depends_on: ids,
  })
  .transform(({ depends_on, dependsOn, ...rest }) => ({ ...rest, dependsOn: [...dependsOn, ...depends_on] }));

const planSchema = z.strictObject({
  workstreams: z
    .array(workstream, { error: ({ input }) => (input === undefined ? "is missing" : "must be a list of workstreams") })
    .min(1, "must not be empty: there is nothing to do"),
});

/** Whether a text can be the id of a workstream. */
export function isId(text: string): boolean {
  return text.trim() !== "" && !/\p{Cc}/u.test(text);
}

function repeatedIds(workstreams: readonly CheckedWorkstream[]): string[] {
  const firsts = new Map<string, number>();
  return workstreams.flatMap(({ id }, index) => {
    const first = firsts.get(id);
    if (first === undefined) firsts.set(id, index);
    if (first === undefined) return [];
    return [`workstreams[${index}].id: ${JSON.stringify(id)} is the id of workstreams[${first}] already`];
  });
}

function unknownIds(workstreams: readonly CheckedWorkstream[]): string[] {
  const known = new Set(workstreams.map(({ id }) => id));
  return workstreams.flatMap(({ id, dependsOn }, index) =>
    dependsOn
      .filter((other) => !known.has(other))
      .map((other) => {
        const which = `workstreams[${index}].depends_on: ${JSON.stringify(id)} depends on ${JSON.stringify(other)}`;
        return `${which}, which the plan doesn't have`;
      }),
  );
}

/** @throws {RunnerError} `PLAN_INVALID`: workstreams wait for each other. */
export function assertNoCycle(workstreams: readonly CheckedWorkstream[], what: string): void {
  const left = new Map(workstreams.map((workstream) => [workstream.id, workstream]));
  const dependents = new Map<string, string[]>(workstreams.map(({ id }) => [id, []]));
  for (const { id, dependsOn } of workstreams) for (const other of dependsOn) dependents.get(other)?.push(id);
  // Removes the workstreams whose dependencies are all removed. Only cycles and their dependents remain.
  const waits = new Map(
    workstreams.map(({ id, dependsOn }) => [id, dependsOn.filter((other) => left.has(other)).length]),
  );
  const free = workstreams.map(({ id }) => id).filter((id) => waits.get(id) === 0);
  for (let id = free.pop(); id !== undefined; id = free.pop()) {
    left.delete(id);
    for (const dependent of dependents.get(id) ?? []) {
      const others = (waits.get(dependent) ?? 0) - 1;
      waits.set(dependent, others);
      if (others === 0) free.push(dependent);
    }
  }
  const path = new Set<string>();
  let [next] = left.keys();
  while (next !== undefined && !path.has(next)) {
    path.add(next);
    next = left.get(next)?.dependsOn.find((id) => left.has(id));
  }
  if (next === undefined) return;
  const ids = [...path];
  const cycle = [...ids.slice(ids.indexOf(next)), next].map((id) => JSON.stringify(id));
  throw invalidPlan(what, [`workstreams wait for each other: ${cycle.join(" depends on ")}`]);
}

/** Returns a name such as `workstreams[2].command`, or `the plan` for the whole plan. */
function nameOfPart(path: readonly PropertyKey[]): string {
  const name = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  return name.slice(1) || "the plan";
}
