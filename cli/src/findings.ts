import { CheckpointError, type StorageAdapter } from "waymark";
import type { RepairStep, StorageFinding } from "waymark/adapter";
import { isCorrupt } from "waymark/adapter";
import type { Session } from "./cli.js";
import { TablePrinter } from "./table.js";
import { timeText } from "./words.js";

/** How many checkpoints there are, for a progress bar. If they can't be counted, the command runs without one. */
export async function countAll(storage: StorageAdapter): Promise<number> {
  let count = 0;
  try {
    for await (const task of storage.tasks({ order: "taskId" })) count += isCorrupt(task) ? 0 : task.count;
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
  }
  return count;
}

/** One line per finding. */
export async function printFindings({ output }: Session, findings: readonly StorageFinding[]): Promise<void> {
  const table = new TablePrinter(output, [
    { head: "FOUND" },
    { head: "TASK", flexible: true },
    { head: "SEQ", align: "right" },
    { head: "WHAT", flexible: true },
    { head: "WHERE", flexible: true },
  ]);
  for (const { kind, taskId = "", sequence = "", reason, location } of findings) {
    const color = kind === "damaged" ? output.colors.red : output.colors.yellow;
    await table.add({ text: kind, color }, taskId, String(sequence), reason, location);
  }
  await table.end();
}

/** One line per step: the action on the finding, done or planned, and its place now. */
export async function printSteps({ output }: Session, steps: readonly RepairStep[], isPlan: boolean): Promise<void> {
  const table = new TablePrinter(output, [
    { head: isPlan ? "PLAN" : "DONE" },
    { head: "TASK", flexible: true },
    { head: "SEQ", align: "right" },
    { head: "SAVED" },
    { head: "ID", flexible: true },
    { head: "WHAT WAS WRONG", flexible: true },
    { head: isPlan ? "GOES TO" : "NOW AT", flexible: true },
  ]);
  for (const step of steps) {
    const { taskId = "", sequence = "", id = "", reason } = step.finding;
    const saved = "createdAt" in step.finding ? timeText(step.finding.createdAt ?? "") : "";
    const color = step.action === "left" ? output.colors.yellow : output.colors.green;
    const action = isPlan ? PLANNED[step.action] : step.action;
    await table.add({ text: action, color }, taskId, String(sequence), saved, id, reason, placeOf(step));
  }
  await table.end();
}

const PLANNED = { quarantined: "quarantine", removed: "remove", left: "leave" } as const;

function placeOf(step: RepairStep): string {
  if (step.action === "left") return `${step.finding.location}: ${step.advice}`;
  return step.action === "quarantined" ? step.to : step.finding.location;
}
