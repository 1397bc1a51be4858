import { hash, randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type Changed, Watchers } from "../sql/watchers.js";
import type { PostgresConnection } from "./connection.js";

/**
 * A process sends at most one statement with notifications in this time, because such statements can only commit one
 * after another.
 */
const SEND_EVERY_MS = 20;
/** The adapter listens once a watch has lasted this long, so that short programs need no second connection. */
const LISTEN_AFTER_MS = 250;
/** The adapter listens for this long after the last watch has ended, since another run often begins soon. */
const LINGER_MS = 10_000;
/** The first and the longest pause after a failure. Each pause is twice as long as the previous one. */
const [FIRST_PAUSE_MS, MAX_PAUSE_MS] = [LISTEN_AFTER_MS, 60_000];
/**
 * If the adapter doesn't hear its own notification for this long, there must be a pooler in transaction mode in
 * between.
 */
const DEAF_AFTER_MS = 10_000;
/** The server takes payloads of less than 8,000 bytes. A digest and its space take 17. */
const MAX_DIGESTS = 400;

/** Changes whose notification hasn't been sent. */
interface Pending {
  readonly digests: Set<string>;
  mayBeDue: boolean;
}

/**
 * Notifies other processes of this process's changes (`NOTIFY`), and watchers of other processes' changes (`LISTEN`, on
 * a separate connection). A notification contains digests of task ids, since every user of the database can read it.
 */
export class PostgresChanges {
  readonly #connection: PostgresConnection;
  readonly #channel: string;
  /** The name of this instance in its notifications. */
  readonly #sender = randomUUID();
  /** The watchers, by the digest of a task's id. */
  readonly #watchers = new Watchers();
  #pending: Pending | undefined;
  #isSending = false;
  #listenTimer: NodeJS.Timeout | undefined;
  #lingerTimer: NodeJS.Timeout | undefined;
  #listening: Promise<void> | undefined;
  #stopListening: (() => void) | undefined;
  #failures = 0;
  /** Whether the adapter has heard its own notification since it began to listen. */
  #isHeard = false;
  /** Whether the adapter can't listen through this pool. */
  #isDeaf = false;

  constructor(connection: PostgresConnection, schema: string) {
    this.#connection = connection;
    this.#channel = `waymark_${digest(schema)}`;
  }

  /** See `TaskLog.watch`. */
  watch(changed: Changed, taskId: string | undefined): () => void {
    const remove = this.#watchers.add(changed, taskId === undefined ? undefined : digest(taskId));
    if (this.#isHeard) changed();
    if (this.#stopListening === undefined) this.#listenIn(LISTEN_AFTER_MS);
    return () => {
      remove();
      if (this.#watchers.isEmpty) this.#lingerTimer ??= setTimeout(() => this.#stopIfUnused(), LINGER_MS).unref();
    };
  }

  /**
   * Call this once a change of the task is stored.
   *
   * @param mayBeDue - Whether a worker may run the task now.
   */
  note(taskId: string, mayBeDue: boolean): void {
    const key = digest(taskId);
    this.#watchers.tell(key, true);
    if (mayBeDue) this.#watchers.tell(undefined, true);
    this.#pending ??= { digests: new Set(), mayBeDue: false };
    this.#pending.digests.add(key);
    this.#pending.mayBeDue ||= mayBeDue;
    if (!this.#isSending) void this.#sendAll();
  }

  /** Sends pending notifications, and ends all watches. */
  async close(): Promise<void> {
    this.#watchers.clear();
    clearTimeout(this.#lingerTimer);
    this.#isDeaf = true;
    this.#stop();
    await this.#listening;
    await this.#sendPending();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    while (this.#pending !== undefined) {
      await this.#sendPending();
      await pause(SEND_EVERY_MS, undefined, { ref: false });
    }
    this.#isSending = false;
  }

  async #sendPending(): Promise<void> {
    if (this.#pending === undefined) return;
    const { digests, mayBeDue } = this.#pending;
    this.#pending = undefined;
    const keys = [...digests];
    const payloads: string[] = [];
    for (let at = 0; at < keys.length; at += MAX_DIGESTS) {
      payloads.push([this.#sender, mayBeDue ? DUE : NOT_DUE, ...keys.slice(at, at + MAX_DIGESTS)].join(" "));
    }
    // Failures are ignored, because the change is stored, and watchers without a notification find it by polling.
    await this.#connection.notify(this.#channel, payloads).catch(() => undefined);
  }

  #listenIn(ms: number): void {
    if (this.#isDeaf || this.#listening !== undefined || this.#watchers.isEmpty) return;
    this.#listenTimer ??= setTimeout(() => {
      this.#listenTimer = undefined;
      if (this.#watchers.isEmpty) return;
      this.#listening = this.#listen().finally(() => {
        this.#listening = undefined;
        if (this.#stopListening === undefined)
          this.#listenIn(Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, MAX_PAUSE_MS));
      });
    }, ms).unref();
  }

  async #listen(): Promise<void> {
    try {
      this.#stopListening = await this.#connection.listen(this.#channel, {
        heard: (payload) => this.#hear(payload),
        broke: () => {
          this.#stop();
          this.#listenIn(FIRST_PAUSE_MS);
        },
      });
      this.#isDeaf = this.#stopListening === undefined;
      if (!this.#isDeaf) await this.#connection.notify(this.#channel, [`${this.#sender} ${NOT_DUE}`]);
      this.#failures = 0;
    } catch {
      this.#failures += 1;
      this.#stop();
    }
    if (this.#watchers.isEmpty) this.#stop();
    if (this.#stopListening === undefined || this.#isHeard) return;
    this.#listenTimer = setTimeout(() => {
      this.#isDeaf = true;
      this.#stop();
    }, DEAF_AFTER_MS).unref();
  }

  #hear(payload: string): void {
    const [sender, due, ...digests] = payload.split(" ");
    if (sender !== this.#sender) {
      for (const key of digests) this.#watchers.tell(key, false);
      if (due === DUE) this.#watchers.tell(undefined, false);
    } else if (!this.#isHeard) {
      this.#isHeard = true;
      clearTimeout(this.#listenTimer);
      this.#listenTimer = undefined;
      // Changes may have been missed until now.
      this.#watchers.tellAll(false);
    }
  }

  #stopIfUnused(): void {
    this.#lingerTimer = undefined;
    if (this.#watchers.isEmpty) this.#stop();
  }

  #stop(): void {
    clearTimeout(this.#listenTimer);
    this.#listenTimer = undefined;
    this.#stopListening?.();
    this.#stopListening = undefined;
    this.#isHeard = false;
  }
}

const [DUE, NOT_DUE] = ["due", "-"];

function digest(text: string): string {
  return hash("sha256", text, "hex").slice(0, 16);
}
