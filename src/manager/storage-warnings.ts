import type { StorageAdapter } from "../contract/adapter.js";
import type { Logger } from "./logger.js";

/** Logs what a storage has to say of its own place: once, when it is first used. */
export class StorageWarnings {
  readonly #storage: StorageAdapter;
  readonly #logger: Logger;
  #asked: Promise<void> | undefined;

  constructor(storage: StorageAdapter, logger: Logger) {
    this.#storage = storage;
    this.#logger = logger;
  }

  /** Waits for nothing. */
  ask(): void {
    this.#asked ??= this.#ask();
  }

  /** Resolves once all was logged that was asked for. */
  async told(): Promise<void> {
    await this.#asked;
  }

  async #ask(): Promise<void> {
    const { name } = this.#storage;
    try {
      const warnings = (await this.#storage.warnings?.()) ?? [];
      for (const { path, message } of warnings) this.#logger.warn({ storage: name, path }, message);
    } catch (error) {
      this.#logger.warn({ storage: name, error }, `The storage ${name} could not say whether others can write to it`);
    }
  }
}
