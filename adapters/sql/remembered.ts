import type { HistoryText } from "./history.js";

/** The most bytes of remembered texts. A single text is remembered even if it is larger. */
const MOST_BYTES = 32 * 1024 * 1024;

/** A text, and the number and digest of its checkpoint. */
export interface RememberedText extends HistoryText {
  readonly number: number;
  readonly sha256: string;
}

/**
 * Remembers the last text of each history, so that the next one can be compared with it. The key is the adapter's key
 * for the history. The least recently used text is dropped first.
 */
export class Remembered<Key, Text extends RememberedText = RememberedText> {
  readonly #texts = new Map<Key, Text>();
  #bytes = 0;

  get(key: Key): Text | undefined {
    return this.#texts.get(key);
  }

  set(key: Key, text: Text): void {
    this.delete(key);
    this.#texts.set(key, text);
    this.#bytes += text.text.length;
    for (const oldest of this.#texts.keys()) {
      if (this.#bytes <= MOST_BYTES || this.#texts.size === 1) break;
      this.delete(oldest);
    }
  }

  clear(): void {
    this.#texts.clear();
    this.#bytes = 0;
  }

  delete(key: Key): void {
    this.#bytes -= this.#texts.get(key)?.text.length ?? 0;
    this.#texts.delete(key);
  }
}
