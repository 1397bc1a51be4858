import { getTaskId } from "../sql/adapter.js";
import { sizeOfRecords } from "../sql/records.js";
import { listRecords } from "./append-parameters.js";
import { isRepeatable, type PostgresAppender, type PreparedAppend } from "./appender.js";

interface Waiting {
  readonly append: PreparedAppend;
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * How long an append waits for the running statement, in milliseconds. A slower statement is probably waiting for
 * another process.
 */
const PATIENCE_MS = 50;
/** How many statements may run at once. */
const MAX_STATEMENTS = 4;
const MAX_ROWS = 128;
/** The limit for a batch's payloads together. A larger payload has its own batch. */
const MAX_BYTES = 1024 * 1024;

/**
 * Combines appends into one statement with one commit. If no statement is running, an append is sent immediately.
 * Appends that come while a statement is running form the next batch, which is sent once the statement has finished or
 * the batch is full.
 */
export class GroupCommit {
  readonly #appender: PostgresAppender;
  #waiting: Waiting[] = [];
  #underWay = 0;
  /** The newest statement, while the next one waits for it. */
  #newest: object | undefined;
  /** The timer that runs while appends wait for the newest statement. */
  #patience: NodeJS.Timeout | undefined;

  constructor(appender: PostgresAppender) {
    this.#appender = appender;
  }

  /** Appends to a task must not overlap: await each call before the next one for the same task. */
  enqueue(append: PreparedAppend): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ append, resolve, reject });
      // All saves called before the next microtask form one batch.
      queueMicrotask(() => this.#start());
    });
  }

  #start(): void {
    while (this.#underWay < MAX_STATEMENTS && this.#waiting.length > 0) {
      const end = this.#findBatchEnd();
      const newest = this.#newest;
      // Wait only if the batch isn't full.
      if (newest !== undefined && end === this.#waiting.length) {
        this.#patience ??= setTimeout(() => this.#startAfter(newest), PATIENCE_MS);
        return;
      }
      this.#send(this.#waiting.splice(0, end));
    }
  }

  #send(batch: readonly Waiting[]): void {
    const statement = {};
    this.#clearPatience();
    this.#newest = statement;
    this.#underWay += 1;
    void this.#insert(batch).then(() => {
      this.#underWay -= 1;
      this.#startAfter(statement);
    });
  }

  /** Starts the appends that have waited for a statement. */
  #startAfter(statement: object): void {
    if (this.#newest === statement) {
      this.#newest = undefined;
      this.#clearPatience();
    }
    this.#start();
  }

  #clearPatience(): void {
    clearTimeout(this.#patience);
    this.#patience = undefined;
  }

  /** Returns how many of the waiting appends fit into one statement. */
  #findBatchEnd(): number {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ append }, index) => {
      bytes += measure(append);
      return index > 0 && (index >= MAX_ROWS || bytes > MAX_BYTES);
    });
    return end === -1 ? this.#waiting.length : end;
  }

  async #insert(batch: readonly Waiting[]): Promise<void> {
    try {
      const sequences = await this.#appender.insert(batch.map(({ append }) => append));
      for (const { append, resolve, reject } of batch) {
        const sequence = sequences.get(getTaskId(append));
        if (sequence !== undefined) resolve(sequence);
        else void this.#appender.insertUnderLock(append).then(resolve, reject);
      }
    } catch (error) {
      // If some appends weren't repeatable, the statement wasn't retried, so the repeatable ones are retried
      // separately.
      const wasRepeated = batch.every(({ append }) => isRepeatable(append));
      for (const { append, resolve, reject } of batch) {
        if (wasRepeated || !isRepeatable(append)) reject(error);
        else void this.#appender.insertUnderLock(append).then(resolve, reject);
      }
    }
  }
}

function measure(append: PreparedAppend): number {
  return sizeOfRecords(listRecords(append)) + ("draft" in append ? append.draft.sizeBytes : 0);
}
