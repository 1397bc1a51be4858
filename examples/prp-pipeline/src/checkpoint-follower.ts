import { type FSWatcher, watch } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { type CheckpointData, PrpCheckpointManager } from "waymark/prp";
import { type RunFolder, TASK_ID } from "./run-folder.js";

export type CheckpointListener = (checkpoint: CheckpointData, before: CheckpointData | undefined) => void;

/** Reports each checkpoint once, as soon as it is on disk: all that this example says about a run is read from there. */
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
      // If it fails, the next refresh that somebody awaits fails too.
      this.refresh().catch(() => {});
    });
  }

  static async start(folder: RunFolder, listener: CheckpointListener): Promise<CheckpointFollower> {
    const watched = dirname(folder.checkpoints);
    await mkdir(watched, { recursive: true });
    return new CheckpointFollower(new PrpCheckpointManager(folder.session), watched, listener);
  }

  /** All that the listener has been told, in order. */
  get checkpoints(): readonly CheckpointData[] {
    return this.#known;
  }

  /** Resolves when the listener has been told what is on disk now. */
  refresh(): Promise<void> {
    // A refresh that has not begun yet will see what this one would see.
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
    // What is saved while a command runs is replaced by the next checkpoint: it is no step.
    const isStep = ({ label }: CheckpointData) => label.startsWith("Paused: ") || !label.includes(" so far: ");
    this.#known = (await this.#manager.listCheckpoints(TASK_ID)).filter(isStep);
    for (const [index, checkpoint] of this.#known.entries()) {
      if (index >= before.length) this.#listener(checkpoint, this.#known[index - 1]);
    }
  }
}
