/**
 * Iterates over the items of pages, one by one. This class takes one promise per item; an async generator would take
 * four, which is slow for logs of thousands of items.
 */
export class PagedItems<Item> implements AsyncIterableIterator<Item> {
  readonly #pages: AsyncGenerator<readonly Item[], void, void>;
  #page: Iterator<Item, undefined> = [][Symbol.iterator]();
  /** The next page, while it is being read. */
  #reading: Promise<IteratorResult<Item, undefined>> | undefined;

  constructor(pages: AsyncGenerator<readonly Item[], void, void>) {
    this.#pages = pages;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    const next = () => this.next();
    if (this.#reading) return this.#reading.then(next, next);
    const item = this.#page.next();
    if (!item.done) return Promise.resolve(item);
    this.#reading = this.#readPage();
    return this.#reading;
  }

  async return(): Promise<IteratorResult<Item, undefined>> {
    this.#page = [][Symbol.iterator]();
    await this.#pages.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #readPage(): Promise<IteratorResult<Item, undefined>> {
    try {
      for (;;) {
        const page = await this.#pages.next();
        if (page.done) return { done: true, value: undefined };
        this.#page = page.value[Symbol.iterator]();
        const item = this.#page.next();
        if (!item.done) return item;
      }
    } finally {
      this.#reading = undefined;
    }
  }
}
