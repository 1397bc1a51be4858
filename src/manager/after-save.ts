import type { CheckpointSummary } from "../contract/checkpoint.js";
import type { Calls } from "./calls.js";
import type { Lease } from "./lease.js";
import { warningLogger } from "./logger.js";
import type { NotificationHub } from "./notifications.js";
import type { ResolvedOptions } from "./options.js";
import type { Retention } from "./retention.js";

/** What follows each stored checkpoint: the event `saved`, and automatic retention. */
export class AfterSave {
  readonly #options: ResolvedOptions;
  readonly #calls: Calls;
  readonly #events: NotificationHub;
  readonly #retention: Retention;

  constructor({
    options,
    calls,
    notifications,
    retention,
  }: {
    readonly options: ResolvedOptions;
    readonly calls: Calls;
    readonly notifications: NotificationHub;
    readonly retention: Retention;
  }) {
    this.#options = options;
    this.#calls = calls;
    this.#events = notifications;
    this.#retention = retention;
  }

  /** Also while the manager is closing, when the last save of an auto-save or a run comes. */
  finish(appended: Promise<CheckpointSummary>, lease: Lease | undefined): Promise<CheckpointSummary> {
    return this.#calls.track(this.#finished(appended), lease);
  }

  async #finished(appended: Promise<CheckpointSummary>): Promise<CheckpointSummary> {
    const saved = await appended;
    const { logger, retention } = this.#options;
    // The default logger drops this level.
    if (logger !== warningLogger) logger.debug({ ...saved }, "Checkpoint saved");
    this.#events.emit("saved", saved);
    if (retention !== undefined) await this.#retention.afterSave(saved, retention);
    return saved;
  }
}
