import { checkKeys, checkTaskId, checkText, listKeys } from "waymark/kit";
import type { GateStage } from "waymark/prp";
import { findingsIn, type GateFinding } from "./gates/gate-findings.js";
import { GateSyntaxError, parseStatements } from "./gates/gate-script.js";
import { type PackageScripts, readScripts } from "./gates/servers.js";
import { findProblems, type LoadedGate, offerToSkip, type PrpReading, readPrp } from "./load-prp.js";
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
  /** If only some gates can't be run: how to run the others. */
  readonly offer?: string;
}

/** One gate of a PRP. */
export interface GateCheck {
  readonly level: number;
  readonly description: string;
  /** The stage of the gate's checkpoint. */
  readonly stage: GateStage;
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

export interface CheckPrpOptions extends PrpReading {
  /** A PRP without an id is named by its path relative to this folder. Default: the current folder. */
  readonly sessionPath?: string | undefined;
  /** The folder where the gates run. Its package.json tells which scripts are servers. Default: the current folder. */
  readonly cwd?: string | undefined;
}

const OPTION_KEYS = listKeys<CheckPrpOptions>({
  taskId: true,
  section: true,
  sessionPath: true,
  cwd: true,
  skip: true,
  only: true,
});

/**
 * Describes what executing a PRP would run. Runs nothing and writes nothing.
 *
 * @param path - The PRP's file: Markdown, or a `PrpDocument` as JSON.
 * @throws {PrpError} `PRP_UNREADABLE`; or `PRP_INVALID`: no section holds the gates, several could, or the JSON is no
 *   `PrpDocument`.
 */
export async function checkPrp(path: string, options: CheckPrpOptions = {}): Promise<PrpCheck> {
  checkKeys("CheckPrpOptions", options, OPTION_KEYS);
  const { taskId, section, sessionPath = ".", cwd = ".", skip, only } = options;
  checkText("A PRP's path", path, 1);
  checkText("CheckPrpOptions.sessionPath", sessionPath, 1);
  if (taskId !== undefined) checkTaskId(taskId);
  if (section !== undefined) checkText("CheckPrpOptions.section", section, 1);
  const prp = await readPrp(path, { taskId, section, sessionPath, cwd, skip, only });
  const scripts = await readScripts(cwd);
  const offer = offerToSkip(prp.gates);
  return {
    path: prp.path,
    taskId: prp.taskId,
    ...(prp.section === undefined ? undefined : { section: prp.section }),
    gates: prp.gates.map((gate) => checkGate(gate, scripts)),
    problems: findProblems(prp.gates),
    ...(offer === undefined ? undefined : { offer }),
  };
}

function checkGate(gate: LoadedGate, scripts: PackageScripts): GateCheck {
  const { level, description, stage, line, skipped, left } = gate;
  return {
    level,
    description,
    stage,
    ...(line === undefined ? undefined : { line }),
    statements: statementsIn(gate),
    ...(skipped === undefined ? undefined : { skipped }),
    findings: findingsIn(gate, scripts),
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
