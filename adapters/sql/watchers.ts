/** See `TaskLog.watch`. */
export type Changed = (isOwn?: boolean) => void;

/** The watchers of one adapter. */
export class Watchers {
  /** The watchers by key. Those under `undefined` wait for any due task. */
  readonly #byKey = new Map<string | undefined, Set<Changed>>();

  get isEmpty(): boolean {
    return this.#byKey.size === 0;
  }

  /** The keys of the tasks that are watched. */
  get keys(): readonly string[] {
    return [...this.#byKey.keys()].filter((key) => key !== undefined);
  }

  has(key: string): boolean {
    return this.#byKey.has(key);
  }

  /** @returns A function that removes the watcher. */
  add(changed: Changed, key: string | undefined): () => void {
    // Each call adds its own watcher, even if the same function is passed twice.
    const watcher: Changed = (isOwn) => changed(isOwn);
    const watchers = this.#byKey.get(key) ?? new Set();
    this.#byKey.set(key, watchers.add(watcher));
    return () => {
      if (watchers.delete(watcher) && watchers.size === 0 && this.#byKey.get(key) === watchers) this.#byKey.delete(key);
    };
  }

  tell(key: string | undefined, isOwn: boolean): void {
    for (const watcher of [...(this.#byKey.get(key) ?? [])]) watcher(isOwn);
  }

  tellAll(isOwn: boolean): void {
    for (const key of [...this.#byKey.keys()]) this.tell(key, isOwn);
  }

  clear(): void {
    this.#byKey.clear();
  }
}
