import type { CorruptRecord } from "waymark";

const SHOWN = 5;
const REMEMBERED = 1000;

/** Collects records that can't be read. */
export interface DamageSink {
  add(record: Pick<CorruptRecord, "location" | "reason">): Promise<void>;
}

/** The damage that a command met. It warns of the first few, and the exit code shows that there was some. */
export class Damage implements DamageSink {
  readonly #print: (warning: string) => Promise<void>;
  /** Each place counts once. */
  readonly #places = new Set<string>();
  #count = 0;

  /** @param print - Prints a warning, which may have any characters. */
  constructor(print: (warning: string) => Promise<void>) {
    this.#print = print;
  }

  get count(): number {
    return this.#count;
  }

  async add({ location, reason }: Pick<CorruptRecord, "location" | "reason">): Promise<void> {
    if (this.#places.has(location)) return;
    if (this.#places.size < REMEMBERED) this.#places.add(location);
    this.#count += 1;
    if (this.#count > SHOWN) return;
    await this.warn(`skipped a damaged record at ${location}: ${reason}`);
  }

  async end(): Promise<void> {
    if (this.#count > SHOWN) await this.warn(`${this.#count - SHOWN} more can't be read`);
    if (this.#count > 0) await this.warn("Damaged records were left untouched; restore them from a backup or a copy.");
  }

  async warn(message: string): Promise<void> {
    await this.#print(message);
  }
}
