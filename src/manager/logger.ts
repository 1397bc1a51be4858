import { isError } from "../contract/errors.js";

/** Receives Waymark's log. pino's loggers and most others have this shape. */
export interface Logger {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
}

/** The default logger: warnings and errors become process warnings; the other levels are dropped. */
export const warningLogger: Logger = {
  debug() {},
  info() {},
  warn: emitWarning,
  error: emitWarning,
};

function emitWarning(details: object, message: string): void {
  const cause = "error" in details && isError(details.error) ? details.error.message : undefined;
  process.emitWarning(cause === undefined ? message : `${message}: ${cause}`, "WaymarkWarning");
}

/**
 * Wraps a logger so that it never throws, since an error would fail a save. The logger's errors become process
 * warnings.
 */
export function safeLogger(logger: Logger): Logger {
  const at = (level: keyof Logger) => (details: object, message: string) => {
    try {
      logger[level](details, message);
    } catch (error) {
      emitWarning({ error }, `The logger threw at "${message}"`);
    }
  };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}
