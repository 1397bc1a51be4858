import { copyRecord } from "../../src/contract/checkpoint.js";
import type { Append, Outcome } from "./writer.js";

/** The most appends of one transaction, and about the most text: waiting appends take no more memory. */
const MOST = 256;
const MOST_BYTES = 4 * 1024 * 1024;

/** Who waits for an append. */
interface Caller {
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Appends that are called in one turn of the event loop share a transaction, and so one sync of the disk. One that is
 * called alone is made as soon as its caller waits.
 */
export class GroupCommit {
  readonly #commit: (appends: readonly Append[]) => Promise<readonly Outcome[]>;
  #appends: Append[] = [];
  /** The caller of each append. Kept apart from the drafts, so that stored drafts can be freed. */
  #callers: Caller[] = [];
  #bytes = 0;

  /** @param commit - Called in order, before it returns it has begun. */
  constructor(commit: (appends: readonly Append[]) => Promise<readonly Outcome[]>) {
    this.#commit = commit;
  }

  append({ draft, condition, options }: Append): Promise<number> {
    return new Promise((resolve, reject) => {
      // The caller may change all of them as soon as it has its promise.
      this.#appends.push({ draft: copyRecord(draft), condition: { ...condition }, options: { ...options } });
      this.#callers.push({ resolve, reject });
      this.#bytes += draft.sizeBytes;
      if (this.#appends.length === MOST || this.#bytes >= MOST_BYTES) this.flush();
      else if (this.#appends.length === 1) queueMicrotask(() => this.flush());
    });
  }

  /** Begins to make what waits: other calls come after it. */
  flush(): void {
    const [appends, callers] = [this.#appends, this.#callers];
    if (appends.length === 0) return;
    this.#appends = [];
    this.#callers = [];
    this.#bytes = 0;
    void settle(this.#commit(appends), callers);
  }
}

async function settle(made: Promise<readonly Outcome[]>, callers: readonly Caller[]): Promise<void> {
  try {
    for (const [index, outcome] of (await made).entries()) {
      if ("error" in outcome) callers[index]?.reject(outcome.error);
      else callers[index]?.resolve(outcome.sequence);
    }
  } catch (error) {
    for (const { reject } of callers) reject(error);
  }
}
