import type { Logger } from "waymark";

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly details: object;
}

/** Returns a logger that records its lines. */
export function recordingLogger(): Logger & { readonly lines: readonly LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: keyof Logger) => (details: object, message: string) => {
    lines.push({ level, message, details });
  };
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
