import type { HistoryText } from "./history.js";

/** Up to so many bytes of last texts are remembered, or one larger text: the next ones are compared with them. */
const MOST_BYTES = 32 * 1024 * 1024;

/** A text, and the number and the digest of the checkpoint that has it. */
export interface RememberedText extends HistoryText {
  readonly number: number;
  readonly sha256: string;
}

/** The last text of each history, by what the adapter knows the history by. Those used last stay. */
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
