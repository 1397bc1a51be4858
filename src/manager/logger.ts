/** What Waymark logs through: the shape of pino's loggers, and of most others. */
export interface Logger {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
}

/** Without a logger, what goes wrong is a process warning, so that nothing is lost in silence; the rest is not said. */
export const warningLogger: Logger = {
  debug() {},
  info() {},
  warn: emitWarning,
  error: emitWarning,
};

function emitWarning(details: object, message: string): void {
  const cause = "error" in details && details.error instanceof Error ? details.error.message : undefined;
  process.emitWarning(cause === undefined ? message : `${message}: ${cause}`, "WaymarkWarning");
}

/** The logger, such that one which throws fails no save: what it throws is a process warning. */
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
