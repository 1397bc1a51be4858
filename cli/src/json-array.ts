import type { Output } from "./output.js";
import { jsonText } from "./printable.js";

/** A JSON array of any length in constant memory, one item per line. */
export class JsonArrayPrinter {
  readonly #output: Output;
  #isFirst = true;

  constructor(output: Output) {
    this.#output = output;
  }

  async add(item: unknown): Promise<void> {
    // The comma comes before the next item, because this item may be the last.
    await this.#output.line(`${this.#isFirst ? "[" : ","}${jsonText(item)}`);
    this.#isFirst = false;
  }

  async end(): Promise<void> {
    await this.#output.line(this.#isFirst ? "[]" : "]");
  }
}
