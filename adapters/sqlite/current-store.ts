import { createStore, isSameFile, type OpenStore, openStore, type StoreFormat, type StorePlace } from "./opening.js";

/** How long it may take until it is noticed that the file was removed or replaced: looking at each call costs a tenth of a save. */
const LOOK_AGAIN_MS = 100;

/** The store that a path names: opened at the first need, and again where somebody has removed or replaced the file. */
export class CurrentStore<Store extends { close(): void }> {
  readonly #place: StorePlace;
  readonly #format: StoreFormat<Store>;
  #open: OpenStore<Store> | undefined;
  #lookedAtMs = 0;

  constructor(place: StorePlace, format: StoreFormat<Store>) {
    this.#place = place;
    this.#format = format;
  }

  /** Whether {@link existing} has something open already. */
  get isOpen(): boolean {
    return this.#open !== undefined;
  }

  /** The store, if there is one: that which the path names, not one that was removed since. */
  existing(): Store | undefined {
    if (this.#open !== undefined) {
      const nowMs = performance.now();
      if (nowMs - this.#lookedAtMs < LOOK_AGAIN_MS) return this.#open.store;
      this.#lookedAtMs = nowMs;
      if (isSameFile(this.#place.path, this.#open.file)) return this.#open.store;
      this.close();
    }
    this.#open = openStore(this.#place, this.#format);
    return this.#open?.store;
  }

  /** The store; where there is none, it is made. */
  orNew(): Store {
    const existing = this.existing();
    if (existing !== undefined) return existing;
    this.#open = createStore(this.#place, this.#format);
    return this.#open.store;
  }

  close(): void {
    this.#open?.store.close();
    this.#open = undefined;
  }
}
