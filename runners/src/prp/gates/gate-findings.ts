import { GateSyntaxError, parseCommand } from "./gate-script.js";
import { canFail, hazardsIn } from "./hazards.js";
import { placeholderIn, UNFILLED } from "./placeholders.js";
import { onlyServes, type PackageScripts } from "./servers.js";

/** A fact about a gate that a person should know before it runs. */
export interface GateFinding {
  /** `error`: the gate can't be run. */
  readonly kind: "error" | "warning";
  /** The line of the PRP, from 1; absent if the PRP isn't Markdown. */
  readonly line?: number;
  readonly message: string;
}

/** A gate's command. A skipped gate has the reason. */
interface GateText {
  readonly command: string | null;
  readonly skipped?: string | undefined;
  /** The line of the PRP for each line of the command. */
  readonly lines: readonly number[];
}

/** Returns why a gate can't show whether the work is done, so that a person has to look; `undefined` if it can. */
export function whyNothingIsChecked(
  { command }: Pick<GateText, "command">,
  scripts: PackageScripts = {},
): string | undefined {
  if (command === null) return undefined;
  try {
    const { commands } = parseCommand(command);
    if (commands.length === 0) return undefined;
    if (!canFail(command)) return "nothing in it can fail: a person checks it";
    return onlyServes(commands, command, scripts) ? "it only starts a server: a person looks at it" : undefined;
  } catch (error) {
    // `findingsIn` reports it.
    if (error instanceof GateSyntaxError) return undefined;
    throw error;
  }
}

/**
 * Returns the findings about one gate, in the order of their lines. A skipped gate isn't checked.
 *
 * @param scripts - Those of the package.json in the folder where the gate runs.
 */
export function findingsIn({ command, skipped, lines }: GateText, scripts: PackageScripts = {}): GateFinding[] {
  if (command === null || skipped !== undefined) return [];
  const found = (kind: GateFinding["kind"], line: number, message: string): GateFinding => {
    const at = lines[line];
    return at === undefined ? { kind, message } : { kind, line: at, message };
  };
  try {
    return hazardsIn(command, scripts).map(({ kind, line, message }) => found(kind, line, message));
  } catch (error) {
    if (!(error instanceof GateSyntaxError)) throw error;
    const text = command.split("\n")[error.line]?.trim() ?? "";
    const placeholder = placeholderIn(text);
    const why = placeholder === undefined ? `it is no valid shell: ${error.message}` : `${placeholder} ${UNFILLED}`;
    return [found("error", error.line, `${why}: ${text}`)];
  }
}
