import type { CorruptRecord } from "waymark";

const SHOWN = 5;
const REMEMBERED = 1000;

/** Is told of what can't be read. */
export interface DamageSink {
  add(record: Pick<CorruptRecord, "location" | "reason">): Promise<void>;
}

/** What the command came across that can't be read: warned of, a few of them by name, and told by the exit code. */
export class Damage implements DamageSink {
  readonly #print: (warning: string) => Promise<void>;
  /** Where, so that what is met twice counts once. */
  readonly #places = new Set<string>();
  #count = 0;

  /** @param print - Shows a warning, whatever characters it has. */
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
    await this.warn(`passed over what can't be read at ${location}: ${reason}`);
  }

  async end(): Promise<void> {
    if (this.#count > SHOWN) await this.warn(`${this.#count - SHOWN} more can't be read`);
    if (this.#count > 0) await this.warn("What can't be read was left untouched; put it back from a backup or a copy.");
  }

  async warn(message: string): Promise<void> {
    await this.#print(message);
  }
}
