import { readdir, readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { describeCause } from "waymark/kit";
import { RunnerError } from "../runner-error.js";
import { assertNoCycle, type CheckedWorkstream, invalidPlan, type WorkstreamFolder } from "./plan.js";
import { parseWorkstreamFile, type UnreadableWorkstreamFile, type WorkstreamFile } from "./workstream-file.js";

const isCompleted = ({ status }: WorkstreamFile): boolean => status === "completed" || status === "done";
/** The statuses of a workstream that isn't done yet. Any other status is an issue that the author must resolve. */
const OPEN = ["", "backlog", "todo", "ready", "pending", "active", "in_progress", "in-progress", "failed"];
const BY_NUMBER = new Intl.Collator("en", { numeric: true });

/**
 * Reads the workstreams of a feature from the front matter of the Markdown files in a folder and its subfolders,
 * ordered by id. It never changes the files.
 *
 * @throws {RunnerError} `PLAN_UNREADABLE`, or `PLAN_INVALID` with all issues.
 */
export async function readWorkstreams(
  featureId: string,
  plan: WorkstreamFolder,
  baseDir: string,
): Promise<readonly CheckedWorkstream[]> {
  const folder = resolve(baseDir, plan.workstreams);
  if (featureId === "") throw invalidPlan(`The plan in ${folder}`, ["name the feature whose workstreams are to run"]);
  const what = `The plan of feature ${JSON.stringify(featureId)} in ${folder}`;
  const { files, unreadable } = await readFiles(folder, baseDir);
  const own = files.filter(({ feature }) => feature === featureId).sort((a, b) => BY_NUMBER.compare(a.id, b.id));
  const known = new Map<string, WorkstreamFile[]>();
  for (const file of files) known.set(file.id, [...(known.get(file.id) ?? []), file]);

  const ids = new Set(own.map(({ id }) => id));
  const open = own.filter((file) => !isCompleted(file));
  const needed = [featureId, ...open.flatMap(({ dependsOn }) => dependsOn)];
  const issues = [
    ...unreadable
      .filter(({ text }) => needed.some((word) => text.includes(word)))
      .map(({ name, reason }) => `${name}: ${reason}`),
    ...(own.length === 0 ? [noneIssue(featureId, files)] : []),
    ...[...ids].flatMap((id) => repeatedIssue(id, known.get(id) ?? [])),
    ...open.filter(({ status }) => !OPEN.includes(status)).map(statusIssue),
    ...open.flatMap((file) =>
      file.dependsOn.filter((id) => !ids.has(id)).flatMap((id) => missingIssue(file, id, known.get(id) ?? [])),
    ),
  ];
  if (issues.length > 0) throw invalidPlan(what, issues);

  const workstreams = own.map((file) => ({
    id: file.id,
    command: plan.command,
    // Dependencies outside the feature are completed: the check above refused all others.
    dependsOn: file.dependsOn.filter((other) => ids.has(other)),
    file: file.path,
    isCompleted: isCompleted(file),
  }));
  assertNoCycle(
    workstreams.filter(({ isCompleted }) => !isCompleted),
    what,
  );
  return workstreams;
}

async function readFiles(folder: string, baseDir: string) {
  const files: WorkstreamFile[] = [];
  const unreadable: UnreadableWorkstreamFile[] = [];
  try {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const paths = entries
      .filter((entry) => entry.isFile() && /\.(?:md|markdown)$/i.test(entry.name))
      .map(({ parentPath, name }) => join(parentPath, name))
      .sort();
    for (const path of paths) {
      // TextDecoder drops a byte order mark.
      const text = new TextDecoder().decode(await readFile(path));
      const file = parseWorkstreamFile(text, { path, name: relative(baseDir, path) });
      if (file !== undefined) "id" in file ? files.push(file) : unreadable.push(file);
    }
  } catch (cause) {
    const message = `The workstreams in ${folder} can't be read: ${describeCause(cause)}. Nothing was run; name another folder.`;
    throw new RunnerError("PLAN_UNREADABLE", message, { cause });
  }
  return { files, unreadable };
}

function noneIssue(featureId: string, files: readonly WorkstreamFile[]): string {
  const features = [...new Set(files.flatMap(({ feature }) => feature ?? []))].sort(BY_NUMBER.compare);
  const others =
    features.length === 0 ? "no file names a feature" : `the files name the features ${features.join(", ")}`;
  return `no file has a ws_id and "feature: ${featureId}" in its front matter; ${others}`;
}

function repeatedIssue(id: string, files: readonly WorkstreamFile[]): string[] {
  if (files.length < 2) return [];
  return [`ws_id ${JSON.stringify(id)} is in ${files.length} files: ${files.map(({ name }) => name).join(", ")}`];
}

function statusIssue({ name, status }: WorkstreamFile): string {
  const open = OPEN.filter((word) => word !== "").join(", ");
  return (
    `${name}: its status ${JSON.stringify(status)} doesn't say whether it is to be run. Write "completed" or "done" if it is done, ` +
    `else one of ${open}`
  );
}

/** Returns the issues of a dependency outside the feature: no file has its id, or it isn't completed. */
function missingIssue({ name, id }: WorkstreamFile, other: string, found: readonly WorkstreamFile[]): string[] {
  const which = `${name}: ${JSON.stringify(id)} depends on ${JSON.stringify(other)}`;
  if (found.length === 0) return [`${which}, which no file has as its ws_id`];
  return found
    .filter((file) => !isCompleted(file))
    .map(({ name, feature, status }) => {
      const whose = feature === undefined ? "names no feature" : `is of feature ${JSON.stringify(feature)}`;
      const state = status === "" ? "has no status" : `has the status ${JSON.stringify(status)}`;
      return `${which}, which is not completed: ${name} ${whose} and ${state}`;
    });
}
