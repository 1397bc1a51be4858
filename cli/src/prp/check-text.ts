import stringWidth from "string-width";
import type { GateCheck, PrpCheck } from "waymark-runners/prp";
import { printable } from "../printable.js";
import { counted } from "../words.js";

/** A PRP that was checked. */
export interface CheckedPrp {
  /** The path as the user gave it. */
  readonly path: string;
  /** Absent if the file can't be read as a PRP. */
  readonly check?: PrpCheck;
  /** The reasons why the PRP can't be run; empty if it can. */
  readonly problems: readonly string[];
  /** The error code, if the file can't be read as a PRP. */
  readonly code?: string;
}

/** Totals of checked PRPs. */
export interface CheckTotals {
  readonly prps: number;
  /** How many PRPs can be run. */
  readonly read: number;
  /** How many gates there are. Only PRPs that can be run count, here and in the two numbers below. */
  readonly gates: number;
  readonly skipped: number;
  readonly warnings: number;
  /** How many PRPs can't be run: all others. */
  readonly refused: number;
}

export const NO_PRPS: CheckTotals = { prps: 0, read: 0, gates: 0, skipped: 0, warnings: 0, refused: 0 };

/** Returns the totals with one more PRP. */
export function counting(totals: CheckTotals, { check, problems }: CheckedPrp): CheckTotals {
  const isRefused = problems.length > 0;
  const gates = isRefused ? [] : (check?.gates ?? []);
  return {
    prps: totals.prps + 1,
    read: totals.read + (isRefused ? 0 : 1),
    gates: totals.gates + gates.length,
    skipped: totals.skipped + gates.filter(({ skipped }) => skipped !== undefined).length,
    warnings: totals.warnings + gates.flatMap(warningsIn).length,
    refused: totals.refused + (isRefused ? 1 : 0),
  };
}

/** Describes a PRP: each of its gates, then whether it can be run. */
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
  // Problems of gates are shown below the gates.
  const offer = check?.offer === undefined ? "" : ` ${check.offer}.`;
  if (errors.length === problems.length)
    return paragraph(`It can't be run: ${counted(errors.length, "error")}.${offer}`, "", width);
  return ["It can't be run:", ...problems.flatMap((problem) => paragraph(problem, "  ", width))];
}

/** Describes a PRP in a line. If it can't be run, its problems follow. */
export function briefText(prp: CheckedPrp, width: number): string[] {
  const { path, check, problems } = prp;
  if (problems.length === 0) return paragraph(`${path}: ${gatesText(counting(NO_PRPS, prp))}`, "", width);
  return [
    ...paragraph(`${path}: refused`, "", width),
    ...[...problems, ...(check?.offer === undefined ? [] : [check.offer])].flatMap((problem) =>
      paragraph(problem, "  ", width),
    ),
  ];
}

export function totalsText(totals: CheckTotals, width: number): string[] {
  const { prps, read, refused } = totals;
  return paragraph(`${counted(prps, "PRP")}: ${read} can be run, ${gatesText(totals)}; ${refused} refused.`, "", width);
}

/** `4 gates, 1 skipped, 2 warnings`. */
function gatesText({ gates, skipped, warnings }: CheckTotals): string {
  const parts = [counted(gates, "gate")];
  if (skipped > 0) parts.push(`${skipped} skipped`);
  if (warnings > 0) parts.push(counted(warnings, "warning"));
  return parts.join(", ");
}

function gateText(gate: GateCheck, width: number): string[] {
  const { level, description, line, statements, skipped, findings, left } = gate;
  const at = line === undefined ? "" : ` (line ${line})`;
  const lines = paragraph(`Level ${level}: ${description}${at}`, "", width);
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

/** Shows each statement in full, with the number of its first line. */
function statementsText(statements: GateCheck["statements"], width: number): string[] {
  const numberWidth = statements.reduce((most, { line }) => Math.max(most, String(line ?? "").length), 0);
  const more = " ".repeat(numberWidth === 0 ? 2 : numberWidth + 4);
  return statements.flatMap(({ text, line }) =>
    text.split("\n").flatMap((each, index) => {
      const number = index === 0 && line !== undefined ? `  ${String(line).padStart(numberWidth)}  ` : more;
      return wrapped(printable(each.replaceAll("\t", "  ")), { first: number, more: `${more}  ` }, width);
    }),
  );
}

/** Returns the warnings about a gate for a person who is about to run it. */
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

/** Formats an error, which may list its parts on several lines. */
function paragraph(text: string, indent: string, width: number): string[] {
  const lines = text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");
  return lines.flatMap((line) =>
    wrapped(printable(line.replaceAll("\t", "  ")), { first: indent, more: `${indent}  ` }, width),
  );
}

/** Measures most texts by their length: string-width looks for the graphemes in each one. */
function measureColumns(text: string): number {
  return /^[\x20-\x7e]*$/.test(text) ? text.length : stringWidth(text);
}

/** Breaks the text at blanks into lines of at most `width` columns. A word that is too long is broken too. */
function wrapped(
  text: string,
  { first, more }: { readonly first: string; readonly more: string },
  width: number,
): string[] {
  const lines: string[] = [];
  let line = first;
  let columns = measureColumns(first);
  let isEmpty = true;
  const next = (): void => {
    lines.push(line.trimEnd());
    line = more;
    columns = measureColumns(more);
    isEmpty = true;
  };
  const add = (text: string): void => {
    line += text;
    columns += measureColumns(text);
  };
  for (const [, blanks = "", word = ""] of text.trimEnd().matchAll(/(\s*)(\S+)/g)) {
    // Keeps the text's own indentation, but drops blanks at line breaks.
    if (!isEmpty && columns + measureColumns(blanks + word) > width) next();
    else add(blanks);
    // Most words fit into a line, so their characters needn't be measured.
    const parts = columns + measureColumns(word) <= width ? [word] : word;
    for (const part of parts) {
      if (!isEmpty && columns + measureColumns(part) > width) next();
      add(part);
      isEmpty = false;
    }
  }
  if (!isEmpty) next();
  return lines;
}
