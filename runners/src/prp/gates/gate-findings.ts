import { GateSyntaxError } from "./gate-script.js";
import { hazardsIn, placeholderIn, UNFILLED } from "./hazards.js";

/** Something that a person should know about a gate before it runs. */
export interface GateFinding {
  /** `error`: the gate can't be run. */
  readonly kind: "error" | "warning";
  /** The line of the PRP, from 1; absent if the PRP isn't Markdown. */
  readonly line?: number;
  readonly message: string;
}

/** A gate's command, and why it isn't run. */
interface GateText {
  readonly command: string | null;
  readonly skipped?: string | undefined;
  /** The line of the PRP for each line of the command. */
  readonly lines: readonly number[];
}

/** The findings about one gate, in the order of their lines. A gate that is skipped isn't looked at. */
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
