import type { CommandLine } from "../../processes/command.js";
import { gateScript } from "./gate-script.js";
import { readScripts } from "./servers.js";

/** A gate's command, and where its lines come from. */
export interface GateCommand {
  readonly command: string;
  /** For each line of the command, its line in the text that it comes from, from 1. May be empty. */
  readonly lines: readonly number[];
}

/**
 * Returns the command line for `runCommand` that runs a gate. The gate fails where a reader would see a failure (see
 * `gateScript`), and the failure names the statement.
 *
 * @throws {GateSyntaxError} The command isn't valid shell.
 */
export async function gateLine({ command, lines }: GateCommand, cwd: string): Promise<CommandLine> {
  const { script, statements } = gateScript(command, await readScripts(cwd));
  return {
    shell: "bash",
    command: script,
    strict: true,
    cwd,
    nameStatement: (index) => {
      const statement = statements[index];
      if (statement === undefined) return undefined;
      const at = lines[statement.line];
      return `${at === undefined ? "" : `line ${at}: `}${statement.text}`;
    },
  };
}
