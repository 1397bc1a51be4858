import type { Output } from "./output.js";
import { jsonText } from "./printable.js";

/** A JSON array of any length in constant memory, one item per line. */
export class JsonArrayPrinter {
  readonly #output: Output;
  readonly #open: string;
  readonly #close: string;
  #isFirst = true;

  /** @param open - The text before the first item: the array may be a part of an object. */
  constructor(output: Output, open = "[", close = "]") {
    this.#output = output;
    this.#open = open;
    this.#close = close;
  }

  async add(item: unknown): Promise<void> {
    // The comma comes before the next item, because this item may be the last.
    await this.#output.line(`${this.#isFirst ? this.#open : ","}${jsonText(item)}`);
    this.#isFirst = false;
  }

  /** @param close - Default: that of the constructor. Numbers that stand behind the items are known only now. */
  async end(close = this.#close): Promise<void> {
    await this.#output.line(this.#isFirst ? this.#open + close : close);
  }
}
