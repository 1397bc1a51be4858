import { Option } from "@commander-js/extra-typings";
import type { Output } from "./output.js";
import { jsonText } from "./printable.js";

/** Prints items one by one, so that memory stays constant for any number of items. */
export interface ItemPrinter<Item> {
  add(item: Item): Promise<void>;
  end(): Promise<void>;
}

/**
 * Prints the items of a query as they come. If the reader of the output is gone, it stops.
 *
 * @returns The number of items.
 */
export async function printItems<Item>(
  output: Output,
  items: Iterable<Item> | AsyncIterable<Item>,
  printer: ItemPrinter<Item>,
): Promise<number> {
  let count = 0;
  for await (const item of items) {
    if (output.isClosed) break;
    await printer.add(item);
    count += 1;
  }
  await printer.end();
  return count;
}

/** @param item - The word for an item: `task`. */
export function jsonOption(item: string) {
  return new Option("--json", `for programs: a JSON array, one ${item} per line`);
}

/** @param item - The word for an item: `task`. */
export function ndjsonOption(item: string) {
  return new Option("--ndjson", `for programs: JSON, one ${item} per line, without an array`).conflicts("json");
}

/** Returns the printer for programs if the options ask for it; otherwise `undefined`, for output that people read. */
export function jsonPrinter(
  output: Output,
  { json, ndjson }: { readonly json?: true | undefined; readonly ndjson?: true | undefined },
): ItemPrinter<unknown> | undefined {
  if (ndjson) return { add: (item) => output.line(jsonText(item)), end: async () => undefined };
  return json && new JsonArrayPrinter(output);
}

/** Prints a JSON array, one item per line. */
export class JsonArrayPrinter implements ItemPrinter<unknown> {
  readonly #output: Output;
  readonly #open: string;
  readonly #close: string;
  #isFirst = true;

  /** @param open - The text before the first item. It differs if the array is part of an object. */
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

  /** @param close - Default: the text given to the constructor. Pass it here if it contains totals of the items. */
  async end(close = this.#close): Promise<void> {
    await this.#output.line(this.#isFirst ? this.#open + close : close);
  }
}
