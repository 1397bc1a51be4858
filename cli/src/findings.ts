import type { RepairResult, VerifyResult } from "waymark";
import type { Session } from "./cli.js";
import { printTable } from "./table.js";
import { timeText } from "./words.js";

export type RepairStep = RepairResult["steps"][number];

/** Prints a table with one line per finding. */
export function printFindings({ output }: Session, findings: VerifyResult["findings"]): Promise<void> {
  const { red, yellow } = output.colors;
  return printTable(output, findings, [
    { head: "FOUND", cell: ({ kind }) => ({ text: kind, color: kind === "damaged" ? red : yellow }) },
    { head: "TASK", flexible: true, cell: ({ taskId = "" }) => taskId },
    { head: "SEQ", align: "right", cell: ({ sequence = "" }) => String(sequence) },
    { head: "WHAT", flexible: true, cell: ({ reason }) => reason },
    { head: "WHERE", flexible: true, cell: ({ location }) => location },
  ]);
}

/**
 * Prints a table with one line per step: the action (done or planned), the finding, and the place where the record is
 * now.
 */
export function printSteps({ output }: Session, steps: readonly RepairStep[], isPlan: boolean): Promise<void> {
  const { yellow, green } = output.colors;
  const actionCell = ({ action }: RepairStep) => {
    return { text: isPlan ? PLANNED[action] : action, color: action === "left" ? yellow : green };
  };
  const savedText = ({ finding }: RepairStep) => timeText("createdAt" in finding ? (finding.createdAt ?? "") : "");
  return printTable(output, steps, [
    { head: isPlan ? "PLAN" : "DONE", cell: actionCell },
    { head: "TASK", flexible: true, cell: ({ finding }) => finding.taskId ?? "" },
    { head: "SEQ", align: "right", cell: ({ finding }) => String(finding.sequence ?? "") },
    { head: "SAVED", cell: savedText },
    { head: "ID", flexible: true, cell: ({ finding }) => finding.id ?? "" },
    { head: "WHAT WAS WRONG", flexible: true, cell: ({ finding }) => finding.reason },
    { head: isPlan ? "GOES TO" : "NOW AT", flexible: true, cell: formatLocation },
  ]);
}

const PLANNED = { quarantined: "quarantine", removed: "remove", left: "leave" } as const;

function formatLocation(step: RepairStep): string {
  if (step.action === "left") return `${step.finding.location}: ${step.advice}`;
  return step.action === "quarantined" ? step.to : step.finding.location;
}
