import { GateSyntaxError } from "./gate-script.js";
import { hazardsIn, placeholderIn, UNFILLED } from "./hazards.js";

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

/** Returns the findings about one gate, in the order of their lines. A skipped gate isn't checked. */
export function findingsIn({ command, skipped, lines }: GateText): GateFinding[] {
  if (command === null || skipped !== undefined) return [];
  const found = (kind: GateFinding["kind"], line: number, message: string): GateFinding => {
    const at = lines[line];
    return at === undefined ? { kind, message } : { kind, line: at, message };
  };
  try {
    return hazardsIn(command).map(({ kind, line, message }) => found(kind, line, message));
  } catch (error) {
    if (!(error instanceof GateSyntaxError)) throw error;
    const text = command.split("\n")[error.line]?.trim() ?? "";
    const placeholder = placeholderIn(text);
    const why = placeholder === undefined ? `it is no valid shell: ${error.message}` : `${placeholder} ${UNFILLED}`;
    return [found("error", error.line, `${why}: ${text}`)];
  }
}
