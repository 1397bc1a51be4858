import type { RecordFinding, RepairStep, StorageFinding } from "../../src/contract/adapter.js";
import type { TaskFolder } from "./task-scan.js";

/** A link in the place of a task's folder. */
export function linkFinding({ path, taskId }: TaskFolder): RecordFinding {
  const known = taskId === undefined ? undefined : { taskId };
  return { kind: "record", location: path, reason: "it is a symbolic link, which is not followed", ...known };
}

/** What stays as it is, and why. */
export function leaveFinding(finding: StorageFinding): RepairStep {
  return { action: "left", finding, advice: ADVICE[finding.kind] };
}

const ADVICE = {
  record: "There are no bytes that could be moved, or nobody can tell whose they are: look at the path.",
  numbering: "Nobody can tell whose numbering it is: restore the file from a backup.",
  leftover: "Its writer may still live; a later repair removes it.",
  stray: "It isn't damaged: move it to where it belongs, or away.",
  refused: "It isn't damaged: run the program that wrote it.",
  database: "Copy the database and its -wal before anything else.",
} as const;
