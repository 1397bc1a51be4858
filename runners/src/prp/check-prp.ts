import { checkKeys, checkTaskId, checkText, listKeys } from "waymark/kit";
import type { GateStage } from "waymark/prp";
import { findingsIn, type GateFinding } from "./gates/gate-findings.js";
import { type GateShell, GateSyntaxError, parseStatements } from "./gates/gate-script.js";
import { findProblems, type LoadedGate, readPrp } from "./load-prp.js";
import type { LeftBlock } from "./reading/commands.js";

/** The gates that a PRP would run, and the warnings about them. */
export interface PrpCheck {
  /** The absolute path. */
  readonly path: string;
  readonly taskId: string;
  /** The heading of the section with the gates; absent if the PRP is JSON. */
  readonly section?: string;
  /** In the order in which they run. */
  readonly gates: readonly GateCheck[];
  /** Why the PRP can't be executed: each reason with its line. Empty if it can. */
  readonly problems: readonly string[];
}

/** One gate of a PRP. */
export interface GateCheck {
  readonly level: number;
  readonly description: string;
  /** The stage of the gate's checkpoint. */
  readonly stage: GateStage;
  readonly shell: GateShell;
  /** The line of the heading, from 1; absent if the PRP is JSON. */
  readonly line?: number;
  /** Each statement must succeed. Empty if the gate is no valid shell. */
  readonly statements: readonly { readonly text: string; readonly line?: number }[];
  /** The reason why the gate isn't run. */
  readonly skipped?: string;
  readonly findings: readonly GateFinding[];
  /** The code blocks of the level that aren't run. */
  readonly left: readonly LeftBlock[];
}

export interface CheckPrpOptions {
  /** Like the option `taskId` of `PrpExecutor.execute`. */
  readonly taskId?: string | undefined;
  /** Like the option `section` of `PrpExecutor.execute`. */
  readonly section?: string | undefined;
  /** A PRP without an id is named by its path relative to this folder. Default: the current folder. */
  readonly sessionPath?: string | undefined;
}

/**
 * Describes what executing a PRP would run. Runs nothing and writes nothing.
 *
 * @param path - The PRP's file: Markdown, or a `PrpDocument` as JSON.
 * @throws {PrpError} `PRP_UNREADABLE`; or `PRP_INVALID`: no section holds the gates, several could, or the JSON is no
 *   `PrpDocument`.
 */
export async function checkPrp(path: string, options: CheckPrpOptions = {}): Promise<PrpCheck> {
  checkKeys("CheckPrpOptions", options, listKeys<CheckPrpOptions>({ taskId: true, section: true, sessionPath: true }));
  const { taskId, section, sessionPath = "." } = options;
  checkText("A PRP's path", path, 1);
  checkText("CheckPrpOptions.sessionPath", sessionPath, 1);
  if (taskId !== undefined) checkTaskId(taskId);
  if (section !== undefined) checkText("CheckPrpOptions.section", section, 1);
  const prp = await readPrp(path, { taskId, section, sessionPath });
  return {
    path: prp.path,
    taskId: prp.taskId,
    ...(prp.section === undefined ? undefined : { section: prp.section }),
    gates: prp.gates.map(checkGate),
    problems: findProblems(prp.gates),
  };
}

function checkGate(gate: LoadedGate): GateCheck {
  const { level, description, stage, shell, line, skipped, left } = gate;
  return {
    level,
    description,
    stage,
    shell,
    ...(line === undefined ? undefined : { line }),
    statements: statementsIn(gate),
    ...(skipped === undefined ? undefined : { skipped }),
    findings: findingsIn(gate),
    left,
  };
}

function statementsIn({ command, lines }: LoadedGate): GateCheck["statements"] {
  try {
    return parseStatements(command ?? "").map(({ text, line }) => {
      const at = lines[line];
      return at === undefined ? { text } : { text, line: at };
    });
  } catch (error) {
    if (error instanceof GateSyntaxError) return [];
    throw error;
  }
}
