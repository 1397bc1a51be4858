import type { AppendCondition } from "../../src/contract/adapter.js";
import { type CheckpointDraft, copyOf } from "../../src/contract/checkpoint.js";
import type { Append, Outcome } from "./writer.js";

/** The most appends of one transaction, and about the most text: what waits takes no more memory. */
const MOST = 256;
const MOST_BYTES = 4 * 1024 * 1024;

interface Waiting extends Append {
  readonly resolve: (sequence: number) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Appends that are called in one turn of the event loop share a transaction, and so one sync of the disk. One that is
 * called alone is made as soon as its caller waits.
 */
export class GroupCommit {
  readonly #commit: (appends: readonly Append[]) => Promise<readonly Outcome[]>;
  #waiting: Waiting[] = [];
  #bytes = 0;

  /** @param commit - Called in order, before it returns it has begun. */
  constructor(commit: (appends: readonly Append[]) => Promise<readonly Outcome[]>) {
    this.#commit = commit;
  }

  append(draft: CheckpointDraft, condition: AppendCondition | undefined): Promise<number> {
    // The caller may change both as soon as it has its promise.
    const copies = { draft: copyOf(draft), condition: { ...condition } };
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...copies, resolve, reject });
      this.#bytes += draft.sizeBytes;
      if (this.#waiting.length === MOST || this.#bytes >= MOST_BYTES) this.flush();
      else if (this.#waiting.length === 1) queueMicrotask(() => this.flush());
    });
  }

  /** Begins to make what waits: other calls come after it. */
  flush(): void {
    const group = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    if (group.length === 0) return;
    const made = this.#commit(group.map(({ draft, condition }) => ({ draft, condition })));
    // What is stored needn't stay in memory until the program waits.
    void settle(
      made,
      group.map(({ resolve, reject }) => ({ resolve, reject })),
    );
  }
}

async function settle(
  made: Promise<readonly Outcome[]>,
  callers: readonly Pick<Waiting, "resolve" | "reject">[],
): Promise<void> {
  try {
    for (const [index, outcome] of (await made).entries()) {
      if ("error" in outcome) callers[index]?.reject(outcome.error);
      else callers[index]?.resolve(outcome.sequence);
    }
  } catch (error) {
    for (const { reject } of callers) reject(error);
  }
}
