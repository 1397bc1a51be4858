import type { SyntaxNode } from "unbash";
import type { GateCommand } from "./gate-line.js";
import { GateSyntaxError, listStatements, makeLineLookup, parseCommand } from "./gate-script.js";
import { type Gate, reportHazards, walk } from "./hazards.js";
import { Outcomes } from "./outcomes.js";
import { findPlaceholders, placeholderIn, UNFILLED } from "./placeholders.js";
import { onlyServes, type PackageScripts } from "./servers.js";

/** A fact about a gate that a person should know before it runs. */
export interface GateFinding {
  /** `error`: the gate can't be run. */
  readonly kind: "error" | "warning";
  /** The line of the PRP, from 1; absent if the PRP isn't Markdown. */
  readonly line?: number;
  readonly message: string;
}

/** What is known about a gate's command before it is run. */
export interface GateInspection {
  /** The statements, each of which must succeed. Empty if the command isn't valid shell. */
  readonly statements: readonly { readonly text: string; readonly line?: number }[];
  /** Errors and warnings, in the order of their lines. */
  readonly findings: readonly GateFinding[];
  /** Why the gate can't show whether the work is done, so that a person has to check it. */
  readonly whyByHand?: string | undefined;
}

/**
 * Inspects a gate's command before it is run.
 *
 * @param scripts - The scripts of the package.json in the folder where the gate runs.
 */
export function inspectGate({ command, lines }: GateCommand, scripts: PackageScripts = {}): GateInspection {
  const place = <Fact extends object>(line: number, fact: Fact): Fact & { readonly line?: number } => {
    const at = lines[line];
    return at === undefined ? fact : { ...fact, line: at };
  };
  try {
    const gate = readGate(command, scripts);
    const { commands } = gate.parsed;
    const lineAt = makeLineLookup(command);
    const facts = new Map<
      string,
      { readonly line: number; readonly kind: GateFinding["kind"]; readonly message: string }
    >();
    const report = (kind: GateFinding["kind"], at: number, message: string): void => {
      const line = lineAt(at);
      facts.set(`${line} ${message}`, { line, kind, message });
    };
    for (const { at, text } of findPlaceholders(command, gate.nodes)) report("error", at, `${text} ${UNFILLED}`);
    const canFail = commands.some((each) => gate.outcomes.canFail(each));
    if (canFail) reportHazards(gate, ({ pos }, message) => report("warning", pos, message));
    const findings = [...facts.values()].sort((a, b) => a.line - b.line);
    return {
      statements: listStatements(command, commands).map(({ line, text }) => place(line, { text })),
      findings: findings.map(({ line, ...fact }) => place(line, fact)),
      whyByHand: commands.length === 0 ? undefined : whyByHand(gate, canFail),
    };
  } catch (error) {
    if (!(error instanceof GateSyntaxError)) throw error;
    const text = command.split("\n")[error.line]?.trim() ?? "";
    const placeholder = placeholderIn(text);
    const why = placeholder === undefined ? `it isn't valid shell: ${error.message}` : `${placeholder} ${UNFILLED}`;
    return { statements: [], findings: [place(error.line, { kind: "error", message: `${why}: ${text}` })] };
  }
}

function whyByHand({ command, parsed, scripts }: Gate, canFail: boolean): string | undefined {
  if (!canFail) return "nothing in it can fail: a person checks it";
  return onlyServes(parsed.commands, command, scripts) ? "it only starts a server: a person looks at it" : undefined;
}

/** @throws {GateSyntaxError} The command isn't valid shell. */
function readGate(command: string, scripts: PackageScripts): Gate {
  const parsed = parseCommand(command);
  const nodes: SyntaxNode[] = [];
  walk(parsed, (node) => nodes.push(node));
  return { command, parsed, nodes, scripts, outcomes: new Outcomes(command, nodes) };
}
