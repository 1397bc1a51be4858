import { AdapterCalls } from "../../src/contract/adapter-calls.js";
import { CheckpointCorruptError } from "../../src/contract/errors.js";
import { type FailedCall, storageFailure } from "./failure.js";
import { assertCanBeMade, UnreadableError } from "./file-io.js";

/** Runs the calls of a file adapter, and explains their errors. */
export class FolderCalls {
  readonly #root: string;
  readonly #calls: AdapterCalls;
  #hasLooked = false;

  constructor(name: string, root: string) {
    this.#root = root;
    // `run` explains errors itself, since their messages depend on the call.
    this.#calls = new AdapterCalls({ name, explain: (error) => error });
  }

  /** @throws {StorageError} The file system failed. @throws {CheckpointCorruptError} A file can't be read. */
  run<Result>(call: FailedCall, work: () => Promise<Result>): Promise<Result> {
    return this.#calls.run(async () => {
      try {
        // Throws at the first call if there is no store and none can be made.
        if (!this.#hasLooked) assertCanBeMade(this.#root);
        this.#hasLooked = true;
        return await work();
      } catch (error) {
        if (!(error instanceof UnreadableError)) throw storageFailure(error, call);
        throw new CheckpointCorruptError(
          `Could not ${call.doing}: ${call.path} is damaged: ${error.message}. ` +
            "It was left untouched, and nothing was changed. Move it away, or repair the storage.",
          { cause: error },
        );
      }
    });
  }

  /** Runs an iteration step by step. If the store is closed in between, the next step throws a ClosedError. */
  async *iterate<Item>(call: FailedCall, items: AsyncGenerator<Item, void, void>): AsyncGenerator<Item, void, void> {
    const step = () => this.run(call, () => items.next());
    try {
      for (let next = await step(); !next.done; next = await step()) yield next.value;
    } finally {
      await items.return();
    }
  }

  close(): Promise<void> {
    return this.#calls.close();
  }
}
