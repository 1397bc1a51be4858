const MAX_ENTRIES = 10_000;

/** Remembers something of each of the keys in use lately, to save looking it up again. Its size is bounded. */
export class RecentMap<Value> {
  readonly #entries = new Map<string, Value>();

  get(key: string): Value | undefined {
    return this.#entries.get(key);
  }

  set(key: string, value: Value): void {
    if (this.#entries.size >= MAX_ENTRIES) this.#entries.clear();
    this.#entries.set(key, value);
  }
}
