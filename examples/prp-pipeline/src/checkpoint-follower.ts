import { type FSWatcher, watch } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { type CheckpointData, PrpCheckpointManager } from "waymark/prp";
import { type RunFolder, TASK_ID } from "./run-folder.js";

export type CheckpointListener = (checkpoint: CheckpointData, before: CheckpointData | undefined) => void;

/**
 * Reports each checkpoint once, as soon as it is on disk. Everything that this example prints about a run comes from
 * these checkpoints.
 */
export class CheckpointFollower {
  readonly #manager: PrpCheckpointManager;
  readonly #listener: CheckpointListener;
  readonly #watcher: FSWatcher;
  #known: readonly CheckpointData[] = [];
  #queue: Promise<void> = Promise.resolve();
  #waiting: Promise<void> | undefined;

  private constructor(manager: PrpCheckpointManager, watched: string, listener: CheckpointListener) {
    this.#manager = manager;
    this.#listener = listener;
    this.#watcher = watch(watched, () => {
      // If this refresh fails, the next awaited refresh also fails.
      this.refresh().catch(() => {});
    });
  }

  static async start(folder: RunFolder, listener: CheckpointListener): Promise<CheckpointFollower> {
    const watched = dirname(folder.checkpoints);
    await mkdir(watched, { recursive: true });
    return new CheckpointFollower(new PrpCheckpointManager(folder.session), watched, listener);
  }

  /** Returns all checkpoints that the listener has received, in order. */
  get checkpoints(): readonly CheckpointData[] {
    return this.#known;
  }

  /** Resolves when the listener has received all checkpoints that are on disk now. */
  refresh(): Promise<void> {
    // Calls share a refresh that hasn't begun yet, because it will see everything that they need.
    this.#waiting ??= this.#queue = this.#queue.then(() => {
      this.#waiting = undefined;
      return this.#read();
    });
    return this.#waiting;
  }

  async stop(): Promise<void> {
    this.#watcher.close();
    await this.refresh();
    await this.#manager.close();
  }

  async #read(): Promise<void> {
    const before = this.#known;
    // The next checkpoint replaces a checkpoint that was saved while a command ran, so the latter isn't a step.
    const isStep = ({ label }: CheckpointData) => label.startsWith("Paused: ") || !label.includes(" so far: ");
    this.#known = (await this.#manager.listCheckpoints(TASK_ID)).filter(isStep);
    for (const [index, checkpoint] of this.#known.entries()) {
      if (index >= before.length) this.#listener(checkpoint, this.#known[index - 1]);
    }
  }
}
