import type { Append, PostgresWriter } from "./writer.js";

interface Waiting extends Append {
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/** How long a statement holds up the next one. After that, it probably waits for another process. */
const PATIENCE_MS = 50;
/** The most statements that run at once. */
const MOST_STATEMENTS = 4;
const MOST_ROWS = 128;
/** The most bytes of payloads in a batch. If a single payload is larger, it is a batch by itself. */
const MOST_BYTES = 1024 * 1024;

/**
 * Combines appends into one statement, and so into one commit. A single append is sent at once. Appends that come while
 * a statement is under way form the next one, which is sent once that one has ended or the new one is full.
 */
export class GroupCommit {
  readonly #writer: PostgresWriter;
  #waiting: Waiting[] = [];
  #underWay = 0;
  /** Runs while the newest statement holds up the next one. */
  #patience: NodeJS.Timeout | undefined;
  #isWoken = false;

  constructor(writer: PostgresWriter) {
    this.#writer = writer;
  }

  /** Appends to a task must not overlap: the caller must await an append before it makes the task's next one. */
  append(append: Append): Promise<number> {
    // Only copies and imports choose a sequence. They append one after another, so there is nothing to combine.
    if (append.options.sequence !== undefined || this.#writer.isFoldDue(append)) return this.#writer.append(append);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...append, resolve, reject });
      if (this.#isWoken) return;
      this.#isWoken = true;
      // All saves called before the next microtask form one batch.
      queueMicrotask(() => {
        this.#isWoken = false;
        this.#start();
      });
    });
  }

  #start(): void {
    while (this.#underWay < MOST_STATEMENTS && this.#waiting.length > 0) {
      const end = this.#endOfBatch();
      // A full batch has nothing to gain from waiting.
      if (this.#patience !== undefined && end === this.#waiting.length) return;
      this.#send(this.#waiting.splice(0, end));
    }
  }

  #send(batch: readonly Waiting[]): void {
    const startNext = () => {
      if (this.#patience === patience) this.#patience = undefined;
      this.#start();
    };
    const patience = setTimeout(startNext, PATIENCE_MS);
    this.#patience = patience;
    this.#underWay += 1;
    void this.#store(batch).then(() => {
      clearTimeout(patience);
      this.#underWay -= 1;
      startNext();
    });
  }

  /** How many of the waiting appends fit into one statement. */
  #endOfBatch(): number {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ draft }, index) => {
      bytes += draft.sizeBytes;
      return index > 0 && (index >= MOST_ROWS || bytes > MOST_BYTES);
    });
    return end === -1 ? this.#waiting.length : end;
  }

  async #store(batch: readonly Waiting[]): Promise<void> {
    const [first, ...others] = batch;
    if (first !== undefined && others.length === 0) return this.#storeAlone(first);
    try {
      const sequences = await this.#writer.appendMany(batch);
      for (const one of batch) {
        const sequence = sequences.get(one.draft.taskId);
        if (sequence === undefined) void this.#storeAlone(one);
        else one.resolve(sequence);
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  async #storeAlone(append: Waiting): Promise<void> {
    await this.#writer.append(append).then(append.resolve, append.reject);
  }
}
