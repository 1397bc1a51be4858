import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "../../src/manager/logger.js";

/** The warnings of one read. */
interface Reading {
  /** By the damaged record's location. */
  readonly warnings: Map<string, readonly [details: object, message: string]>;
  /** Added to the text of each warning. Empty unless the read returns an older checkpoint. */
  consequence: string;
}

/**
 * Logs each damaged record once per read. A manager warns each time it meets the record, and the search for a thread's
 * newest intact checkpoint meets it several times.
 */
export class DamageLog {
  /** The logger for the manager that reads. */
  readonly logger: Logger;
  readonly #logger: Logger;
  readonly #reading = new AsyncLocalStorage<Reading>();

  constructor(logger: Logger) {
    this.#logger = logger;
    this.logger = {
      debug: (details, message) => logger.debug(details, message),
      info: (details, message) => logger.info(details, message),
      warn: (details, message) => this.#warn(details, message),
      error: (details, message) => logger.error(details, message),
    };
  }

  /** Runs `read`, then logs the damage that it met. */
  async once<Result>(read: () => Promise<Result>): Promise<Result> {
    const reading: Reading = { warnings: new Map(), consequence: "" };
    try {
      return await this.#reading.run(reading, read);
    } finally {
      for (const [details, message] of reading.warnings.values()) {
        this.#logger.warn(details, `${message}${reading.consequence}`);
      }
    }
  }

  /** Notes that the current read returns an older checkpoint, because a newer one can't be read. */
  takesOlder(threadId: string, error: Error): void {
    const reading = this.#reading.getStore();
    if (reading === undefined) return;
    const { warnings } = reading;
    reading.consequence = `; thread ${JSON.stringify(threadId)} continues from an older checkpoint`;
    // If the manager reported no damage, the newer checkpoint needs one that was removed. The error says so.
    if (warnings.size === 0) warnings.set("", [{ error }, error.message]);
  }

  #warn(details: object, message: string): void {
    const warnings = this.#reading.getStore()?.warnings;
    const location = "location" in details ? String(details.location) : undefined;
    if (warnings === undefined || location === undefined) this.#logger.warn(details, message);
    else warnings.set(location, [details, message]);
  }
}
