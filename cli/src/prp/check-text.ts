import type { GateCheck, PrpCheck } from "waymark-runners/prp";
import { printable } from "../printable.js";
import { counted } from "../words.js";
import { wrapped } from "./wrapped-text.js";

/** A PRP that was looked at. */
export interface CheckedPrp {
  /** As the user names it. */
  readonly path: string;
  /** Absent if it can't be read as a PRP. */
  readonly check?: PrpCheck;
  /** Why it can't be run; empty if it can. */
  readonly problems: readonly string[];
  /** The code of the error, if it can't be read as a PRP. */
  readonly code?: string;
}

/** PRPs in numbers. */
export interface CheckTotals {
  readonly prps: number;
  /** How many could be read. */
  readonly read: number;
  readonly gates: number;
  readonly skipped: number;
  readonly warnings: number;
  /** How many can't be run, those that can't be read among them. */
  readonly refused: number;
}

export const NO_PRPS: CheckTotals = { prps: 0, read: 0, gates: 0, skipped: 0, warnings: 0, refused: 0 };

/** The numbers of these and one more. */
export function counting(totals: CheckTotals, { check, problems }: CheckedPrp): CheckTotals {
  const gates = check?.gates ?? [];
  return {
    prps: totals.prps + 1,
    read: totals.read + (check === undefined ? 0 : 1),
    gates: totals.gates + gates.length,
    skipped: totals.skipped + gates.filter(({ skipped }) => skipped !== undefined).length,
    warnings: totals.warnings + gates.flatMap(warningsIn).length,
    refused: totals.refused + (problems.length > 0 ? 1 : 0),
  };
}

/** A PRP with each of its gates, and then whether it can be run. */
export function detailedText(prp: CheckedPrp, width: number): string[] {
  const { path, check } = prp;
  if (check === undefined) return briefText(prp, width);
  const { taskId, section, gates } = check;
  const where = section === undefined ? "" : ` under "${section}"`;
  return [
    ...paragraph(`${path}: task ${taskId}, ${counted(gates.length, "gate")}${where}`, "", width),
    "",
    ...gates.flatMap((gate) => [...gateText(gate, width), ""]),
    ...verdictText(prp, width),
  ];
}

function verdictText(prp: CheckedPrp, width: number): string[] {
  const { check, problems } = prp;
  if (problems.length === 0) return paragraph(`It can be run: ${gatesText(counting(NO_PRPS, prp))}.`, "", width);
  const errors = (check?.gates ?? []).flatMap(({ findings }) => findings.filter(({ kind }) => kind === "error"));
  // Those of a gate stand below it.
  if (errors.length === problems.length)
    return paragraph(`It can't be run: ${counted(errors.length, "error")}.`, "", width);
  return ["It can't be run:", ...problems.flatMap((problem) => paragraph(problem, "  ", width))];
}

/** A PRP in a line; one that can't be run with its problems. */
export function briefText(prp: CheckedPrp, width: number): string[] {
  const { path, problems } = prp;
  if (problems.length === 0) return paragraph(`${path}: ${gatesText(counting(NO_PRPS, prp))}`, "", width);
  return [
    ...paragraph(`${path}: refused`, "", width),
    ...problems.flatMap((problem) => paragraph(problem, "  ", width)),
  ];
}

export function totalsText(totals: CheckTotals, width: number): string[] {
  const { prps, read, refused } = totals;
  return paragraph(`${counted(prps, "PRP")}: ${read} read, ${gatesText(totals)}; ${refused} refused.`, "", width);
}

/** `4 gates, 1 skipped, 2 warnings`. */
function gatesText({ gates, skipped, warnings }: CheckTotals): string {
  const parts = [counted(gates, "gate")];
  if (skipped > 0) parts.push(`${skipped} skipped`);
  if (warnings > 0) parts.push(counted(warnings, "warning"));
  return parts.join(", ");
}

function gateText(gate: GateCheck, width: number): string[] {
  const { level, description, shell, line, statements, skipped, findings, left } = gate;
  const place = [...(line === undefined ? [] : [`line ${line}`]), ...(skipped === undefined ? [shell] : [])].join(", ");
  const lines = paragraph(`Level ${level}: ${description}${place === "" ? "" : ` (${place})`}`, "", width);
  if (skipped !== undefined) lines.push(...paragraph(`skipped: ${skipped}`, "  ", width));
  else lines.push(...statementsText(statements, width));
  for (const finding of findings) {
    const at = finding.line === undefined ? "" : `, line ${finding.line}`;
    lines.push(...paragraph(`${finding.kind}${at}: ${finding.message}`, "  ", width));
  }
  for (const block of left) lines.push(...paragraph(leftText(block), "  ", width));
  return lines;
}

function leftText({ line, language, why }: GateCheck["left"][number]): string {
  return `not run, line ${line}: a block ${language === "" ? "without a language" : `of ${language}`} (${why})`;
}

/** Each statement whole, with the line that it begins on. */
function statementsText(statements: GateCheck["statements"], width: number): string[] {
  const numberWidth = Math.max(0, ...statements.map(({ line }) => String(line ?? "").length));
  const more = " ".repeat(numberWidth === 0 ? 2 : numberWidth + 4);
  return statements.flatMap(({ text, line }) =>
    text.split("\n").flatMap((each, index) => {
      const number = index === 0 && line !== undefined ? `  ${String(line).padStart(numberWidth)}  ` : more;
      return wrapped(printable(each.replaceAll("\t", "  ")), { first: number, more: `${more}  ` }, width);
    }),
  );
}

/** The warnings about a gate, for a person who is about to run it. */
export function warningsIn({ level, skipped, findings, left }: GateCheck): GateWarning[] {
  const found = findings.filter(({ kind }) => kind === "warning").map(({ line, message }) => ({ line, text: message }));
  const shells = left
    .filter(({ why }) => skipped === undefined && why === "other shell")
    .map(({ line, language }) => ({ line, text: `a block of ${language} isn't run` }));
  return [...found, ...shells].map(({ line, text }) => ({
    level,
    ...(line === undefined ? undefined : { line }),
    text,
  }));
}

/** A warning about a gate. */
export interface GateWarning {
  readonly level: number;
  /** The line of the PRP, from 1; absent if the PRP is JSON. */
  readonly line?: number;
  readonly text: string;
}

/** An error may list its parts on lines of their own. */
function paragraph(text: string, indent: string, width: number): string[] {
  const lines = text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");
  return lines.flatMap((line) =>
    wrapped(printable(line.replaceAll("\t", "  ")), { first: indent, more: `${indent}  ` }, width),
  );
}
